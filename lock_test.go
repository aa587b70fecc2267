package soloist_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// inBubble runs a test whose clock is fake, with two replicas on one store.
func inBubble(t *testing.T, test func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		test(t, s, soloisttest.NewReplica(t, s, soloist.Config{Replica: "a"}), soloisttest.NewReplica(t, s.Share(), soloist.Config{Replica: "b"}))
	})
}

var background = context.Background()

func mustLock(t testing.TB, c *soloist.Client, name string) *soloist.Lease {
	t.Helper()
	l, err := c.TryLock(background, name)
	if err != nil {
		t.Fatalf("TryLock(%q): %v", name, err)
	}
	return l
}

func TestLockExcludesAndTokensGrow(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		first := mustLock(t, a, "x")
		_, err := b.TryLock(background, "x")
		var held *soloist.HeldError
		if !errors.As(err, &held) || held.Holder != first.Holder() {
			t.Fatalf("while a holds it, b got: %v", err)
		}
		if err := first.Release(); err != nil {
			t.Fatal(err)
		}
		second := mustLock(t, b, "x")
		if second.Token() <= first.Token() {
			t.Fatalf("token %d after %d", second.Token(), first.Token())
		}
		if err := first.Release(); err != nil {
			t.Fatalf("releasing again: %v", err)
		}
		if err := second.Check(background); err != nil {
			t.Fatalf("a stale second release harmed the successor: %v", err)
		}
	})
}

func TestDoJoinsErrorsAndReleasesOnPanic(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		own := errors.New("own")
		if err := a.Do(background, "x", func(context.Context, *soloist.Lease) error { return own }); err != own { //nolint:errorlint // it is that error itself
			t.Fatalf("got %#v", err)
		}
		err := a.Do(background, "y", func(_ context.Context, lease *soloist.Lease) error {
			soloisttest.LoseLease(t, s, lease)
			return own
		})
		if !errors.Is(err, own) || !errors.Is(err, soloist.ErrLost) {
			t.Errorf("the function has failed, and its lease was lost: got %v, want both", err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = a.Do(background, "x", func(context.Context, *soloist.Lease) error { panic("boo") })
		}()
		mustLock(t, b, "x")
	})
}

func TestBadNames(t *testing.T) {
	c, _ := soloisttest.NewClient(t)
	never := func(context.Context, *soloist.Lease) error { t.Error("it ran"); return nil }
	lease := func(_ *soloist.Lease, err error) error { return err }
	for what, does := range map[string]func(name string) error{
		"TryLock":  func(name string) error { return lease(c.TryLock(background, name)) },
		"Lock":     func(name string) error { return lease(c.Lock(background, name)) },
		"Do":       func(name string) error { return c.Do(background, name, never) },
		"Campaign": func(name string) error { return lease(c.Campaign(background, name)) },
		"Lead":     func(name string) error { return c.Lead(background, name, never) },
		"Leader":   func(name string) error { _, err := c.Leader(background, name); return err },
	} {
		for _, name := range []string{"", "a\nb", "\xff", string(make([]byte, 300))} {
			var invalid *soloist.InvalidError
			if err := does(name); !errors.As(err, &invalid) {
				t.Errorf("%s: the name %q passed: %v", what, name, err)
			}
		}
	}
}

// A client that cannot be used asks nothing of its store, whatever is called, also for a name that others have had: it would wait for that in the store's queue.
func TestUnusableClient(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, c, other *soloist.Client) {
		acquire := func(c *soloist.Client) map[string]func() error {
			return map[string]func() error{
				"Lock": func() error { _, err := c.Lock(background, "x"); return err },
				"Campaign": func() error {
					ctx, cancel := context.WithTimeout(background, time.Second)
					defer cancel()
					_, err := c.Campaign(ctx, "x")
					return err
				},
				"Acquire": func() error { _, err := c.Semaphore("x", 1).Acquire(background); return err },
			}
		}
		for call, do := range acquire(other) {
			must(t, do())
			wantIs(t, call, acquire(c.With(soloist.Options{Wait: time.Second}))[call](), soloist.ErrHeld)
		}
		synctest.Wait() // the client has left the queues
		never := func(context.Context, *soloist.Lease) error { t.Error("the function was called"); return nil }
		job := soloist.Job{Name: "j", Schedule: soloist.Every(time.Minute), Do: func(context.Context, soloist.Run) error { t.Error("the job ran"); return nil }}
		refuses := func(c *soloist.Client, what string, refused func(error) bool) {
			t.Helper()
			before := s.Calls()
			calls := map[string]func() error{
				"TryLock":    func() error { _, err := c.TryLock(background, "x"); return err },
				"Do":         func() error { return c.Do(background, "x", never) },
				"Lead":       func() error { return c.Lead(background, "x", never) },
				"Leader":     func() error { _, err := c.Leader(background, "x"); return err },
				"TryAcquire": func() error { _, err := c.Semaphore("x", 2).TryAcquire(background); return err },
				"Acquire 2":  func() error { _, err := c.Semaphore("x", 2).Acquire(background); return err },
				"Run":        func() error { return c.Run(background, job) },
				"a Runner": func() error {
					r, err := c.NewRunner(job)
					if err == nil {
						err = r.Run(background)
					}
					return err
				},
			}
			maps.Copy(calls, acquire(c))
			for call, do := range calls {
				if err := do(); !refused(err) {
					t.Errorf("%s of %s: %v", call, what, err)
				}
			}
			check(t, "requests of "+what, s.Calls()-before, 0)
		}
		bad := func(err error) bool { _, is := errors.AsType[*soloist.InvalidError](err); return is }
		refuses(c.With(soloist.Options{TTL: 1, Wait: time.Second}), "a client with a bad TTL", bad)
		refuses(c.With(soloist.Options{Margin: -time.Second, Wait: time.Second}), "a client with a bad Margin", bad)
		must(t, c.Close())
		refuses(c, "a closed client", func(err error) bool { return errors.Is(err, soloist.ErrClosed) })
	})
}
