package temporalstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/command/v1"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// run returns the ID of the run of a workflow ID that is current, and how many events it has.
func (c peer) run(t testing.TB, id string) (run string, events int) {
	t.Helper()
	all := c.events(t, id)
	return all[0].GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId(), len(all)
}

// TestLongHistories: the history of a lease that is extended for long is continued as new, and the lease stays.
func TestLongHistories(t *testing.T) {
	c, cfg := shared(t), fresh()
	s, id := on(t, c, cfg), cfg.Prefix+":name"
	token := grant(t, s, "name", "a", time.Hour)
	first, _ := c.run(t, id)
	c.fill(t, id)
	for i := 1; ; i++ {
		if err := extend(t, s, "name", "a", token); err != nil {
			t.Fatal(err)
		}
		if run, _ := c.run(t, id); run != first {
			break
		}
		if i > 50*20 { // each 20 of them begin a continuation
			t.Fatalf("the run was not continued within %d writes", i)
		}
	}
	if _, events := c.run(t, id); events > 50 {
		t.Errorf("the new run has %d events", events)
	}
	other := on(t, c, cfg)
	if err := acquire(t, other, "name", "b", time.Hour).Err; err == nil {
		t.Error("the name was granted twice")
	}
	release(t, s, "name", "a", token, store.Forever)
	if again := grant(t, other, "name", "b", time.Hour); again <= token {
		t.Errorf("token %d after %d", again, token)
	}
}

// TestContinuationThatIsGivenUp: a process that takes the workflow task to continue a run, and dies, holds writes up until Temporal's time-out. They take effect.
func TestContinuationThatIsGivenUp(t *testing.T) {
	c, cfg := shared(t), fresh()
	s, id := on(t, c, cfg), cfg.Prefix+":name"
	token := grant(t, s, "name", "a", time.Hour)
	task, err := c.WorkflowService().PollWorkflowTaskQueue(background, &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: "default", TaskQueue: &taskqueue.TaskQueue{Name: id}, Identity: "the dead",
	})
	if err != nil || len(task.GetTaskToken()) == 0 {
		t.Fatalf("no task: %v", err)
	}
	if err := extend(t, s, "name", "a", token); err != nil {
		t.Fatal(err)
	}
	release(t, s, "name", "a", token, store.Forever)
	if again := grant(t, on(t, c, cfg), "name", "b", time.Hour); again <= token {
		t.Errorf("token %d after %d", again, token)
	}
	if run, _ := c.run(t, id); run != task.GetWorkflowExecution().GetRunId() {
		t.Error("a short run was continued as new")
	}
}

// TestContinuationAfterALateRead: a run is continued with the record up to its workflow task, also when a history that is read late lacks its end.
func TestContinuationAfterALateRead(t *testing.T) {
	c, cfg := shared(t), fresh()
	id := cfg.Prefix + ":name"
	s := on(t, connect(t, c.TemporalServer, grpc.WithUnaryInterceptor(
		func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			err := invoke(ctx, method, request, reply, conn, options...)
			if asked, ok := request.(*workflowservice.GetWorkflowExecutionHistoryRequest); ok && err == nil && asked.GetExecution().GetRunId() != "" {
				late := reply.(*workflowservice.GetWorkflowExecutionHistoryResponse).GetHistory()
				late.Events = late.GetEvents()[:min(len(late.GetEvents()), filling)] // it is long enough to be continued
			}
			return err
		})), cfg)
	token := grant(t, s, "name", "first", time.Hour)
	release(t, s, "name", "first", token, store.Forever)
	first, _ := c.run(t, id)
	c.fill(t, id)
	for i, more := 0, 5; more > 0; i++ {
		holder := fmt.Sprint(i)
		next := grant(t, s, "name", holder, time.Hour)
		if next <= token {
			t.Fatalf("token %d after %d", next, token)
		}
		token = next
		release(t, s, "name", holder, token, store.Forever)
		if run, _ := c.run(t, id); run != first {
			more--
		}
	}
}

const filling = 200

// fill makes the history of a run long, with signals that have no meaning.
func (c peer) fill(t testing.TB, id string) {
	t.Helper()
	for range filling {
		c.signal(t, id, "hello", `"there"`)
	}
}

