package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A function that is to stop can finish under its lease, whatever it is the function of: its own context has ended, and that of the lease has
// not. When the lease is lost both end.
func TestContextOfTheLeaseOutlivesThatOfTheFunction(t *testing.T) {
	kinds := map[string]func(c *soloist.Client, ctx context.Context, fn func(context.Context, *soloist.Lease) error) error{
		"lock": func(c *soloist.Client, ctx context.Context, fn func(context.Context, *soloist.Lease) error) error {
			return c.Do(ctx, "x", fn)
		},
		"leader": func(c *soloist.Client, ctx context.Context, fn func(context.Context, *soloist.Lease) error) error {
			return c.Lead(ctx, "x", fn)
		},
		"permit": func(c *soloist.Client, ctx context.Context, fn func(context.Context, *soloist.Lease) error) error {
			return c.Semaphore("x", 1).Do(ctx, fn)
		},
		"element": func(c *soloist.Client, ctx context.Context, fn func(context.Context, *soloist.Lease) error) error {
			return c.Elements("x", soloist.ElementsOptions{}).Process(ctx, "1", func(ctx context.Context, el *soloist.Element) error { return fn(ctx, el.Lease) })
		},
		"job": func(c *soloist.Client, ctx context.Context, fn func(context.Context, *soloist.Lease) error) error {
			return c.Run(ctx, soloist.Job{Name: "x", Schedule: soloist.Every(time.Second), Do: func(ctx context.Context, run soloist.Run) error { return fn(ctx, run.Lease) }})
		},
	}
	for kind, run := range kinds {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := soloisttest.NewStore()
				client := soloisttest.NewReplica(t, s, soloist.Config{Drain: -1})
				ctx, stop := context.WithCancel(t.Context())
				ran := false
				err := run(client, ctx, func(ctx context.Context, lease *soloist.Lease) error {
					ran = true
					if soloist.LeaseFrom(ctx) != lease || soloist.LeaseFrom(lease.Context()) != lease {
						t.Error("LeaseFrom does not find the lease")
					}
					stop()
					<-ctx.Done()
					if err := lease.Context().Err(); err != nil {
						t.Errorf("the context of the lease has ended with that of the function: %v", err)
					}
					if err := lease.Check(lease.Context()); err != nil {
						t.Errorf("renewing the lease after that: %v", err)
					}
					soloisttest.LoseLease(t, s, lease)
					if cause := context.Cause(lease.Context()); !errors.Is(cause, soloist.ErrLost) {
						t.Errorf("the context of a lost lease ended because of %v", cause)
					}
					return nil
				})
				if !ran {
					t.Errorf("the function did not run: %v", err)
				}
			})
		})
	}
}

func TestLeaseIsRenewedForAsLongAsItIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		l := mustLock(t, a, "x")
		time.Sleep(10 * time.Minute)
		if err := l.Err(); err != nil {
			t.Fatalf("after ten minutes: %v", err)
		}
		if _, err := b.TryLock(background, "x"); !errors.Is(err, soloist.ErrHeld) {
			t.Fatalf("b got: %v", err)
		}
	})
}

// A holder that cannot reach the store learns that its lease is lost from its own clock, before anybody else can have the name.
func TestLossNeedsNoNetworkAndComesBeforeTheSuccessor(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		l := mustLock(t, a, "x")
		s.Stall()
		var lostAt, takenAt time.Time
		var wg sync.WaitGroup
		wg.Go(func() {
			<-l.Context().Done()
			lostAt = time.Now()
			if cause := context.Cause(l.Context()); !errors.Is(cause, soloist.ErrLost) {
				t.Errorf("cause: %v", cause)
			}
		})
		wg.Go(func() {
			successor, err := b.Lock(background, "x")
			if err != nil {
				t.Errorf("b: %v", err)
				return
			}
			takenAt = time.Now()
			_ = successor.Release()
		})
		wg.Wait()
		if !lostAt.Before(takenAt) {
			t.Fatalf("lost at %v, taken at %v", lostAt, takenAt)
		}
		if gap := takenAt.Sub(lostAt); gap > 5*time.Second {
			t.Fatalf("nobody had it for %v", gap)
		}
		s.Heal()
		if err := l.Release(); !errors.Is(err, soloist.ErrLost) {
			t.Fatalf("releasing a lease that went to another: %v", err)
		}
	})
}

