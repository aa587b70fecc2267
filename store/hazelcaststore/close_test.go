//go:build unix

package hazelcaststore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/types"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/hazelcaststore"
	"github.com/soloist-dev/soloist/test/servers"
)

// forever is how long an attempt to connect may take in tests of what must not wait for it.
const forever = types.Duration(24 * time.Hour)

// TestCloseWhileConnecting: Close does not wait for an attempt to connect that is under way, and the call that began it ends, too.
func TestCloseWhileConnecting(t *testing.T) {
	for name, encrypted := range map[string]bool{"without TLS": false, "with TLS": true} {
		t.Run(name, func(t *testing.T) {
			addr, begun := silent(t)
			c := config(addr)
			c.Cluster.Network.ConnectionTimeout, c.Cluster.ConnectionStrategy.Timeout = forever, forever
			if encrypted {
				withTLS(&c)
			}
			s, err := hazelcaststore.New(c, hazelcaststore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			failed := make(chan error, 1)
			go func() { failed <- s.Ping(background) }()
			servers.Wait(t, "the attempt to connect", func() bool { return begun() > 0 })
			closes(t, s)
			if err := <-failed; !errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrUnknown) {
				t.Errorf("the call that waited: %v, want that the store is closed, and nothing unknown", err)
			}
		})
	}
}

// TestAttemptThatDoesNotEnd: a member that accepts a connection and then says nothing does not keep the store from ever connecting: the client library waits for TLS without
// an end, and the store begins another attempt.
func TestAttemptThatDoesNotEnd(t *testing.T) {
	addr, begun := silent(t)
	c := config(addr)
	c.Cluster.ConnectionStrategy.Timeout = types.Duration(100 * time.Millisecond)
	withTLS(&c)
	s, err := hazelcaststore.New(c, hazelcaststore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, s)
	servers.Wait(t, "a second attempt", func() bool {
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		if err := s.Ping(ctx); err == nil {
			t.Error("what says nothing is a member")
		}
		return begun() > 1
	})
}

// TestAttemptThatSucceedsTooLate: an attempt whose place another one has taken has failed, also if it has connected since: nobody would close its client.
func TestAttemptThatSucceedsTooLate(t *testing.T) {
	s := open(t, config(shared(t).Addr), hazelcaststore.Config{Map: fresh()})
	if err := hazelcaststore.LateAttempt(s); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want that its time is over", err)
	}
	if err := s.Ping(background); err != nil {
		t.Errorf("the store after that: %v", err)
	}
}

// withTLS makes a client that begins TLS with whoever accepts its connections.
func withTLS(c *hazelcast.Config) {
	c.Cluster.Network.SSL.Enabled = true
	c.Cluster.Network.SSL.SetTLSConfig(&tls.Config{ServerName: "member"})
}

// TestCloseDuringARequest: Close does not wait for a reply that may never come. The outcome of the request is unknown.
func TestCloseDuringARequest(t *testing.T) {
	m := shared(t)
	p, cfg := newProxy(t, m.Addr), hazelcaststore.Config{Map: fresh()}
	s, err := hazelcaststore.New(p.config(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	again(t, "a connection", s.Ping)
	p.next.Store(&fate{forward: true, silent: true})
	failed := make(chan error, 1)
	go func() {
		_, err := acquire(background, s, "a")
		failed <- err
	}()
	servers.Wait(t, "the write to be sent", func() bool { return p.met.Load() == 1 })
	closes(t, s)
	if err := <-failed; !errors.Is(err, store.ErrUnknown) {
		t.Errorf("the claim: %v, want an unknown outcome", err)
	}
}

// closes closes a store, and fails if that waits for what does not come.
func closes(t *testing.T, s *hazelcaststore.Store) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	servers.Wait(t, "Close", func() bool { return len(closed) == 1 })
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// silent returns the address of what accepts connections and says nothing, and how many were opened.
func silent(t *testing.T) (addr string, begun func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
		close(accepted)
		for conn := range accepted {
			_ = conn.Close()
		}
	})
	return l.Addr().String(), func() int { return len(accepted) }
}