// TestFullRun: a run that takes no more signals is continued as new, and takes them again.
func TestFullRun(t *testing.T) {
	c, cfg := shared(t), fresh()
	var full atomic.Bool
	s := on(t, through(t, c.TemporalServer, func(method string, send func() error) error {
		if method == "SignalWorkflowExecution" && full.Load() {
			return status.Error(codes.InvalidArgument, "exceeded workflow execution limit for signal events")
		}
		err := send()
		if method == "RespondWorkflowTaskCompleted" && err == nil {
			full.Store(false)
		}
		return err
	}), cfg)
	token := grant(t, s, "name", "a", time.Hour)
	c.fill(t, cfg.Prefix+":name")
	full.Store(true)
	servers.Wait(t, "an extension", func() bool { return extend(t, s, "name", "a", token) == nil })
	if full.Load() {
		t.Error("the run is full")
	}
}

// TestWriteBeforeTwoContinuations: a write that took effect is found however often its run was continued as new before its sender looks.
func TestWriteBeforeTwoContinuations(t *testing.T) {
	c, cfg := shared(t), fresh()
	id, other := cfg.Prefix+":name", on(t, c, cfg)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	var token int64
	var signals, reads atomic.Int64
	s := on(t, through(t, c.TemporalServer, func(method string, send func() error) error {
		if method == "GetWorkflowExecutionHistory" && reads.Add(1) > 50 {
			cancel()
		}
		err := send()
		if method == "SignalWorkflowExecution" && signals.Add(1) == 1 {
			if err := extend(t, other, "name", "a", token); err != nil { // replaces it
				t.Error(err)
			}
			record := last(c.events(t, id))
			c.continueAsNew(t, id, record)
			c.continueAsNew(t, id, record)
		}
		return err
	}), cfg)
	token = grant(t, s, "name", "a", time.Hour)
	errs, err := s.Extend(ctx, []store.Extension{{Name: "name", Holder: "a", Token: token, TTL: time.Hour}})
	if err = errors.Join(append(errs, err)...); err != nil || signals.Load() != 1 {
		t.Errorf("got %v after %d signals, want that the first one is found", err, signals.Load())
	}
}

// TestWriteToAForgottenRecord: a write whose run was ended, and whose name has another run since, is unknown at once: nothing leads to the run that has it.
func TestWriteToAForgottenRecord(t *testing.T) {
	c, cfg := shared(t), fresh()
	other := on(t, c, cfg)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	var token int64
	var signals, reads atomic.Int64
	s := on(t, through(t, c.TemporalServer, func(method string, send func() error) error {
		if method == "GetWorkflowExecutionHistory" && reads.Add(1) > 50 {
			cancel() // it looks for its write in vain
		}
		err := send()
		if method == "SignalWorkflowExecution" && signals.Add(1) == 1 {
			release(t, other, "name", "a", token, 0)
			if n, err := other.Sweep(background, 10); n != 1 || err != nil {
				t.Errorf("forgot %d, %v", n, err)
			}
			if next := grant(t, other, "name", "b", time.Hour); next <= token {
				t.Errorf("token %d after %d", next, token)
			}
		}
		return err
	}), cfg)
	token = grant(t, s, "name", "a", time.Hour)
	errs, err := s.Extend(ctx, []store.Extension{{Name: "name", Holder: "a", Token: token, TTL: time.Hour}})
	if err = errors.Join(append(errs, err)...); !errors.Is(err, store.ErrUnknown) || ctx.Err() != nil {
		t.Errorf("got %v after %d reads, want unknown at once", err, reads.Load())
	}
}

// TestRepeatedReleaseOfAForgottenRecord: a release took effect, its record was forgotten, and somebody else made it anew. The client library then repeats the signal,
// which has no effect on the new run. It is not taken for a release of a lost lease.
func TestRepeatedReleaseOfAForgottenRecord(t *testing.T) {
	c, cfg := shared(t), fresh()
	other := on(t, c, cfg)
	var signals atomic.Int64
	s := on(t, through(t, c.TemporalServer, func(method string, send func() error) error {
		err := send()
		if method == "SignalWorkflowExecution" && signals.Add(1) == 1 {
			if n, err := other.Sweep(background, 10); n != 1 || err != nil {
				t.Errorf("forgot %d, %v", n, err)
			}
			grant(t, other, "name", "b", time.Hour)
			err = send()
		}
		return err
	}), cfg)
	releasesUnknown(t, s)
}

// releasesUnknown releases a lease, and wants that the outcome is unknown.
func releasesUnknown(t *testing.T, s store.Store) {
	t.Helper()
	errs, err := s.Release(background, []store.Release{{Name: "name", Holder: "a", Token: grant(t, s, "name", "a", time.Hour)}})
	if err = errors.Join(append(errs, err)...); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want unknown", err)
	}
}