// Of several leases each is lost at its own deadline.
func TestEachLeaseIsLostInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		lost := make([]time.Duration, 4)
		var wg sync.WaitGroup
		for i := range lost {
			l := mustLock(t, a, fmt.Sprint(i))
			begin := time.Now()
			wg.Go(func() {
				<-l.Context().Done()
				lost[i] = time.Since(begin).Round(time.Millisecond)
			})
			time.Sleep(300 * time.Millisecond)
		}
		s.Stall()
		wg.Wait()
		for i, took := range lost {
			if took != lost[0] || took >= 30*time.Second {
				t.Errorf("lease %d was lost after %v, the first after %v", i, took, lost[0])
			}
		}
	})
}

// A lease that is lost stays so, though the store would still extend it: nobody asks.
func TestALostLeaseIsNotExtended(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		l := mustLock(t, a.With(soloist.Options{Margin: 10 * time.Second}), "x")
		s.Stall()
		<-l.Context().Done()
		s.Heal()
		synctest.Wait()
		before := s.Calls()
		for what, err := range map[string]error{"Extend": l.Extend(background, time.Minute), "SetState": l.SetState(background, []byte("state")), "Check": l.Check(background)} {
			if !errors.Is(err, soloist.ErrLost) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if asked := s.Calls() - before; asked != 0 {
			t.Errorf("the store was asked %d times", asked)
		}
	})
}

// Each lease is renewed at a third of its TTL, whatever the TTLs of the others are.
func TestLeasesOfSeveralTTLs(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		leases := map[time.Duration]*soloist.Lease{}
		for _, ttl := range []time.Duration{time.Minute, 3 * time.Second, 20 * time.Second, 2 * time.Second, 5 * time.Minute} {
			leases[ttl] = mustLock(t, a.With(soloist.Options{TTL: ttl}), ttl.String())
			time.Sleep(100 * time.Millisecond)
		}
		before := s.Calls()
		time.Sleep(10 * time.Minute)
		for ttl, l := range leases {
			if err := l.Err(); err != nil {
				t.Errorf("that of %v: %v", ttl, err)
			}
		}
		if asked := s.Calls() - before; asked > 1700 { // thrice in each two seconds, and in each three, and the rest
			t.Errorf("%d requests in ten minutes", asked)
		}
	})
}

// A renewal without a reply is given up early enough for another one before the lease ends.
func TestRenewalThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hangingRenewal{Store: memstore.New()}
		c := soloisttest.NewReplica(t, s, soloist.Config{RequestTimeout: 10 * time.Second})
		l := mustLock(t, c.With(soloist.Options{TTL: 3 * time.Second}), "x")
		time.Sleep(20 * time.Second)
		if err := l.Err(); err != nil || !s.hung.Load() {
			t.Errorf("a renewal hung: %t; the lease: %v", s.hung.Load(), err)
		}
		_ = l.Release()
	})
}

// A hangingRenewal does not answer the first extension, whatever comes.
type hangingRenewal struct {
	*memstore.Store
	hung atomic.Bool
}

func (s *hangingRenewal) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if s.hung.CompareAndSwap(false, true) {
		<-ctx.Done()
		return nil, store.AsUnknown(ctx.Err())
	}
	return s.Store.Extend(ctx, extensions)
}

func TestAtLeastLingers(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		at := a.With(soloist.Options{AtLeast: time.Minute})
		if err := at.Do(background, "x", func(context.Context, *soloist.Lease) error { time.Sleep(20 * time.Second); return nil }); err != nil {
			t.Fatal(err)
		}
		var held *soloist.HeldError
		if _, err := b.TryLock(background, "x"); !errors.As(err, &held) || held.Holder != "" || held.Left.Round(time.Millisecond) != 40*time.Second {
			t.Fatalf("got: %v", err)
		}
		time.Sleep(40*time.Second + time.Millisecond)
		mustLock(t, b, "x")
	})
}

