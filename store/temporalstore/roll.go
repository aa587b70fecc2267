package temporalstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/api/command/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// A history is continued as new when it has so many events, or bytes of writes. Temporal returns 256 events in one page, and takes 10,000 signals in one run.
const (
	longEvents = 200
	longBytes  = 1 << 20
	longEvery  = 20 // of the writes from then on, one in so many begins it
)

const (
	// rollTimeout is how long it may take. Temporal lets nobody ask for a task for less than 2 s.
	rollTimeout = 10 * time.Second

	// taskTimeout is how long Temporal keeps writes back if the process that continues the run ends in the middle of that.
	taskTimeout = 2 * time.Second

	// holdBack is how long a client keeps a write to a name back at most while it continues the run. Temporal does so itself for no longer than taskTimeout.
	holdBack = taskTimeout

	rollsAtOnce = 4
	rollTries   = 5
)

// long reports whether the history is to be continued as new.
func (l *log) long() bool { return l.events >= longEvents || l.bytes >= longBytes }

// begins reports whether the client that has sent a write begins that. It may be one whose write was refused: of many clients on one name, most are.
func (l *log) begins(version string) bool {
	return l.long() && max(l.took[version], l.refused[version])%longEvery == 0
}

// rolls are the names whose runs are being continued as new, in the background.
type rolls struct {
	mu     sync.Mutex
	byName map[string]*roll
	closed bool
	work   sync.WaitGroup
}

// A roll is one of them.
type roll struct {
	cancel context.CancelFunc
	done   chan struct{} // closed at its end
}

// begin returns the context of another one, or false if the name has one, there are enough, or the store is closed.
func (r *rolls) begin(name string) (ctx context.Context, end func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.byName) >= rollsAtOnce || r.byName[name] != nil {
		return nil, nil, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollTimeout)
	if r.byName == nil {
		r.byName = map[string]*roll{}
	}
	begun := &roll{cancel: cancel, done: make(chan struct{})}
	r.byName[name] = begun
	r.work.Add(1)
	return ctx, func() {
		cancel()
		r.mu.Lock()
		delete(r.byName, name)
		r.mu.Unlock()
		close(begun.done)
		r.work.Done()
	}, true
}

// wait waits until the run of a name is not being continued, for holdBack at most: a signal that comes in the midst of that makes it fail. So a client
// that writes without a pause would never succeed. It leaves the write half of the time that it has: a lease is not to be lost because a continuation,
// whose task another process may have taken, takes long.
func (r *rolls) wait(ctx context.Context, name string) {
	r.mu.Lock()
	begun := r.byName[name]
	r.mu.Unlock()
	if begun == nil {
		return
	}
	most := holdBack
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline)/2)
	}
	select {
	case <-begun.done:
	case <-time.After(most):
	case <-ctx.Done():
	}
}

// close ends them.
func (r *rolls) close() {
	r.mu.Lock()
	r.closed = true
	for _, begun := range r.byName {
		begun.cancel()
	}
	r.mu.Unlock()
	r.work.Wait()
}

// roll continues the run of a name as new, in the background. If it fails, a later write tries again.
func (b *backend) roll(name string) {
	ctx, end, ok := b.rolls.begin(name)
	if !ok {
		return
	}
	go func() {
		defer end()
		for range rollTries {
			if err := b.continueAsNew(ctx, name); err == nil {
				return
			}
		}
	}()
}

// continueAsNew takes the workflow task of a run, whose result Temporal accepts only if no signal has come since. The record with which the next run
// begins is that of the history up to the task: one that is read by itself may be older, and the next run would lose what has been written since. A run
// that is not long, such as one that has just been continued by another process, stays as it is. It is an error if a signal has come: its sender waits
// until that is in the history before it sends another one, so the next try is likely to succeed.
func (b *backend) continueAsNew(ctx context.Context, name string) error {
	id := b.cfg.workflowID(name)
	task, err := b.service.PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{Namespace: b.cfg.Namespace, TaskQueue: b.queue(id), Identity: identity})
	if err != nil || len(task.GetTaskToken()) == 0 {
		return err
	}
	l, err := b.readTask(ctx, name, task)
	if err != nil {
		return err // Temporal takes the task back after its time-out
	}
	response := &workflowservice.RespondWorkflowTaskCompletedRequest{Namespace: b.cfg.Namespace, TaskToken: task.GetTaskToken(), Identity: identity}
	if l.broken == nil && l.long() && !l.gone() {
		input, err := l.current.payloads()
		if err != nil {
			return err
		}
		response.Commands = []*command.Command{{
			CommandType: enums.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION,
			Attributes: &command.Command_ContinueAsNewWorkflowExecutionCommandAttributes{
				ContinueAsNewWorkflowExecutionCommandAttributes: &command.ContinueAsNewWorkflowExecutionCommandAttributes{
					WorkflowType: b.workflowType(), TaskQueue: b.queue(id), Input: input, WorkflowTaskTimeout: durationpb.New(taskTimeout),
				},
			},
		}}
	}
	_, err = b.service.RespondWorkflowTaskCompleted(ctx, response)
	return err
}

// readTask returns the log up to a workflow task. It is an error if the history ends before that.
func (b *backend) readTask(ctx context.Context, name string, task *workflowservice.PollWorkflowTaskQueueResponse) (*log, error) {
	l := newLog(name)
	l.add(task.GetHistory())
	if next := task.GetNextPageToken(); len(next) > 0 {
		if err := b.readPages(ctx, l, &workflowservice.GetWorkflowExecutionHistoryRequest{
			Namespace: b.cfg.Namespace, Execution: task.GetWorkflowExecution(), NextPageToken: next,
		}); err != nil {
			return nil, err
		}
	}
	if l.last < task.GetStartedEventId() {
		return nil, fmt.Errorf("the history ends at event %d, before the task, which is event %d", l.last, task.GetStartedEventId())
	}
	return l, nil
}
