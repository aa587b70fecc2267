package temporalstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

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