// The last extension before AtMost may be longer than the TTL. Its margin is larger then, so the lease ends earlier.
func TestAtMostIsTheCauseAfterAnExtension(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		l, err := a.With(soloist.Options{TTL: 6 * time.Second, AtMost: 9 * time.Second}).Lock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Extend(background, time.Minute); err != nil {
			t.Fatal(err)
		}
		<-l.Context().Done()
		if cause := context.Cause(l.Context()); !errors.Is(cause, soloist.ErrOverran) || !errors.Is(l.Err(), soloist.ErrOverran) {
			t.Errorf("the cause is %v, and the lease's error %v", cause, l.Err())
		}
	})
}

// A lease that lasts until AtMost is not renewed once more with others: that could make it none that has overrun.
func TestAtMostIsTheCauseBesideRenewals(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		began := time.Now()
		l := mustLock(t, a.With(soloist.Options{TTL: 6 * time.Second, AtMost: 9 * time.Second, Margin: 200 * time.Millisecond}), "x")
		must(t, l.Extend(background, time.Minute)) // until 9 s; it counts as over at 8.7 s
		time.Sleep(6600 * time.Millisecond)        // others are renewed at 8.6 s
		mustLock(t, a.With(soloist.Options{TTL: 6 * time.Second}), "another")
		s.Slow(200 * time.Millisecond)
		<-l.Context().Done()
		if cause := context.Cause(l.Context()); !errors.Is(cause, soloist.ErrOverran) || !errors.Is(l.Err(), soloist.ErrOverran) {
			t.Errorf("the cause is %v, and the lease's error %v", cause, l.Err())
		}
		check(t, "which it lasts", time.Since(began), 8700*time.Millisecond)
	})
}

// The renewals wake for a short lease that has been released meanwhile, find that a long one could be renewed now but need not be, and
// must not sleep until it needs to: another short one comes first.
func TestShortLeaseIsRenewedBeforeALongOne(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		long, short := a.With(soloist.Options{TTL: 12 * time.Second}), a.With(soloist.Options{TTL: time.Second})
		mustLock(t, long, "long") // it is renewed at 4 s, or from 3 s on if others are
		time.Sleep(2800 * time.Millisecond)
		first := mustLock(t, short, "first") // to be renewed at 3.13 s
		time.Sleep(200 * time.Millisecond)
		if err := first.Release(); err != nil {
			t.Fatal(err)
		}
		second := mustLock(t, short, "second") // to be renewed at 3.33 s
		time.Sleep(5 * time.Second)
		if err := second.Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestAtMostEndsTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		start := time.Now()
		var ended time.Duration
		err := a.With(soloist.Options{AtMost: 2 * time.Minute}).Do(background, "x", func(ctx context.Context, _ *soloist.Lease) error {
			<-ctx.Done()
			ended = time.Since(start)
			if !errors.Is(context.Cause(ctx), soloist.ErrOverran) {
				t.Errorf("cause: %v", context.Cause(ctx))
			}
			time.Sleep(time.Minute) // does not mind
			return nil
		})
		if !errors.Is(err, soloist.ErrLost) {
			t.Fatalf("got: %v", err)
		}
		if ended < 110*time.Second || ended >= 2*time.Minute {
			t.Fatalf("told after %v", ended)
		}
		mustLock(t, b, "x")
	})
}

func TestLoseLeaseIsNoticed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		err := a.Do(background, "x", func(ctx context.Context, lease *soloist.Lease) error {
			if soloist.LeaseFrom(ctx) != lease {
				t.Error("the context does not know its lease")
			}
			soloisttest.LoseLease(t, s, lease)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, soloist.ErrLost) {
			t.Fatal(err)
		}
	})
}

// A holder that sends nothing by itself is told at the next renewal that its lease has passed to another, long before its own deadline.
func TestRenewalNoticesTheLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		l := mustLock(t, a, "x")
		begin := time.Now()
		errs, err := s.Release(background, []store.Release{{Name: "lock/x", Holder: l.Holder(), Token: l.Token()}})
		must(t, errors.Join(append(errs, err)...))
		mustLock(t, b, "x")
		<-l.Context().Done()
		if took := time.Since(begin); took > 11*time.Second || !errors.Is(context.Cause(l.Context()), soloist.ErrLost) {
			t.Errorf("told after %v: %v; want ErrLost at the renewal after 10 s", took, context.Cause(l.Context()))
		}
	})
}

