package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

func TestWaitersAreServedInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		l := mustLock(t, b, "x")
		var order []int
		var wg sync.WaitGroup
		for i := range 5 {
			synctest.Wait()
			wg.Go(func() {
				mine, err := a.Lock(background, "x")
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				_ = mine.Release()
			})
		}
		synctest.Wait()
		start := time.Now()
		_ = l.Release()
		wg.Wait()
		if fmt.Sprint(order) != "[0 1 2 3 4]" {
			t.Errorf("order %v", order)
		}
		if waited := time.Since(start); waited > 100*time.Millisecond {
			t.Errorf("it took %v to hand it on: nobody was woken", waited)
		}
	})
}

func TestWaitEndsWithItsBound(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		mustLock(t, a, "x")
		start := time.Now()
		err := b.With(soloist.Options{Wait: 7 * time.Second}).Do(background, "x", nil)
		if !errors.Is(err, soloist.ErrHeld) || time.Since(start) != 7*time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(background, 3*time.Second)
		defer cancel()
		if _, err := b.Lock(ctx, "x"); !errors.Is(err, soloist.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got: %v", err)
		}
	})
}

// Wait is for how long Do, Process and Claim wait, too; a leader waits for as long as its context allows.
func TestWhoHeedsWait(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		elements := func(c *soloist.Client) *soloist.Elements { return c.Elements("x", soloist.ElementsOptions{}) }
		mustLock(t, a, "x")
		if _, err := a.Semaphore("x", 1).Acquire(background); err != nil {
			t.Fatal(err)
		}
		if _, err := elements(a).Claim(background, "1"); err != nil {
			t.Fatal(err)
		}
		leader, err := a.Campaign(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		patient := b.With(soloist.Options{Wait: time.Minute})
		for what, call := range map[string]func() error{
			"Do":           func() error { return patient.Do(background, "x", ok) },
			"Lock":         func() error { _, err := patient.Lock(background, "x"); return err },
			"Semaphore.Do": func() error { return patient.Semaphore("x", 1).Do(background, ok) },
			"Acquire":      func() error { _, err := patient.Semaphore("x", 1).Acquire(background); return err },
			"Process":      func() error { return elements(patient).Process(background, "1", ok) },
			"Claim":        func() error { _, err := elements(patient).Claim(background, "1"); return err },
		} {
			begin := time.Now()
			if err := call(); !errors.Is(err, soloist.ErrHeld) || time.Since(begin) != time.Minute {
				t.Errorf("%s: %v, after %v", what, err, time.Since(begin))
			}
		}
		time.AfterFunc(time.Hour, func() { _ = leader.Release() })
		begin := time.Now()
		if err := patient.Lead(background, "x", ok); err != nil || time.Since(begin) < time.Hour {
			t.Errorf("Lead: %v, after %v", err, time.Since(begin))
		}
	})
}

// An element for which somebody waits is reported as processed when it is.
func TestProcessWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		el, err := a.Elements("x", soloist.ElementsOptions{}).Claim(background, "1")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() { _ = el.Done() })
		ran := false
		err = b.With(soloist.Options{Wait: -1}).Elements("x", soloist.ElementsOptions{}).Process(background, "1", func(context.Context, *soloist.Element) error {
			ran = true
			return nil
		})
		if !errors.Is(err, soloist.ErrDone) || ran {
			t.Errorf("%v, ran: %v", err, ran)
		}
	})
}

// A refusal names what is held, also if other calls of the same client are in the way.
func TestRefusalAfterAWaitIsAHeldError(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		holder := mustLock(t, a, "x")
		refusals := make(chan error)
		wait := func(c *soloist.Client, d time.Duration) {
			go func() {
				refusals <- c.With(soloist.Options{Wait: d}).Do(background, "x", func(context.Context, *soloist.Lease) error { return nil })
			}()
			synctest.Wait()
		}
		wait(a, 3*time.Second)
		wait(a, time.Second) // behind the first one
		wait(b, 2*time.Second)
		known := 0
		for range 3 {
			err := <-refusals
			var held *soloist.HeldError
			if !errors.As(err, &held) || held.Name != "x" || held.Kind != soloist.KindLock || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want a *HeldError that is also the end of the wait", err)
				continue
			}
			if held.Holder == holder.Holder() && held.Token == holder.Token() && held.Left > 0 {
				known++
			}
		}
		check(t, "refusals that name the holder", known, 2) // one call waited behind another of its client
	})
}

// A wakerThatEnds calls end when a waiter subscribes, so between a refusal and the next request.
type wakerThatEnds struct {
	store.Store
	end func()
}

func (w *wakerThatEnds) Watch(context.Context, []string) (<-chan struct{}, error) {
	w.end()
	return make(chan struct{}), nil
}

