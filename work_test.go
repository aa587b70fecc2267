package soloist

import (
	"context"
	"errors"
	"testing"

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