func TestStateIsHandedOn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		l := mustLock(t, a, "x")
		if err := l.SetState(background, []byte("page 7")); err != nil {
			t.Fatal(err)
		}
		_ = l.Release()
		_, _ = s.Sweep(background, 100)
		if got := mustLock(t, b, "x").State(); string(got) != "page 7" {
			t.Fatalf("state %q", got)
		}
	})
}

func TestExtendOutlastsAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		l := mustLock(t, a, "x")
		if err := l.Extend(background, 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		s.Break(nil)
		time.Sleep(8 * time.Minute)
		if err := l.Err(); err != nil {
			t.Fatalf("within the extension: %v", err)
		}
		time.Sleep(time.Minute) // a tenth of the time is the margin, as it is of the TTL
		if err := l.Err(); !errors.Is(err, soloist.ErrLost) {
			t.Fatalf("after it: %v", err)
		}
	})
}

func TestManyLeasesAreRenewedInFewCalls(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		const n = 10_000
		leases := make([]*soloist.Lease, n)
		for i := range leases {
			leases[i] = mustLock(t, a, fmt.Sprint("lease-", i))
			time.Sleep(time.Millisecond) // so that they are not all due together
		}
		time.Sleep(time.Minute)
		before := s.Calls()
		time.Sleep(100 * time.Second) // ten periods
		if calls := float64(s.Calls()-before) / 10; calls > 40 {
			t.Errorf("%v calls per period", calls)
		} else {
			t.Logf("%v calls per renewal period", calls)
		}
		for _, l := range leases {
			if err := l.Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Clocks drift further apart in an extension that is longer than the TTL.
func TestMarginGrowsWithAnExtension(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		l := mustLock(t, a.With(soloist.Options{TTL: 10 * time.Second, Margin: time.Second}), "x")
		if err := l.Extend(background, 100*time.Second); err != nil {
			t.Fatal(err)
		}
		s.Break(nil)
		if left := l.Left(); left > 90*time.Second || left < 89*time.Second {
			t.Errorf("surely held for %v", left)
		}
		time.Sleep(90 * time.Second)
		if err := l.Err(); !errors.Is(err, soloist.ErrLost) {
			t.Errorf("after that: %v", err)
		}
	})
}

// A state whose outcome is unknown is the last one: the holder finds it, and so does the next.
func TestAStateOfUnknownOutcomeIsTheLast(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		l := mustLock(t, a, "x")
		must(t, l.SetState(background, []byte("first")))
		s.LoseReplies(1)
		if err := l.SetState(background, []byte("second")); !errors.Is(err, soloist.ErrUnknown) {
			t.Errorf("second: %v", err)
		}
		check(t, "the holder's state", string(l.State()), "second")
		must(t, l.Release())
		check(t, "the next holder's state", string(mustLock(t, b, "x").State()), "second")
	})
}

// A state whose outcome is unknown may take effect after a later one. The state that a lease is released with is the last one all the same;
// only who takes over from a dead holder may find the older.
func TestALateState(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := renewing{memstore.New(), func(ctx context.Context, next *memstore.Store, extensions []store.Extension) ([]error, error) {
				if string(extensions[0].State) != "first" {
					return next.Extend(ctx, extensions)
				}
				time.AfterFunc(5*time.Second, func() { _, _ = next.Extend(background, extensions) })
				return nil, store.AsUnknown(errors.New("the reply was lost"))
			}}
			c := soloisttest.NewReplica(t, s, soloist.Config{})
			l := mustLock(t, c, "x")
			if err := l.SetState(background, []byte("first")); !errors.Is(err, soloist.ErrUnknown) {
				t.Errorf("first: %v", err)
			}
			if err := l.SetState(background, []byte("second")); err != nil {
				t.Errorf("second: %v", err)
			}
			time.Sleep(10 * time.Second)
			want := "first"
			if !dies {
				want = "second"
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
			n := 0
			for r, err := range s.List(background, "lock/") {
				n++
				if err != nil || string(r.State) != want {
					t.Errorf("dies %t: state %q, %v", dies, r.State, err)
				}
			}
			if n != 1 {
				t.Errorf("%d records, want 1", n)
			}
		})
	}
}