// The end of a wait is a refusal, also if it comes just before a request. It is none if nothing was ever refused.
func TestWaitThatEndsBeforeARequestIsARefusal(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		b := soloisttest.NewReplica(t, &wakerThatEnds{s, cancel}, soloist.Config{})
		mustLock(t, a, "x")
		if _, err := b.Lock(ctx, "x"); !errors.Is(err, soloist.ErrHeld) || !errors.Is(err, context.Canceled) {
			t.Errorf("a wait that ends: %v", err)
		}
		for name, c := range map[string]*soloist.Client{"by the store's queue": a, "by watching": b} {
			if _, err := c.Lock(ctx, "y"); errors.Is(err, soloist.ErrHeld) || !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "nil") {
				t.Errorf("%s, a wait that never began: %v", name, err)
			}
		}
	})
}

// A deafAtFirst store ends the first subscription at once.
type deafAtFirst struct {
	*soloisttest.Store
	watches int
	first   context.Context // of the first
	open    bool            // the first was not given up before the next
}

func (s *deafAtFirst) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if s.watches++; s.watches == 1 {
		ended := make(chan struct{})
		close(ended)
		s.first = ctx
		return ended, nil
	}
	s.open = s.open || s.first.Err() == nil
	return s.Store.Watch(ctx, names)
}

func (s *deafAtFirst) Queue(context.Context, store.Claim) (store.Grant, time.Duration, error) {
	return store.Grant{}, 0, errors.ErrUnsupported
}

// A subscription that is lost is made anew, rather than asking again and again.
func TestLostSubscriptionIsMadeAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		d := &deafAtFirst{Store: s.Share()}
		b := soloisttest.NewReplica(t, d, soloist.Config{})
		mustLock(t, a, "x")
		ctx, cancel := context.WithTimeout(background, 20*time.Second)
		defer cancel()
		if _, err := b.Lock(ctx, "x"); !errors.Is(err, soloist.ErrHeld) {
			t.Errorf("got: %v", err)
		}
		if calls := d.Calls(); d.watches != 2 || calls > 6 {
			t.Errorf("%d subscriptions and %d requests, want 2, and one after each", d.watches, calls)
		}
		if d.open {
			t.Error("the subscription that was lost is still there beside the new one")
		}
	})
}

// counted is a store that counts claims, and can be slow to watch.
type counted struct {
	wrapped

	claims, watches int

	stuck    bool   // Watch returns when its context has ended
	deaf     bool   // and then with a channel on which nothing comes
	watching func() // called before a watch begins; may be nil
}

func (c *counted) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	c.claims++
	return c.Store.Acquire(ctx, claims)
}

func (c *counted) Queue(context.Context, store.Claim) (store.Grant, time.Duration, error) {
	return store.Grant{}, 0, errors.ErrUnsupported
}

func (c *counted) Leave(context.Context, string, string) (bool, error) {
	return false, errors.ErrUnsupported
}

func (c *counted) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if c.stuck {
		<-ctx.Done()
		if c.deaf {
			return make(chan struct{}), nil
		}
		return nil, ctx.Err()
	}
	c.watches++
	if c.watching != nil {
		c.watching()
	}
	w, _ := store.As[store.Watcher](c.Store)
	return w.Watch(ctx, names)
}

// A waiter whose client was refused a name before watches the name first, and then asks once: it asked twice, since a release in between would not have been noticed.
func TestBusyNameIsWatchedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		a, asks := soloisttest.NewReplica(t, s, soloist.Config{}), &counted{wrapped: wrapped{s.Share()}}
		b := clientOf(t, asks)
		for i, want := range []int{3, 2, 2} { // the last claim is granted
			l := mustLock(t, a, "x")
			before := asks.claims
			got := make(chan *soloist.Lease)
			go func() {
				mine, err := b.Lock(background, "x")
				if err != nil {
					t.Error(err)
				}
				got <- mine
			}()
			synctest.Wait()
			if err := l.Release(); err != nil {
				t.Fatal(err)
			}
			if err := (<-got).Release(); err != nil {
				t.Fatal(err)
			}
			if n := asks.claims - before; n != want {
				t.Errorf("wait %d: %d claims, want %d", i+1, n, want)
			}
		}
		for i := range 2 { // nobody has it: the first claim is granted
			before, watches := asks.claims, asks.watches
			l, err := b.Lock(background, "x")
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Release()
			if n := asks.claims - before; n != 1 {
				t.Errorf("a free name, %d: %d claims, want 1", i+1, n)
			}
			if n := asks.watches - watches; n != 1-i { // then it knows
				t.Errorf("a free name, %d: watched %d times, want %d", i+1, n, 1-i)
			}
		}
	})
}

