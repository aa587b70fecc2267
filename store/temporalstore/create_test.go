package temporalstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// An unread service replies that an execution runs already, as it does to a request that it carries out twice, and cannot return its history.
type unread struct {
	workflowservice.WorkflowServiceClient
}

// StartWorkflowExecution implements workflowservice.WorkflowServiceClient.
func (unread) StartWorkflowExecution(
	_ context.Context, r *workflowservice.StartWorkflowExecutionRequest, _ ...grpc.CallOption,
) (*workflowservice.StartWorkflowExecutionResponse, error) {
	return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("it runs", r.GetRequestId(), "run")
}

// GetWorkflowExecutionHistory implements workflowservice.WorkflowServiceClient.
func (unread) GetWorkflowExecutionHistory(
	context.Context, *workflowservice.GetWorkflowExecutionHistoryRequest, ...grpc.CallOption,
) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	return nil, status.Error(codes.PermissionDenied, "no histories")
}

// A forgetful service has no history of any run.
type forgetful struct {
	workflowservice.WorkflowServiceClient
}

// GetWorkflowExecutionHistory implements workflowservice.WorkflowServiceClient.
func (forgetful) GetWorkflowExecutionHistory(
	context.Context, *workflowservice.GetWorkflowExecutionHistoryRequest, ...grpc.CallOption,
) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	return nil, serviceerror.NewNotFound("workflow not found")
}

// TestExecutionThatIsListedForTooLong: an execution that Temporal still lists after it was deleted, and whose ID does not have the whole name, keeps no list and no sweep
// from the others.
func TestExecutionThatIsListedForTooLong(t *testing.T) {
	b := &backend{service: forgetful{}, cfg: Config{Namespace: "default", Prefix: "soloist"}}
	ids := []string{b.cfg.workflowID("a"), b.cfg.workflowID(strings.Repeat("Name", 60)), b.cfg.workflowID("b")}
	if names, foreign, err := b.names(t.Context(), ids); strings.Join(names, " ") != "a b" || len(foreign) != 0 || err != nil {
		t.Errorf("got %q, %v, %v; want a and b", names, foreign, err)
	}
}

// TestCreationThatCannotBeRead: if a name is taken already and nobody can say by which request, the outcome is unknown: it may have been this one.
func TestCreationThatCannotBeRead(t *testing.T) {
	b := &backend{service: unread{}, cfg: Config{Namespace: "default", Prefix: "soloist"}}
	r := b.create(t.Context(), casstore.Change{Name: "a", Record: &casstore.Record{Holder: "x", TTL: time.Hour, Write: "v", Granted: time.Unix(1, 0)}})
	if !errors.Is(r.Err, store.ErrUnknown) || r.Version != "" {
		t.Errorf("got %+v, want an unknown outcome", r)
	}
}

// A raced service has a run of a name that was forgotten and has ended. Each start is refused, since others start runs all the time.
type raced struct {
	workflowservice.WorkflowServiceClient
	history *history.History
	reuse   []enums.WorkflowIdReusePolicy // of the starts
}

// StartWorkflowExecution implements workflowservice.WorkflowServiceClient.
func (s *raced) StartWorkflowExecution(
	_ context.Context, r *workflowservice.StartWorkflowExecutionRequest, _ ...grpc.CallOption,
) (*workflowservice.StartWorkflowExecutionResponse, error) {
	s.reuse = append(s.reuse, r.GetWorkflowIdReusePolicy())
	return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("it runs", "another", fmt.Sprint(len(s.reuse)))
}

// GetWorkflowExecutionHistory implements workflowservice.WorkflowServiceClient.
func (s *raced) GetWorkflowExecutionHistory(
	_ context.Context, r *workflowservice.GetWorkflowExecutionHistoryRequest, _ ...grpc.CallOption,
) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	if r.GetExecution().GetRunId() != "1" {
		return nil, serviceerror.NewNotFound("workflow not found")
	}
	return &workflowservice.GetWorkflowExecutionHistoryResponse{History: s.history}, nil
}

// TestStartAfterALostRace: a run that was forgotten may be followed by another one. Who loses the race for that follows no other run: a person may have ended it.
func TestStartAfterALostRace(t *testing.T) {
	start, err := entry{Name: "a", Version: "v", Deleted: true}.payloads()
	if err != nil {
		t.Fatal(err)
	}
	s := &raced{history: &history.History{Events: []*history.HistoryEvent{
		{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, Attributes: &history.HistoryEvent_WorkflowExecutionStartedEventAttributes{
			WorkflowExecutionStartedEventAttributes: &history.WorkflowExecutionStartedEventAttributes{Input: start},
		}},
		{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED},
	}}}
	b := &backend{service: s, cfg: Config{Namespace: "default", Prefix: "soloist"}}
	r := b.create(t.Context(), casstore.Change{Name: "a", Record: &casstore.Record{Holder: "x", TTL: time.Hour, Write: "w", Granted: time.Unix(1, 0)}})
	want := []enums.WorkflowIdReusePolicy{
		enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}
	if !errors.Is(r.Err, casstore.ErrConflict) || !slices.Equal(s.reuse, want) {
		t.Errorf("got %v after starts with %v, want %v", r.Err, s.reuse, want)
	}
}