// A request that sets a state may be carried out twice, and the second time after a later one: the release leaves the last state.
func TestAStateThatIsSetTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := renewing{memstore.New(), func(ctx context.Context, next *memstore.Store, extensions []store.Extension) ([]error, error) {
			if string(extensions[0].State) == "first" {
				time.AfterFunc(5*time.Second, func() { _, _ = next.Extend(background, extensions) })
			}
			return next.Extend(ctx, extensions)
		}}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		l := mustLock(t, c, "x")
		for _, state := range []string{"first", "second"} {
			if err := l.SetState(background, []byte(state)); err != nil {
				t.Errorf("%s: %v", state, err)
			}
		}
		time.Sleep(10 * time.Second)
		if err := l.Release(); err != nil {
			t.Error(err)
		}
		if next := mustLock(t, c, "x"); string(next.State()) != "second" {
			t.Errorf("state %q", next.State())
		}
	})
}

// A lease that has been renewed to its very end is not renewed any more.
func TestNothingIsRenewedPastAtMost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		l := mustLock(t, a.With(soloist.Options{AtMost: 35 * time.Second}), "x")
		time.Sleep(15 * time.Second) // it was renewed for the first time, and lasts until AtMost
		before := s.Calls()
		<-l.Context().Done()
		check(t, "requests after that", s.Calls()-before, 0)
	})
}

// The last extension before AtMost is shorter than the TTL. Its margin is not: the lease ends a whole margin before AtMost.
func TestMarginBeforeAtMost(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		begin := time.Now()
		l, err := a.With(soloist.Options{TTL: 10 * time.Second, Margin: 2 * time.Second, AtMost: 15 * time.Second}).Lock(background, "x")
		must(t, err)
		<-l.Context().Done()
		check(t, "held for", time.Since(begin), 13*time.Second)
	})
}

// A lease that is released has ended for all who look at it: its context, and that of the function that runs under it.
func TestReleaseEndsTheContexts(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		err := a.Do(background, "x", func(ctx context.Context, lease *soloist.Lease) error {
			must(t, lease.Release())
			for what, ctx := range map[string]context.Context{"the lease": lease.Context(), "the function": ctx} {
				if cause := context.Cause(ctx); ctx.Err() == nil || errors.Is(cause, soloist.ErrLost) {
					t.Errorf("the context of %s: %v, because of %v; want that it has ended, and that nothing was lost", what, ctx.Err(), cause)
				}
			}
			if lease.Err() == nil || lease.Left() != 0 {
				t.Errorf("held for another %v: %v", lease.Left(), lease.Err())
			}
			mustLock(t, b, "x")
			return nil
		})
		must(t, err)
	})
}

// The renewals wake for a short lease that has been released meanwhile, find that a long one could be renewed now but need not be, and wake again when it needs to: no
// other lease wakes them.
func TestLeaseThatCouldHaveBeenRenewedEarlierIsRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		long := mustLock(t, a, "long") // it is renewed at 10 s, or from 7.5 s on if others are
		time.Sleep(7 * time.Second)
		short := mustLock(t, a.With(soloist.Options{TTL: 3 * time.Second}), "short") // renewed at 8 s, and then at 9 s
		time.Sleep(1500 * time.Millisecond)
		must(t, short.Release())
		time.Sleep(time.Minute)
		if err := long.Err(); err != nil {
			t.Errorf("a lease that nothing was in the way of: %v", err)
		}
	})
}

// The context of a lease that is not renewed ends at its deadline, however many others are acquired and renewed meanwhile.
func TestLossIsNotPutOffByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := renewing{memstore.New(), func(ctx context.Context, next *memstore.Store, extensions []store.Extension) ([]error, error) {
			if renews(extensions, "lock/short") {
				return nil, errors.New("away")
			}
			return next.Extend(ctx, extensions)
		}}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		begin := time.Now()
		l := mustLock(t, c.With(soloist.Options{TTL: 10 * time.Second, Margin: time.Second}), "short")
		lost := make(chan time.Duration, 1)
		go func() {
			<-l.Context().Done()
			lost <- time.Since(begin)
		}()
		for i := range 40 {
			mustLock(t, c, fmt.Sprint(i))
			time.Sleep(400 * time.Millisecond)
		}
		check(t, "the context ended after", <-lost, 9*time.Second)
	})
}

