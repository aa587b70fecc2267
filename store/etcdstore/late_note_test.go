package etcdstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// A held stream keeps what the server sends while it is stopped, as a member that is behind the others does.
type heldStream struct {
	grpc.ClientStream
	of *heldStreams
}

type heldStreams struct {
	mu   sync.Mutex
	gate chan struct{} // nil while nothing is kept
}

func (h *heldStreams) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gate = make(chan struct{})
}

func (h *heldStreams) resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate != nil {
		close(h.gate)
		h.gate = nil
	}
}

func (h *heldStreams) open(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer,
	options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := next(ctx, desc, conn, method, options...)
	if err != nil || method != "/etcdserverpb.Watch/Watch" {
		return stream, err
	}
	return &heldStream{stream, h}, nil
}

func (s *heldStream) RecvMsg(reply any) error {
	err := s.ClientStream.RecvMsg(reply)
	s.of.mu.Lock()
	gate := s.of.gate
	s.of.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-s.Context().Done():
		}
	}
	return err
}

// TestLateNote: a holder that waits again is not granted what it had been handed before and has released, when the watch reports that only now.
func TestLateNote(t *testing.T) {
	server := shared(t)
	below := prefix()
	streams := &heldStreams{}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{server.URL}, DialTimeout: servers.Patience, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(streams.open)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	a, b := server.open(t, below), on(t, client, below)
	grant, err := acquire(background, a, "name", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(background)
	defer stop()
	first := waiting(ctx, b, "name", "b")
	servers.Wait(t, "a place in the queue", func() bool { return server.inQueue(t, below, "name") == 1 })
	streams.stop()
	defer streams.resume()
	releaseOf(t, a, "name", "x", grant.Token)
	stop() // the call ends, and has not heard that it was handed the name
	<-first
	handed := served(t, waiting(background, b, "name", "b"))
	releaseOf(t, b, "name", "b", handed.Token)
	if grant, err = acquire(background, a, "name", time.Hour); err != nil {
		t.Fatal(err)
	}
	again := waiting(background, b, "name", "b")
	servers.Wait(t, "a place in the queue", func() bool { return server.inQueue(t, below, "name") == 1 })
	streams.resume()
	select {
	case out := <-again:
		t.Fatalf("b has %+v, %v while a holds the name with the token %d", out.Grant, out.Err, grant.Token)
	case <-time.After(time.Second): // nothing else shows that nothing is granted
	}
	releaseOf(t, a, "name", "x", grant.Token)
	if got := served(t, again); got.Token <= grant.Token {
		t.Errorf("the token %d after %d", got.Token, grant.Token)
	}
}

// TestLingerAfterAWaiterHasEnded: who waits hears of a linger, also if the process that came last into the queue is gone.
func TestLingerAfterAWaiterHasEnded(t *testing.T) {
	server := shared(t)
	below := prefix()
	a, b := server.open(t, below), server.open(t, below)
	grant, err := acquire(background, a, "name", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	claim := store.Claim{Name: "name", Holder: "b", TTL: time.Hour}
	told := make(chan error, 1)
	queue := func() {
		_, _, err := b.Queue(background, claim)
		told <- err
	}
	go queue()
	servers.Wait(t, "a place in the queue", func() bool { return server.inQueue(t, below, "name") == 1 })
	if _, err := server.client.Delete(background, below+"n/name\twaiting"); err != nil { // as etcd does when the lease of the last one ends
		t.Fatal(err)
	}
	if err := <-told; !errors.Is(err, store.ErrHeld) {
		t.Fatal(err)
	}
	go queue()
	servers.Wait(t, "the key by which waiters hear", func() bool {
		reply, err := server.client.Get(background, below+"n/name\twaiting", clientv3.WithCountOnly())
		return err == nil && reply.Count == 1
	})
	errs, err := a.Release(background, []store.Release{{Name: "name", Holder: "x", Token: grant.Token, Linger: time.Hour}})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-told:
		if !errors.Is(err, store.ErrHeld) {
			t.Error(err)
		}
	case <-time.After(servers.Patience):
		t.Error("b has not heard that the name lingers")
	}
}

// TestTwoCallsOfOneHolder: two goroutines may call Queue for the same holder.
func TestTwoCallsOfOneHolder(t *testing.T) {
	server := shared(t)
	below := prefix()
	a, b := server.open(t, below), server.open(t, below)
	lease := server.ticket(t, below, "name", `{"ttl_ns":60000000000,"inbox":"stopped","session":"SESSION"}`)
	defer func() { _, _ = server.client.Revoke(background, lease) }()
	if _, err := acquire(background, a, "name", 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	one, two := waiting(background, b, "name", "b"), waiting(background, b, "name", "b")
	if x, y := served(t, one), served(t, two); x.Token != y.Token {
		t.Errorf("%+v and %+v", x, y)
	}
}
