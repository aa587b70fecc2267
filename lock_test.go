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

// Each lease is renewed in the time of its own TTL.
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

// A renewal that nobody answers is given up in time for another before the lease ends.
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

// The deadline is counted from before the request: a slow reply does not prolong it.
func TestDeadlineIsCountedFromBeforeTheRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		s.Slow(4 * time.Second)
		l := mustLock(t, a, "x")
		if left := l.Left(); left > 23*time.Second+time.Millisecond {
			t.Fatalf("after a reply that took 4 s, a lease of 30 s with a margin of 3 s has %v left", left)
		}
	})
}

func TestLostReplyIsSettledByAskingAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		s.LoseReplies(2)
		l := mustLock(t, a, "x")
		if err := l.Check(background); err != nil {
			t.Fatal(err)
		}
		s.LoseReplies(2)
		if err := l.Release(); err != nil {
			t.Fatalf("a release whose replies were lost: %v", err)
		}
		mustLock(t, b, "x")
	})
}

func TestUnknownIsReportedAndGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		s.LoseReplies(1 << 30)
		if _, err := a.TryLock(background, "x"); !errors.Is(err, soloist.ErrUnknown) {
			t.Fatalf("got: %v", err)
		}
		s.Heal()
		start := time.Now()
		l, err := b.Lock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited > 10*time.Second {
			t.Fatalf("what nobody waited for was given back after %v", waited)
		}
		_ = l.Release()
	})
}

func TestCancelledAttemptIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		s.LoseReplies(1)
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(time.Millisecond, cancel)
		s.Slow(500 * time.Microsecond)
		if _, err := a.TryLock(ctx, "x"); err == nil {
			t.Fatal("granted")
		} else if !errors.Is(err, context.Canceled) {
			t.Fatalf("got: %v", err)
		}
		s.Heal()
		time.Sleep(8 * time.Second)
		mustLock(t, b, "x")
	})
}

func TestDefiniteErrorIsReturnedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		refused := errors.New("refused")
		s.Break(refused)
		start := time.Now()
		_, err := a.TryLock(background, "x")
		if !errors.Is(err, refused) || errors.Is(err, soloist.ErrUnknown) || time.Since(start) > 0 {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
	})
}

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

func TestDoJoinsErrorsAndReleasesOnPanic(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		own := errors.New("own")
		if err := a.Do(background, "x", func(context.Context, *soloist.Lease) error { return own }); !errors.Is(err, own) {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = a.Do(background, "x", func(context.Context, *soloist.Lease) error { panic("boo") })
		}()
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

func TestCloseReleasesAndRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		l := mustLock(t, a, "x")
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if l.Context().Err() == nil {
			t.Error("the lease's context goes on")
		}
		mustLock(t, b, "x")
		if _, err := a.TryLock(background, "y"); !errors.Is(err, soloist.ErrClosed) {
			t.Fatalf("got: %v", err)
		}
	})
}

// Close does not release under a function that goes on.
func TestCloseLeavesTheLeaseOfAFunctionThatIgnoresIt(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		started, stop := make(chan struct{}), make(chan struct{})
		go func() {
			_ = a.Do(background, "x", func(context.Context, *soloist.Lease) error { close(started); <-stop; return nil })
		}()
		<-started
		if err := a.Close(); err == nil {
			t.Error("Close says that all is well")
		}
		if _, err := b.TryLock(background, "x"); !errors.Is(err, soloist.ErrHeld) {
			t.Errorf("while the function goes on, b got: %v", err)
		}
		close(stop)
		synctest.Wait()
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

func TestBadNames(t *testing.T) {
	c, _ := soloisttest.NewClient(t)
	for _, name := range []string{"", "a\nb", "\xff", string(make([]byte, 300))} {
		if _, err := c.TryLock(background, name); err == nil {
			t.Errorf("the name %q passed", name)
		}
	}
}