// Of leases that last for different times each is lost at its own deadline, in whatever order they were acquired.
func TestEachLeaseIsLostAtItsOwnDeadline(t *testing.T) {
	for _, seconds := range [][]int{{1, 10, 20, 40}, {40, 20, 10, 1}, {10, 1, 40, 20}, {20, 40, 1, 10}} {
		inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
			lost := make([]time.Duration, len(seconds))
			begin := time.Now()
			var wg sync.WaitGroup
			for i, n := range seconds {
				l := mustLock(t, a.With(soloist.Options{TTL: time.Duration(n) * time.Second}), fmt.Sprint(i))
				wg.Go(func() {
					<-l.Context().Done()
					lost[i] = time.Since(begin)
				})
			}
			s.Stall()
			wg.Wait()
			s.Heal()
			for i, n := range seconds {
				if want := time.Duration(n) * time.Second * 9 / 10; lost[i] != want {
					t.Errorf("of %v s: that of %d s was lost after %v, want %v", seconds, n, lost[i], want)
				}
			}
		})
	}
}

// A lease that could not have lasted longer has overrun, although no renewal was confirmed either. Another release of
// it has the same answer, and sends nothing.
func TestAtMostIsTheCauseWithoutARenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		for atMost, want := range map[time.Duration]error{30 * time.Second: soloist.ErrOverran, time.Minute: soloist.ErrLost} {
			l := mustLock(t, a.With(soloist.Options{AtMost: atMost}), atMost.String())
			s.Break(nil)
			<-l.Context().Done()
			if cause := context.Cause(l.Context()); !errors.Is(cause, want) || errors.Is(cause, soloist.ErrOverran) != errors.Is(want, soloist.ErrOverran) {
				t.Errorf("at most %v: the cause is %v, want %v", atMost, cause, want)
			}
			time.Sleep(time.Minute)
			s.Heal()
			if err := l.Release(); !errors.Is(err, soloist.ErrLost) {
				t.Errorf("at most %v: released: %v", atMost, err)
			}
			before := s.Calls()
			wantIs(t, "a second release", l.Release(), soloist.ErrLost)
			check(t, "requests of a second release", s.Calls()-before, 0)
		}
	})
}

// Of leases that are lost at the same instant each has the reason why it was lost, and for how long it was held.
func TestEachOfTheLostIsToldItsOwnCause(t *testing.T) {
	for _, bounded := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			s := soloisttest.NewStore()
			var w witness
			c := soloisttest.NewReplica(t, s, soloist.Config{Observe: w.observe})
			var leases []*soloist.Lease
			for i, name := range []string{"a", "b"} {
				opts := soloist.Options{TTL: 30 * time.Second}
				if i == bounded {
					opts.AtMost = 30 * time.Second
				}
				leases = append(leases, mustLock(t, c.With(opts), name))
			}
			s.Stall()
			for i, l := range leases {
				<-l.Context().Done()
				if cause := context.Cause(l.Context()); !errors.Is(cause, soloist.ErrLost) || errors.Is(cause, soloist.ErrOverran) != (i == bounded) {
					t.Errorf("%s: the cause is %v; it was bounded: %t", l.Name(), cause, i == bounded)
				}
			}
			synctest.Wait()
			held := map[string]time.Duration{}
			for _, e := range w.of(soloist.EventLost) {
				held[e.Subject.Name] = e.Duration
			}
			check(t, "held until they were lost", held, map[string]time.Duration{"a": 27 * time.Second, "b": 27 * time.Second})
			s.Heal()
		})
	}
}

// A client that closes leaves in each record what must be kept, and in no other: the state that one of its leases has taken over stays when the record is swept.
func TestCloseKeepsTheStateOfEachLease(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		for _, name := range []string{"b", "d"} {
			l := mustLock(t, a, name)
			must(t, l.SetState(background, []byte("state of "+name)))
			must(t, l.Release())
		}
		c := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		for _, name := range []string{"a", "b", "c", "d"} {
			mustLock(t, c, name)
		}
		must(t, c.Close())
		time.Sleep(time.Hour)
		_, err := s.Sweep(background, 1000)
		must(t, err)
		left := map[string]string{}
		for r, err := range s.List(background, "lock/") {
			must(t, err)
			left[r.Name] = string(r.State)
		}
		check(t, "records", left, map[string]string{"lock/b": "state of b", "lock/d": "state of d"})
	})
}