// TestRepeatedReleaseWithoutARun: a release took effect, and its record was forgotten, made anew and forgotten again. The signal is carried out once more, and finds no
// run that is open. That the lease was lost is not certain.
func TestRepeatedReleaseWithoutARun(t *testing.T) {
	c, cfg := shared(t), fresh()
	other := on(t, c, cfg)
	forget := func() {
		if n, err := other.Sweep(background, 10); n != 1 || err != nil {
			t.Errorf("forgot %d, %v", n, err)
		}
	}
	var signals atomic.Int64
	s := on(t, through(t, c.TemporalServer, func(method string, send func() error) error {
		err := send()
		if method == "SignalWorkflowExecution" && signals.Add(1) == 1 {
			forget()
			release(t, other, "name", "b", grant(t, other, "name", "b", time.Hour), 0)
			forget()
			err = send()
			var none *serviceerror.NotFound
			if !errors.As(err, &none) && status.Code(err) != codes.NotFound {
				t.Errorf("the second time: %v, want that no run is open", err)
			}
		}
		return err
	}), cfg)
	releasesUnknown(t, s)
}

// TestRepeatedSignalAfterAContinuation: a write took effect, another one replaced it, and the run was continued as new. The client library then repeats
// the signal, which has no effect on the new run. It is not taken for a write that was refused.
func TestRepeatedSignalAfterAContinuation(t *testing.T) {
	c, cfg := shared(t), fresh()
	id, other := cfg.Prefix+":name", on(t, c, cfg)
	var signals atomic.Int64
	s := on(t, through(t, c.TemporalServer, func(method string, send func() error) error {
		err := send()
		if method == "SignalWorkflowExecution" && signals.Add(1) == 1 {
			grant(t, other, "name", "b", time.Hour)
			c.continueAsNew(t, id, last(c.events(t, id)))
			err = send()
		}
		return err
	}), cfg)
	token := grant(t, s, "name", "a", time.Hour)
	release(t, s, "name", "a", token, store.Forever)
	if signals.Load() != 1 {
		t.Errorf("%d signals, want that the first one is found", signals.Load())
	}
}

// TestWriteBeforeAContinuation: a write that was refused just before its run was continued as new is found in that run. So its outcome is known.
func TestWriteBeforeAContinuation(t *testing.T) {
	c, cfg := shared(t), fresh()
	id, other := cfg.Prefix+":name", on(t, c, cfg)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	var token int64
	var signals, reads atomic.Int64
	s := on(t, through(t, c.TemporalServer, func(method string, send func() error) error {
		if method == "GetWorkflowExecutionHistory" && reads.Add(1) > 50 {
			cancel() // it looks for its write in vain
		}
		if method != "SignalWorkflowExecution" || signals.Add(1) > 1 {
			return send()
		}
		if err := extend(t, other, "name", "a", token); err != nil { // comes first
			t.Error(err)
		}
		record := last(c.events(t, id))
		err := send()
		c.continueAsNew(t, id, record)
		return err
	}), cfg)
	token = grant(t, s, "name", "a", time.Hour)
	errs, err := s.Extend(ctx, []store.Extension{{Name: "name", Holder: "a", Token: token, TTL: time.Hour}})
	if err = errors.Join(append(errs, err)...); err != nil || signals.Load() != 2 {
		t.Errorf("got %v after %d signals, want that the second one extends the lease", err, signals.Load())
	}
}

// continueAsNew continues a run with a record.
func (c peer) continueAsNew(t testing.TB, id, record string) {
	t.Helper()
	task, err := c.WorkflowService().PollWorkflowTaskQueue(background, &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: "default", TaskQueue: &taskqueue.TaskQueue{Name: id}, Identity: "test",
	})
	if err != nil {
		t.Error(err)
		return
	}
	_, err = c.WorkflowService().RespondWorkflowTaskCompleted(background, &workflowservice.RespondWorkflowTaskCompletedRequest{
		Namespace: "default", TaskToken: task.GetTaskToken(), Commands: []*command.Command{{
			CommandType: enums.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION,
			Attributes: &command.Command_ContinueAsNewWorkflowExecutionCommandAttributes{
				ContinueAsNewWorkflowExecutionCommandAttributes: &command.ContinueAsNewWorkflowExecutionCommandAttributes{
					WorkflowType: &common.WorkflowType{Name: "test"}, TaskQueue: &taskqueue.TaskQueue{Name: id},
					Input: &common.Payloads{Payloads: []*common.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(record)}}},
				},
			},
		}},
	})
	if err != nil {
		t.Error(err)
	}
}
