package sqlshared_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

// A table is what watches look at: how names look, and how often that was asked. A test changes it by change, and reads it when all else waits
// (synctest.Wait).
type table struct {
	mu     sync.Mutex
	sights map[string]int
	err    error
	looks  int
	asked  []string // the names of the last look
	gone   bool     // nothing comes from the server any more
}

func (t *table) change(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do()
}

func (t *table) look(ctx context.Context, names func() []string) (map[string]int, error) {
	t.mu.Lock()
	if t.gone {
		t.mu.Unlock()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	defer t.mu.Unlock()
	t.looks++
	t.asked = names()
	seen := map[string]int{}
	for _, name := range t.asked {
		seen[name] = t.sights[name]
	}
	return seen, t.err
}

const interval = 10 * time.Millisecond

// watching runs a test with watches on a table, in a bubble. The watches are closed at the end, so nothing may be left running.
func watching(t *testing.T, test func(t *testing.T, w *sqlshared.Watches[int], on *table)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := sqlshared.NewWatches[int](ctx, func(time.Duration) time.Duration { return interval })
		test(t, w, &table{sights: map[string]int{}})
		cancel()
		w.Close()
	})
}

func add(t *testing.T, w *sqlshared.Watches[int], on *table, ctx context.Context, names ...string) <-chan struct{} {
	t.Helper()
	seen := map[string]int{}
	for _, name := range names {
		seen[name] = on.sights[name]
	}
	wake, err := w.Add(ctx, names, seen, on.look)
	if err != nil {
		t.Fatal(err)
	}
	return wake
}

// state is what a channel of wake-ups has: a value, nothing, or its end.
func state(wake <-chan struct{}) string {
	select {
	case _, open := <-wake:
		if open {
			return "woken"
		}
		return "closed"
	default:
		return "quiet"
	}
}

func expect(t *testing.T, what string, wake <-chan struct{}, want string) {
	t.Helper()
	if got := state(wake); got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// nextLook lets the watches look once more.
func nextLook() {
	time.Sleep(interval)
	synctest.Wait()
}

// A server that is gone without a word ends the watches, whose owners ask for new ones; they do not wait for as long as the connection seems to be there.
func TestLookAtAServerThatIsGoneEnds(t *testing.T) {
	watching(t, func(t *testing.T, w *sqlshared.Watches[int], on *table) {
		x := add(t, w, on, t.Context(), "x")
		on.change(func() { on.gone = true })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		expect(t, "the server is gone", x, "closed")
		on.change(func() { on.gone = false })
		x = add(t, w, on, t.Context(), "x")
		on.change(func() { on.sights["x"] = 2 })
		nextLook()
		expect(t, "the server is back", x, "woken")
	})
}

func TestChangedNamesWakeTheirListeners(t *testing.T) {
	watching(t, func(t *testing.T, w *sqlshared.Watches[int], on *table) {
		on.change(func() { on.sights["x"] = 1 })
		x, both, y := add(t, w, on, t.Context(), "x"), add(t, w, on, t.Context(), "x", "y"), add(t, w, on, t.Context(), "y")
		nextLook()
		expect(t, "nothing has changed", x, "quiet")
		on.change(func() { on.sights["x"] = 2 })
		nextLook()
		expect(t, "x has changed, x", x, "woken")
		expect(t, "x has changed, x and y", both, "woken")
		expect(t, "x has changed, y", y, "quiet")
		nextLook()
		expect(t, "x has not changed again", x, "quiet")
		on.change(func() { delete(on.sights, "x") })
		nextLook()
		expect(t, "x was forgotten", x, "woken")
		w.Wake("y")
		expect(t, "y was released here", y, "woken")
		if on.looks != 4 {
			t.Errorf("%d looks for 4 intervals", on.looks)
		}
	})
}

// Who stops listening to a name leaves it to the others that listen to it.
func TestOneOfTwoListenersLeaves(t *testing.T) {
	watching(t, func(t *testing.T, w *sqlshared.Watches[int], on *table) {
		ctx, leave := context.WithCancel(t.Context())
		first, other := add(t, w, on, ctx, "x", "y"), add(t, w, on, t.Context(), "x")
		leave()
		synctest.Wait()
		expect(t, "who has left", first, "closed")
		on.change(func() { on.sights["x"] = 1 })
		nextLook()
		expect(t, "x has changed", other, "woken")
		w.Wake("x")
		expect(t, "x was released here", other, "woken")
	})
}

// One goroutine looks at the names of all watches while there are any, and at no others.
func TestNobodyLooksWithoutWatches(t *testing.T) {
	watching(t, func(t *testing.T, w *sqlshared.Watches[int], on *table) {
		for range 2 {
			on.change(func() { on.looks = 0 })
			ctx, cancel := context.WithCancel(t.Context())
			x, y := add(t, w, on, ctx, "x"), add(t, w, on, t.Context(), "y")
			cancel()
			synctest.Wait()
			expect(t, "its context has ended", x, "closed")
			nextLook()
			if len(on.asked) != 1 || on.asked[0] != "y" {
				t.Errorf("looked at %v, want y", on.asked)
			}
			end, cancel := context.WithCancel(t.Context())
			add(t, w, on, end, "z")
			cancel()
			on.change(func() { on.err = errors.New("no connection") })
			nextLook()
			on.change(func() { on.err = nil })
			expect(t, "a look failed", y, "closed")
			time.Sleep(10 * interval)
			synctest.Wait()
			if on.looks != 2 {
				t.Errorf("%d looks, want 2: nobody watches any more", on.looks)
			}
		}
	})
}

func TestClosedWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := sqlshared.NewWatches[int](ctx, func(time.Duration) time.Duration { return time.Hour })
		on := &table{sights: map[string]int{}}
		x := add(t, w, on, t.Context(), "x")
		cancel()
		w.Close()
		expect(t, "after Close", x, "closed")
		if _, err := w.Add(t.Context(), []string{"x"}, nil, on.look); !errors.Is(err, store.ErrClosed) {
			t.Errorf("a watch after Close: %v", err)
		}
		if on.looks != 0 {
			t.Errorf("%d looks after the end", on.looks)
		}
	})
}

// What this handle releases, and what changes by others, is a reason to look often, as a new watch is.
func TestReleasesAreLively(t *testing.T) {
	for what, happens := range map[string]func(*sqlshared.Watches[int], *table){
		"a release of this handle": func(w *sqlshared.Watches[int], _ *table) { w.Wake("a") },
		"a new watch": func(w *sqlshared.Watches[int], on *table) {
			if _, err := w.Add(context.Background(), []string{"b"}, nil, on.look); err != nil {
				t.Error(err)
			}
		},
		"a change by others": func(_ *sqlshared.Watches[int], on *table) { on.change(func() { on.sights["a"] = 1 }) },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var quiet time.Duration // before the last look
			w := sqlshared.NewWatches[int](ctx, func(d time.Duration) time.Duration { quiet = d; return interval })
			on := &table{sights: map[string]int{}}
			add(t, w, on, t.Context(), "a")
			time.Sleep(100 * interval)
			synctest.Wait()
			before := quiet
			happens(w, on)
			time.Sleep(interval + interval/2)
			synctest.Wait()
			if before < 90*interval || quiet > 2*interval {
				t.Errorf("%s: it was quiet for %v before, and then for %v", what, before, quiet)
			}
			cancel()
			w.Close()
		})
	}
}
