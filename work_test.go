package soloist

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// What ends between the grant and the beginning of the function ends the function's context at once.
func TestContextThatBeginsTooLate(t *testing.T) {
	gone := errors.New("gone")
	for name, end := range map[string]func(*Client, *Lease){
		"the lease":  func(_ *Client, l *Lease) { l.endContext(gone) },
		"the client": func(c *Client, _ *Lease) { c.interrupt(gone) },
	} {
		t.Run(name, func(t *testing.T) {
			c, l := mustHold(t)
			defer c.Close()
			end(c, l)
			if ctx := l.work(t.Context()); ctx.Err() == nil || !errors.Is(context.Cause(ctx), gone) {
				t.Errorf("%v, because of %v; want that it has ended, because of what has ended", ctx.Err(), context.Cause(ctx))
			}
		})
	}
}

// Close releases no lease between the end of its function and what that leads to: Done would tell what is not recorded.
func TestCloseBetweenAFunctionAndItsRelease(t *testing.T) {
	c, err := New(memstore.New(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	el, err := c.Elements("x", ElementsOptions{}).Claim(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	err = el.run(t.Context(), Work{}, func(context.Context) error { return nil }, func(_, _ error) error {
		_ = c.Close()
		return el.Done()
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(c.store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Elements("x", ElementsOptions{}).Claim(t.Context(), "1"); !errors.Is(err, ErrDone) {
		t.Errorf("%v; want that it is recorded as processed, as Done had said", err)
	}
}

// Who ends what Close has released gets no answer that it is processed, failed or was held until then: nothing of that
// is recorded, and another may have it.
func TestWhatCloseHasReleasedIsNotToldAsRecorded(t *testing.T) {
	for what, end := range map[string]func(e *Elements, el *Element) error{
		"Done":    func(_ *Elements, el *Element) error { return el.Done() },
		"DoneAll": func(e *Elements, el *Element) error { return e.DoneAll([]*Element{el})[0] },
		"Fail":    func(_ *Elements, el *Element) error { return el.Fail(errors.New("no paper")) },
		"FailAll": func(e *Elements, el *Element) error { return e.FailAll([]*Element{el}, errors.New("no paper"))[0] },
		"Release": func(_ *Elements, el *Element) error { return el.Release() },
	} {
		t.Run(what, func(t *testing.T) {
			c, err := New(memstore.New(), Config{})
			if err != nil {
				t.Fatal(err)
			}
			e := c.Elements("x", ElementsOptions{})
			el, err := e.Claim(t.Context(), "1")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			b, err := New(c.store, Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			next, err := b.Elements("x", ElementsOptions{}).Claim(t.Context(), "1")
			if err != nil || next.Attempt() != 1 {
				t.Fatalf("attempt %d of the next holder, %v", next.Attempt(), err)
			}
			if err := end(e, el); !errors.Is(err, ErrLost) {
				t.Errorf("%v; want ErrLost, for another has it", err)
			}
		})
	}
}

// A busyStore keeps the releases of what was asked of jobs until goOn is closed.
type busyStore struct {
	*memstore.Store
	goOn chan struct{}
}

func (s busyStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if strings.HasPrefix(releases[0].Name, kindControl) {
		<-s.goOn
	}
	return s.Store.Release(ctx, releases)
}

// A pause that is being written while its client closes reaches the replicas: they do not take what they have read
// before for the latest.
func TestPauseThatIsWrittenDuringCloseIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		b, err := New(s, Config{})
		if err != nil {
			t.Fatal(err)
		}
		var runs atomic.Int32
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- b.Run(ctx, Job{Name: "x", Schedule: Every(time.Minute), Do: func(context.Context, Run) error { runs.Add(1); return nil }})
		}()
		time.Sleep(90 * time.Second)
		slow := busyStore{s.Share(), make(chan struct{})}
		a, err := New(slow, Config{})
		if err != nil {
			t.Fatal(err)
		}
		paused := make(chan error)
		go func() { paused <- a.Admin().Pause(t.Context(), "x", "for the test") }()
		time.Sleep(time.Second)
		_ = a.Close() // it leaves what is being written
		time.Sleep(time.Second)
		close(slow.goOn)
		answer := <-paused
		time.Sleep(time.Second)
		before := runs.Load()
		time.Sleep(10 * time.Minute)
		info, err := b.Admin().Job(t.Context(), "x")
		if err != nil || info.Paused == nil || !errors.Is(answer, ErrUnknown) {
			t.Errorf("the pause: %v, answered %v, %v", info.Paused, answer, err)
		}
		if n := runs.Load() - before; n > 0 {
			t.Errorf("%d runs of a job that is paused", n)
		}
		stop()
		if err := errors.Join(<-ended, b.Close()); err != nil {
			t.Error(err)
		}
	})
}

// mustHold returns a client, with the defaults, and the lock "x" that it has taken.
func mustHold(t *testing.T) (*Client, *Lease) {
	t.Helper()
	c, err := New(memstore.New(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.TryLock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	return c, l
}
