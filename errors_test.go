package soloist_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// exits runs what is to end its goroutine, in a separate one, and reports whether it did.
func exits(does func()) (exited bool) {
	done := make(chan struct{})
	returned := false
	go func() {
		defer close(done)
		does()
		returned = true
	}()
	<-done
	return !returned
}

// A function that ends its goroutine, as t.FailNow does, ends what it ran under as one that fails, and its goroutine with it.
func TestFunctionThatExits(t *testing.T) {
	exit := func(context.Context, *soloist.Lease) error { runtime.Goexit(); return nil }
	for what, does := range map[string]func(*soloist.Client, func(context.Context, *soloist.Lease) error) error{
		"Do": func(c *soloist.Client, fn func(context.Context, *soloist.Lease) error) error {
			return c.Do(background, "x", fn)
		},
		"Lead": func(c *soloist.Client, fn func(context.Context, *soloist.Lease) error) error {
			return c.Lead(background, "x", fn)
		},
		"Semaphore.Do": func(c *soloist.Client, fn func(context.Context, *soloist.Lease) error) error {
			return c.Semaphore("x", 1).Do(background, fn)
		},
		"Process": func(c *soloist.Client, fn func(context.Context, *soloist.Lease) error) error {
			return c.Elements("x", soloist.ElementsOptions{}).Process(background, "1", func(ctx context.Context, el *soloist.Element) error { return fn(ctx, el.Lease) })
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
				if !exits(func() { _ = does(a, exit) }) {
					t.Error("its goroutine went on")
				}
				if err := does(b, ok); err != nil {
					t.Errorf("what it ran under was not given back: %v", err)
				}
				begin := time.Now()
				if err := a.Close(); err != nil || time.Since(begin) > 0 {
					t.Errorf("Close after %v: %v", time.Since(begin), err)
				}
			})
		})
	}
}

// An element whose function ends its goroutine has failed once.
func TestElementWhoseFunctionExits(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		invoices := a.Elements("invoices", soloist.ElementsOptions{Retry: soloist.Retry{Attempts: 3}})
		exits(func() {
			_ = invoices.Process(background, "1", func(context.Context, *soloist.Element) error { runtime.Goexit(); return nil })
		})
		for info, err := range a.Admin().Elements(background, "invoices") {
			if err != nil || info.Status != "waiting" || info.Attempts != 1 || !strings.Contains(info.Error, "Goexit") {
				t.Errorf("%+v, %v", info, err)
			}
		}
	})
}

// A job whose function ends its goroutine has failed, and runs again.
func TestJobWhoseFunctionExits(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		ctx, cancel := context.WithCancel(background)
		runs := 0
		job := soloist.Job{Name: "j", Schedule: soloist.Every(time.Minute), Do: func(context.Context, soloist.Run) error {
			if runs++; runs == 1 {
				runtime.Goexit()
			}
			return nil
		}}
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx, job) }()
		time.Sleep(150 * time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		info, err := b.Admin().Job(background, "j")
		if err != nil || runs != 2 || len(info.Runs) != 2 || info.Running != nil {
			t.Fatalf("%d runs; %+v, %v", runs, info, err)
		}
		if r := info.Runs[0]; r.Outcome != soloist.OutcomeFailed || !strings.Contains(r.Error, "Goexit") {
			t.Errorf("the first: %+v", r)
		}
	})
}

// Whatever a function runs under, its panic is the error of the call, after what it ran under has been given back.
func TestPanics(t *testing.T) {
	cause := errors.New("the cause")
	boo := func(context.Context, *soloist.Lease) error { panic(cause) }
	synctest.Test(t, func(t *testing.T) {
		c, _ := soloisttest.NewClient(t)
		for what, does := range map[string]func(func(context.Context, *soloist.Lease) error) error{
			"Do":   func(fn func(context.Context, *soloist.Lease) error) error { return c.Do(background, "x", fn) },
			"Lead": func(fn func(context.Context, *soloist.Lease) error) error { return c.Lead(background, "x", fn) },
			"Semaphore.Do": func(fn func(context.Context, *soloist.Lease) error) error {
				return c.Semaphore("x", 1).Do(background, fn)
			},
			"Process": func(fn func(context.Context, *soloist.Lease) error) error {
				return c.Elements("x", soloist.ElementsOptions{}).Process(background, "1", func(ctx context.Context, el *soloist.Element) error { return fn(ctx, el.Lease) })
			},
		} {
			var panicked *soloist.PanicError
			if err := does(boo); !errors.As(err, &panicked) || len(panicked.Stack) == 0 || !errors.Is(err, cause) {
				t.Errorf("%s: %v", what, err)
			}
			if err := does(ok); err != nil {
				t.Errorf("%s after a panic: %v", what, err)
			}
		}
	})
}

// A refusal says who has the name, or why nobody is told.
func TestRefusalsSayWhy(t *testing.T) {
	for want, refusal := range map[string]soloist.HeldError{
		`"x" is held`: {Name: "x"},
		`"x" is held for another 0s after its release`:                  {Name: "x", Token: 7},
		`"x" is held by a#1 for another 0s, or longer if it is renewed`: {Name: "x", Holder: "a#1"},
		`"x" is held by a#1 for another 2s, or longer if it is renewed`: {Name: "x", Holder: "a#1", Left: 2 * time.Second},
		`"x" is held: a transaction has locked it`:                      {Name: "x", Left: time.Second},
		`"x" is held for another 2s after its release`:                  {Name: "x", Token: 7, Left: 2 * time.Second},
		`"x" is held by a#1 for another 3s, or longer if it is renewed`: {Name: "x", Holder: "a#1", Token: 7, Left: 3 * time.Second},
	} {
		if got := refusal.Error(); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
