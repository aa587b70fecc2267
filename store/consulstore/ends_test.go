package consulstore_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// A kept context tells by a weak pointer to it whether anything of its call is kept.
type kept struct{ context.Context }

// TestCallsAreForgotten: nothing of a call is kept when it has returned, in the store or in the context of its caller: a store that runs for weeks makes millions of them.
func TestCallsAreForgotten(t *testing.T) {
	f := newFake(t)
	s := on(t, f.addr(), "soloist")
	within, end := context.WithCancel(background) // as that of a process is
	defer end()
	for what, do := range map[string]func(ctx context.Context) error{
		"a claim": func(ctx context.Context) error { _, err := acquire(ctx, s, "a", "x", time.Hour); return err },
		"a watch": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			wake, err := s.Watch(ctx, []string{"a"})
			cancel()
			for range wake { // until it is closed
			}
			return err
		},
	} {
		call := &kept{within}
		if err := do(call); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		left := weak.Make(call)
		servers.Wait(t, what+" to be forgotten", func() bool {
			if err := s.Ping(background); err != nil { // a connection may keep its last request until the next
				t.Fatal(err)
			}
			runtime.GC()
			return left.Value() == nil
		})
	}
}

// TestNoWatch: a store that is closed, and a caller who has given up, watch nothing.
func TestNoWatch(t *testing.T) {
	f := newFake(t)
	s := on(t, f.addr(), "soloist")
	var asked atomic.Int64
	f.meets(func(http.ResponseWriter, *http.Request, func()) bool { asked.Add(1); return false })
	given, up := context.WithCancel(background)
	up()
	if _, err := s.Watch(given, []string{"a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who has given up: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Watch(background, []string{"a"}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a store that is closed: %v", err)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("Consul was asked %d times", n)
	}
}

// A counted context counts what is to be called at its end.
type counted struct {
	context.Context

	waits atomic.Int32
}

// Value hides the context below from package context, which would not ask this one otherwise.
func (*counted) Value(any) any { return nil }

// AfterFunc is that of package context.
func (c *counted) AfterFunc(f func()) (stop func() bool) {
	c.waits.Add(1)
	of := context.AfterFunc(c.Context, f)
	return func() bool { c.waits.Add(-1); return of() }
}

// TestCloseEndsWhatWaits: Close ends a request whose reply does not come, and a query of a watch, before it returns. What became of a write is unknown then.
func TestCloseEndsWhatWaits(t *testing.T) {
	f := newFake(t)
	s := on(t, f.addr(), "soloist")
	caller := &counted{Context: t.Context()}
	wake, err := s.Watch(caller, []string{"watched"})
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{})
	f.meets(func(_ http.ResponseWriter, r *http.Request, carryOut func()) bool {
		if !writes(r) {
			return false
		}
		carryOut()
		close(waits)
		<-r.Context().Done()
		return true
	})
	claimed := make(chan error, 1)
	go func() { _, err := acquire(background, s, "a", "x", time.Hour); claimed <- err }()
	<-waits
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for range wake { // until it is closed
	}
	if n := caller.waits.Load(); n != 0 {
		t.Errorf("%d functions wait for the end of the caller of a watch that has ended", n)
	}
	select {
	case err := <-claimed:
		if !errors.Is(err, store.ErrUnknown) || !errors.Is(err, store.ErrClosed) {
			t.Errorf("the claim: %v, want that the store was closed, and that its outcome is unknown", err)
		}
	case <-time.After(servers.Patience):
		t.Error("the claim waits still")
	}
}
