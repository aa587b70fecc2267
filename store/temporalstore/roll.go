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

	rollsAtOnce = 4
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
	cancel map[string]context.CancelFunc
	closed bool
	work   sync.WaitGroup
}

// begin returns the context of another one, or false if the name has one, there are enough, or the store is closed.
func (r *rolls) begin(name string) (ctx context.Context, end func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.cancel) >= rollsAtOnce || r.cancel[name] != nil {
		return nil, nil, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollTimeout)
	if r.cancel == nil {
		r.cancel = map[string]context.CancelFunc{}
	}
	r.cancel[name] = cancel
	r.work.Add(1)
	return ctx, func() {
		cancel()
		r.mu.Lock()
		delete(r.cancel, name)
		r.mu.Unlock()
		r.work.Done()
	}, true
}

// close ends them.
func (r *rolls) close() {
	r.mu.Lock()
	r.closed = true
	for _, cancel := range r.cancel {
		cancel()
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
		b.continueAsNew(ctx, name)
	}()
}

// continueAsNew takes the workflow task of a run, whose result Temporal accepts only if no signal has come since. The record with which the next run
// begins is that of the history up to the task: one that is read by itself may be older, and the next run would lose what has been written since. A run
// that is not long, such as one that has just been continued by another process, stays as it is.
func (b *backend) continueAsNew(ctx context.Context, name string) {
	id := b.cfg.workflowID(name)
	task, err := b.service.PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{Namespace: b.cfg.Namespace, TaskQueue: b.queue(id), Identity: identity})
	if err != nil || len(task.GetTaskToken()) == 0 {
		return
	}
	l, err := b.readTask(ctx, name, task)
	if err != nil {
		return // Temporal takes the task back after its time-out
	}
	response := &workflowservice.RespondWorkflowTaskCompletedRequest{Namespace: b.cfg.Namespace, TaskToken: task.GetTaskToken(), Identity: identity}
	if l.broken == nil && l.long() && !l.gone() {
		input, err := l.current.payloads()
		if err != nil {
			return
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
	_, _ = b.service.RespondWorkflowTaskCompleted(ctx, response)
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