// A store that does not come to watch a name does not keep a waiter from asking, whatever it answers when it is late.
func TestWatchThatIsStuck(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := soloisttest.NewStore()
			a, b := soloisttest.NewReplica(t, s, soloist.Config{TTL: 12 * time.Hour}), clientOf(t, &counted{wrapped: wrapped{s.Share()}, stuck: true, deaf: deaf})
			for range 2 { // from the second time on it watches first
				l := mustLock(t, a, "x")
				begin := time.Now()
				time.AfterFunc(time.Hour, func() { _ = l.Release() })
				mine, err := b.Lock(background, "x")
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin) - time.Hour; took > 10*time.Second {
					t.Errorf("answers late %t: it noticed the release after %v", deaf, took)
				}
				if err := mine.Release(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// grants calls granted before the client is told of a grant.
type grants struct {
	counted
	granted func()
}

func (g *grants) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := g.counted.Acquire(ctx, claims)
	if err == nil && outs[0].Err == nil {
		g.granted()
	}
	return outs, err
}

// A lease that is granted just when the context of its waiter ends is either given to the waiter or given back: no other holder is kept out by a lease that nobody has.
func TestGrantAtTheEndOfTheWait(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		ctx, cancel := context.WithCancel(background)
		b := clientOf(t, &grants{counted{wrapped: wrapped{s.Share()}}, cancel})
		first := mustLock(t, a, "x")
		time.AfterFunc(time.Second, func() { _ = first.Release() })
		l, err := b.Lock(ctx, "x")
		if (l == nil) != (err != nil) {
			t.Errorf("%v and %v at once", l, err)
		}
		if err == nil {
			must(t, l.Check(background))
			must(t, l.Release())
		}
		mustLock(t, a, "x")
	})
}

// Who waits for a name is told at once that its client has closed, however it waits.
func TestWaitOfAClientThatCloses(t *testing.T) {
	for how, test := range map[string]struct {
		store  func(*soloisttest.Store) store.Store
		behind bool // another call of the client
	}{
		"in the queue":         {func(s *soloisttest.Store) store.Store { return s }, false},
		"behind another call":  {func(s *soloisttest.Store) store.Store { return s }, true},
		"by watching":          {func(s *soloisttest.Store) store.Store { return &counted{wrapped: wrapped{s}} }, false},
		"by asking repeatedly": {func(s *soloisttest.Store) store.Store { return plain{s} }, false},
	} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
				mustLock(t, a, "x")
				b := clientOf(t, test.store(s.Share()))
				got := make(chan error)
				wait := func() { _, err := b.Lock(background, "x"); got <- err }
				waiters := 1
				if test.behind {
					waiters++
				}
				for range waiters {
					go wait()
					synctest.Wait()
				}
				time.Sleep(5 * time.Second)
				begin := time.Now()
				must(t, b.Close())
				for range waiters {
					if err := <-got; !errors.Is(err, soloist.ErrClosed) || time.Since(begin) > time.Second {
						t.Errorf("after %v: %v", time.Since(begin), err)
					}
				}
			})
		})
	}
}

// A release between the refusal of a waiter and the beginning of its watch is noticed at once.
func TestReleaseBeforeTheWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		watched := &counted{wrapped: wrapped{s.Share()}}
		b := clientOf(t, watched)
		mustLock(t, a, "x")
		if _, err := b.With(soloist.Options{Wait: time.Second}).Lock(background, "x"); !errors.Is(err, soloist.ErrHeld) {
			t.Fatal(err) // it knows now that the store keeps no queues
		}
		l := mustLock(t, a, "y")
		watched.watching = func() { _ = l.Release() }
		begin := time.Now()
		mine, err := b.Lock(background, "y")
		must(t, err)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("noticed after %v", took)
		}
		must(t, mine.Release())
	})
}

// A waiter whose last request got no reply may have been granted the lease: it is not told of the refusal before that.
func TestAWaitThatEndsInDoubt(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		held := mustPermit(t, b)
		mustPermit(t, b)
		ctx, cancel := context.WithTimeout(background, 5*time.Second)
		defer cancel()
		got := make(chan error, 1)
		go func() {
			_, err := a.Semaphore("x", 2).Acquire(ctx)
			got <- err
		}()
		time.Sleep(time.Second)
		s.LoseReplies(1 << 30)
		must(t, held.Release())
		err := <-got
		wantIs(t, "a wait without a reply", err, soloist.ErrUnknown)
		if errors.Is(err, soloist.ErrHeld) {
			t.Errorf("it is told as a refusal: %v", err)
		}
		s.Heal()
	})
}

func mustPermit(t *testing.T, c *soloist.Client) *soloist.Lease {
	t.Helper()
	l, err := c.Semaphore("x", 2).TryAcquire(background)
	must(t, err)
	return l
}

// Why a wait has ended is in its error, beside what kept the name taken.
func TestWhyAWaitHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		mustLock(t, b, "x")
		mustPermit(t, b)
		mustPermit(t, b)
		gone := errors.New("the caller has gone")
		for what, wait := range map[string]func(ctx context.Context) error{
			"a lock":       func(ctx context.Context) error { _, err := a.Lock(ctx, "x"); return err },
			"a permit":     func(ctx context.Context) error { _, err := a.Semaphore("x", 2).Acquire(ctx); return err },
			"the leader's": func(ctx context.Context) error { _, err := a.Campaign(ctx, "x"); return err },
		} {
			if what == "the leader's" {
				if _, err := b.Campaign(background, "x"); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancelCause(background)
			time.AfterFunc(time.Second, func() { cancel(gone) })
			err := wait(ctx)
			wantIs(t, what, err, gone)
			wantIs(t, what, err, soloist.ErrHeld)
		}
	})
}
