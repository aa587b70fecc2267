package grpcadapter_test

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/soloist-dev/soloist"
	grpcadapter "github.com/soloist-dev/soloist/adapter/grpc"
	"github.com/soloist-dev/soloist/elected"
	"github.com/soloist-dev/soloist/soloisttest"
)

// A service reports the lease that its calls are answered under.
type service struct {
	*health.Server
	leases chan *soloist.Lease
}

func (s service) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	s.leases <- soloist.LeaseFrom(ctx)
	return s.Server.Check(ctx, r)
}

// Watch ends with its context.
func (s service) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	s.leases <- soloist.LeaseFrom(stream.Context())
	<-stream.Context().Done()
	return status.FromContextError(stream.Context().Err()).Err()
}

// serve returns a client of a server whose calls the elector guards.
func serve(t *testing.T, e *elected.Elector) (grpc_health_v1.HealthClient, service) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := service{health.NewServer(), make(chan *soloist.Lease, 1)}
	server := grpc.NewServer(grpc.UnaryInterceptor(grpcadapter.UnaryInterceptor(e)), grpc.StreamInterceptor(grpcadapter.StreamInterceptor(e)))
	grpc_health_v1.RegisterHealthServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return grpc_health_v1.NewHealthClient(conn), s
}

// elect waits until the replica leads. ended receives how its Run has ended.
func elect(t testing.TB, e *elected.Elector, ended <-chan error) {
	t.Helper()
	for e.Check() != nil {
		select {
		case err := <-ended:
			t.Fatalf("the election has ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
}

// Only the leader answers calls and streams, under its lease, and a stream ends with the leadership.
func TestOnlyTheLeaderAnswersCalls(t *testing.T) {
	client, _ := soloisttest.NewClient(t)
	e := elected.New(client, "api")
	caller, s := serve(t, e)
	request := &grpc_health_v1.HealthCheckRequest{}
	refused := func(when string) {
		t.Helper()
		if _, err := caller.Check(t.Context(), request); status.Code(err) != codes.Unavailable {
			t.Errorf("%s, a call returned %v; want Unavailable", when, err)
		}
		stream, err := caller.Watch(t.Context(), request)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%s, a stream returned %v; want Unavailable", when, err)
		}
	}
	refused("before the election")

	ctx, resign := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	elect(t, e, ended)
	token := e.Lease().Token()
	if _, err := caller.Check(t.Context(), request); err != nil || (<-s.leases).Token() != token {
		t.Errorf("on the leader, a call returned %v", err)
	}
	stream, err := caller.Watch(t.Context(), request)
	if err != nil || (<-s.leases).Token() != token {
		t.Fatalf("on the leader, a stream returned %v", err)
	}
	resign()
	if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("the stream ended with %v; want Canceled", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	refused("after it resigned")
}

// BenchmarkUnaryInterceptor measures what the interceptor adds to a call.
func BenchmarkUnaryInterceptor(b *testing.B) {
	client, _ := soloisttest.NewClient(b)
	e := elected.New(client, "api")
	ctx, resign := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	defer func() { resign(); <-ended }()
	elect(b, e, ended)
	intercept := grpcadapter.UnaryInterceptor(e)
	for b.Loop() {
		if _, err := intercept(b.Context(), nil, nil, func(context.Context, any) (any, error) { return nil, nil }); err != nil {
			b.Fatal(err)
		}
	}
}
