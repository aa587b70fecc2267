package temporalstore

import (
	"context"
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

// long reports whether the history is to be continued as new by who has sent a write.
func (l *log) long(version string) bool {
	return (l.events >= longEvents || l.bytes >= longBytes) && l.took[version]%longEvery == 0
}

// rolls are the runs that are being continued as new, in the background.
type rolls struct {
	mu     sync.Mutex
	cancel map[*context.CancelFunc]bool
	closed bool
	work   sync.WaitGroup
}

// begin returns the context of another one, or false if there are enough, or the store is closed.
func (r *rolls) begin() (ctx context.Context, end func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.cancel) >= rollsAtOnce {
		return nil, nil, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollTimeout)
	if r.cancel == nil {
		r.cancel = map[*context.CancelFunc]bool{}
	}
	r.cancel[&cancel] = true
	r.work.Add(1)
	return ctx, func() {
		cancel()
		r.mu.Lock()
		delete(r.cancel, &cancel)
		r.mu.Unlock()
		r.work.Done()
	}, true
}

// close ends them.
func (r *rolls) close() {
	r.mu.Lock()
	r.closed = true
	for cancel := range r.cancel {
		(*cancel)()
	}
	r.mu.Unlock()
	r.work.Wait()
}

// roll continues the run of a name as new, in the background. If it fails, a later write tries again.
func (b *backend) roll(name string) {
	ctx, end, ok := b.rolls.begin()
	if !ok {
		return
	}
	go func() {
		defer end()
		b.continueAsNew(ctx, name)
	}()
}

// continueAsNew takes the workflow task of a run, whose result Temporal accepts only if no signal has come since: so the record that is read now is
// the one with which the next run begins.
func (b *backend) continueAsNew(ctx context.Context, name string) {
	id := b.cfg.workflowID(name)
	task, err := b.service.PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{Namespace: b.cfg.Namespace, TaskQueue: b.queue(id), Identity: identity})
	if err != nil || len(task.GetTaskToken()) == 0 {
		return
	}
	l, err := b.read(ctx, name, task.GetWorkflowExecution().GetRunId())
	if err == nil && l != nil && l.broken == nil && l.closed == "" && !l.gone() {
		if input, err := l.current.payloads(); err == nil {
			_, _ = b.service.RespondWorkflowTaskCompleted(ctx, &workflowservice.RespondWorkflowTaskCompletedRequest{
				Namespace: b.cfg.Namespace, TaskToken: task.GetTaskToken(), Identity: identity, Commands: []*command.Command{{
					CommandType: enums.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION,
					Attributes: &command.Command_ContinueAsNewWorkflowExecutionCommandAttributes{
						ContinueAsNewWorkflowExecutionCommandAttributes: &command.ContinueAsNewWorkflowExecutionCommandAttributes{
							WorkflowType: b.workflowType(), TaskQueue: b.queue(id), Input: input, WorkflowTaskTimeout: durationpb.New(taskTimeout),
						},
					},
				}},
			})
			return
		}
	}
	_, _ = b.service.RespondWorkflowTaskFailed(ctx, &workflowservice.RespondWorkflowTaskFailedRequest{Namespace: b.cfg.Namespace, TaskToken: task.GetTaskToken(), Identity: identity})
}
