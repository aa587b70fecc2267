package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/temporalstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func temporalBackend() backend {
	open := func(ctx context.Context, url string) (store.Store, error) { return temporalstore.OpenURL(ctx, url) }
	return backend{
		name: "Temporal", start: startTemporal, open: open,
		specs: []spec{
			{name: "floor: start a workflow, terminate it", cases: "ABD", floor: true, open: openTemporalFloor},
			oursOn(open),
		},
	}
}

func startTemporal(t servers.Test) (*server, error) {
	s := servers.Temporal(t)
	p, err := newTap(t, s.Addr, http2)
	if err != nil {
		return nil, err
	}
	return &server{url: "temporal://" + p.addr() + "/default", version: "Temporal's test server 1.30.1, in memory", pid: s.PID, count: p.count}, nil
}

// openTemporalFloor opens locks that are workflows without a worker: the workflow ID is the name, and the execution time-out is the TTL.
func openTemporalFloor(_ context.Context, url string, ttl time.Duration) (contender, error) {
	conn, err := grpc.NewClient(hostOf(url), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	c := workflowservice.NewWorkflowServiceClient(conn)
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			run, err := c.StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{
				Namespace: "default", WorkflowId: name, WorkflowType: &common.WorkflowType{Name: "floor"}, TaskQueue: &taskqueue.TaskQueue{Name: "floor"},
				RequestId: rand.Text(), WorkflowExecutionTimeout: durationpb.New(ttl),
			})
			var started *serviceerror.WorkflowExecutionAlreadyStarted
			if errors.As(serviceerror.FromStatus(serviceerror.ToStatus(err)), &started) {
				err = errHeld
			}
			return hold{unlock: func() error {
				_, err := c.TerminateWorkflowExecution(context.Background(), &workflowservice.TerminateWorkflowExecutionRequest{
					Namespace: "default", WorkflowExecution: &common.WorkflowExecution{WorkflowId: name, RunId: run.GetRunId()},
				})
				return err
			}}, err
		},
		close: func() { _ = conn.Close() },
	}, nil
}
