package zkstore

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestWatchThatCannotBeSet: a watch that ZooKeeper refuses, or that is begun when the connection is closed, is lost at once, and does not keep its caller waiting until the context ends.
func TestWatchThatCannotBeSet(t *testing.T) {
	conn, _, err := zk.Connect([]string{"127.0.0.1:1"}, time.Second, zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	s, err := New(conn, Config{})
	if err != nil {
		t.Fatal(err)
	}
	one := &wake{ch: make(chan struct{}, 1), names: []string{"a"}}
	of := &watched{wakes: []*wake{one}, left: make(chan struct{}), set: make(chan struct{})}
	s.watches.names["a"] = of
	s.watches.follow(conn, "a", of)
	select {
	case <-of.set:
	default:
		t.Error("its caller waits still")
	}
	if _, open := <-one.ch; open || len(s.watches.names) > 0 {
		t.Errorf("a value: %v, and %d names are watched, want the end of the watch and of the name", open, len(s.watches.names))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestNamesThatNobodyWaitsFor: with its last waiter a name that was left to others is followed no more, nor one whose node changes then: the next one to wait begins anew.
func TestNamesThatNobodyWaitsFor(t *testing.T) {
	w := newWatches(nil)
	begun := func(away bool, one *wake) *watched {
		return &watched{wakes: []*wake{one}, left: make(chan struct{}), set: make(chan struct{}), away: away}
	}
	stopped := 0
	one := &wake{ch: make(chan struct{}, 1), names: []string{"a", "b"}, stop: func() bool { stopped++; return true }}
	left, quiet := begun(true, one), begun(false, one)
	w.names["a"], w.names["b"] = left, quiet
	for range 2 {
		w.end(one)
	}
	if stopped != 1 {
		t.Errorf("%d times the end of its context was forgotten, want once", stopped)
	}
	for what, of := range map[string]*watched{"a": left, "b": quiet} {
		select {
		case <-of.left:
		default:
			t.Errorf("%s is said to have waiters", what)
		}
	}
	if w.names["a"] != nil || w.names["b"] != quiet {
		t.Errorf("a is followed: %t, b is: %t, want b alone", w.names["a"] != nil, w.names["b"] == quiet)
	}
	if w.stepBack("a", left) {
		t.Error("a goes on after its last waiter has gone")
	}
	two := &wake{ch: make(chan struct{}, 1), names: []string{"a"}}
	next := begun(false, two)
	w.names["a"] = next
	if w.stepBack("a", left) {
		t.Error("a is followed twice")
	}
	if w.lose("a", left); w.names["a"] != next || two.closed {
		t.Error("the end of the one that was before it has ended the next one")
	}
	if !w.stepBack("a", next) || !w.changed("a", next) || w.names["a"] != next {
		t.Error("a is left although somebody waits")
	}
	if w.changed("b", quiet) || w.names["b"] != nil {
		t.Error("b has changed and nobody waits, and it counts as followed still")
	}
}

// TestWatchThatIsGivenUp: a call that ends while its watch is being set, with its context or with the store, waits for the name no more.
func TestWatchThatIsGivenUp(t *testing.T) {
	for what, closes := range map[string]bool{"its context": false, "the store": true} {
		conn, _, err := zk.Connect([]string{"127.0.0.1:1"}, time.Second, zk.WithLogger(silent{}))
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		s, err := New(conn, Config{})
		if err != nil {
			t.Fatal(err)
		}
		of := &watched{left: make(chan struct{}), set: make(chan struct{})}
		s.watches.names["a"] = of
		waits := func() int {
			s.watches.mu.Lock()
			defer s.watches.mu.Unlock()
			return len(of.wakes)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { _, err := s.Watch(ctx, []string{"a"}); ended <- err }()
		servers.Wait(t, "the call to wait", func() bool { return waits() == 1 })
		want := context.Canceled
		if closes {
			want = store.ErrClosed
			_ = s.Close()
		} else {
			cancel()
		}
		select {
		case err := <-ended:
			if !errors.Is(err, want) || waits() != 0 {
				t.Errorf("%s ends: %v, and %d wait for the name", what, err, waits())
			}
		case <-time.After(servers.Patience):
			t.Fatalf("%s ends: it waits still", what)
		}
		cancel()
		_ = s.Close()
	}
}

// TestWatchAfterClose: a call that comes to its names when the store is closed waits for none of them, also if it has
// joined those who wait for another one before, and what it follows is told to nobody.
func TestWatchAfterClose(t *testing.T) {
	for what, end := range map[string]func(s *Store){
		"its watches":  func(s *Store) { s.watches.cancel() },
		"its requests": func(s *Store) { s.backend.mu.Lock(); s.backend.closed = true; s.backend.mu.Unlock() },
	} {
		s, err := open(given{}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		other := &wake{ch: make(chan struct{}, 1), names: []string{"a"}}
		of := &watched{wakes: []*wake{other}, left: make(chan struct{}), set: make(chan struct{})}
		s.watches.names["a"] = of
		end(s)
		one := &wake{ch: make(chan struct{}, 1), names: []string{"a", "b"}}
		if all, err := s.watches.join(nil, one); !errors.Is(err, store.ErrClosed) || all != nil {
			t.Errorf("%s have ended: %v, %v", what, all, err)
		}
		if !one.closed || len(of.wakes) != 1 || of.wakes[0] != other || other.closed || s.watches.names["b"] != nil {
			t.Errorf("%s have ended: the call waits still: %t, %d wait for a, and b is followed: %t", what,
				!one.closed, len(of.wakes), s.watches.names["b"] != nil)
		}
		s.backend.closed = false
		if err := s.Close(); err != nil || !other.closed {
			t.Errorf("after Close: %v, and the other one has ended: %t", err, other.closed)
		}
	}
}

// TestCloseWaitsForRequests: a request that nobody waits for any more has ended when Close returns: the owner of the connection may close it then.
func TestCloseWaitsForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{conns: given{}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var ended atomic.Bool
		_, err := call(ctx, b, func(*zk.Conn) (int, error) {
			time.Sleep(time.Minute)
			ended.Store(true)
			return 0, nil
		})
		if !errors.Is(err, errCutOff) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that its time is over", err)
		}
		if err := b.Close(); err != nil || !ended.Load() {
			t.Errorf("%v; the request has ended: %t", err, ended.Load())
		}
		if _, err := call(t.Context(), b, func(*zk.Conn) (int, error) { return 1, nil }); !errors.Is(err, store.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestClosedConnectionIsForgotten: the store keeps nothing of a connection that was closed, of which there is one after each loss.
func TestClosedConnectionIsForgotten(t *testing.T) {
	one, other := net.Pipe()
	defer other.Close()
	stopped := 0
	l := &link{Conn: one, stop: func() bool { stopped++; return true }}
	if err := l.Close(); err != nil || stopped != 1 {
		t.Errorf("%v, it was forgotten %d times, want once", err, stopped)
	}
}
