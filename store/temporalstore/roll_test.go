package temporalstore_test

import (
	"testing"
	"time"

	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

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
	servers.Wait(t, "another run", func() bool {
		if err := extend(t, s, "name", "a", token); err != nil {
			t.Fatal(err)
		}
		run, _ := c.run(t, id)
		return run != first
	})
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
}
