package soloist

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// suspending runs a test in a bubble. Clients are told that the machine has been suspended for as long as slept says, in all.
func suspending(t *testing.T, test func(t *testing.T, slept *atomic.Int64)) {
	t.Helper()
	defer func() { suspended = kernelSuspended }() // once no goroutine of the bubble is left
	synctest.Test(t, func(t *testing.T) {
		slept := &atomic.Int64{}
		suspended = func(time.Duration) (atLeast, atMost time.Duration, ok bool) {
			d := time.Duration(slept.Load())
			return d, d, true
		}
		test(t, slept)
	})
}

// In a suspend the monotonic clock stands still and the lease runs out all the same: the holder must notice when it wakes up.
func TestSuspendEndsALease(t *testing.T) {
	suspending(t, func(t *testing.T, slept *atomic.Int64) {
		c, l := mustHold(t)
		defer c.Close()
		time.Sleep(time.Second)
		slept.Add(int64(20 * time.Second))
		if err := l.Err(); err != nil {
			t.Fatalf("after a suspend of 20 s: %v", err)
		}
		slept.Add(int64(time.Hour))
		if err := l.Err(); !errors.Is(err, ErrLost) {
			t.Fatalf("after a suspend of an hour: %v", err)
		}
		// Who only waits for the context is told soon after, too.
		m, err := c.TryLock(t.Context(), "y")
		if err != nil {
			t.Fatal(err)
		}
		slept.Add(int64(time.Hour))
		woke := time.Now()
		<-m.Context().Done()
		if late := time.Since(woke); late > lossCheckInterval {
			t.Errorf("told %v after waking up", late)
		}
	})
}

// Where it is not certain how long a suspend was, what is left of a lease is what is left after the longest.
func TestLeftAfterAnUncertainSuspend(t *testing.T) {
	defer func() { suspended = kernelSuspended }()
	synctest.Test(t, func(t *testing.T) {
		var most atomic.Int64
		suspended = func(time.Duration) (atLeast, atMost time.Duration, ok bool) {
			return 0, time.Duration(most.Load()), true
		}
		c, l := mustHold(t)
		defer c.Close()
		before := l.Left()
		synctest.Wait() // until the timer is set for the renewal
		most.Add(int64(time.Second))
		if after := l.Left(); after != before-time.Second {
			t.Errorf("%v were left, and %v after a suspend of up to a second", before, after)
		}
		time.Sleep(11 * time.Second) // it is renewed after 10 s
		if after := l.Left(); after != before-2*time.Second {
			t.Errorf("%v are left a second after a renewal", after)
		}
		most.Add(int64(time.Hour))
		if after := l.Left(); after != 0 {
			t.Errorf("%v are left after a suspend of up to an hour", after)
		}
	})
}

// The timer for renewals stands still in a suspend, too. Neither the lease that it was set for nor one that is taken afterwards waits for it.
func TestLeasesAreRenewedAfterASuspend(t *testing.T) {
	defer func() { suspended = kernelSuspended }()
	for what, shorts := range map[string]int{"alone": 0, "with one that is taken afterwards": 1} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var slept atomic.Int64
				suspended = func(time.Duration) (atLeast, atMost time.Duration, ok bool) {
					d := time.Duration(slept.Load())
					return d, d, true
				}
				c, err := New(memstore.New(), Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				long, err := c.With(Options{TTL: time.Minute}).TryLock(t.Context(), "long") // it is renewed after 20 s
				if err != nil {
					t.Fatal(err)
				}
				leases := []*Lease{long}
				time.Sleep(time.Second)
				slept.Add(int64(45 * time.Second))
				time.Sleep(2 * lossCheckInterval)
				for range shorts {
					short, err := c.With(Options{TTL: time.Second}).TryLock(t.Context(), "short")
					if err != nil {
						t.Fatal(err)
					}
					leases = append(leases, short)
				}
				time.Sleep(30 * time.Second)
				for _, l := range leases {
					if err := l.Err(); err != nil {
						t.Errorf("%s, 30 s later: %v", l.Name(), err)
					}
				}
			})
		})
	}
}

// A sleepyStore is asked by a machine that is suspended after each claim, before the answer is there.
type sleepyStore struct {
	*memstore.Store
	suspend func()
}

func (s sleepyStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outs, err := s.Store.Acquire(ctx, claims)
	s.suspend()
	return outs, err
}

// A grant that is told after a suspend, in which it has run out, is late, though the suspends have been read within the last second.
func TestGrantAfterASuspendIsLate(t *testing.T) {
	suspending(t, func(t *testing.T, slept *atomic.Int64) {
		c, err := New(sleepyStore{memstore.New(), func() { slept.Add(int64(time.Hour)) }}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if l, err := c.TryLock(t.Context(), "x"); !errors.Is(err, ErrLost) {
			t.Errorf("a grant that came after a suspend of an hour: %v, %v", l, err)
		}
	})
}

// A run whose lease has run out in a suspend, in the pause between two attempts, is not tried again under that lease.
func TestNoAttemptAfterASuspend(t *testing.T) {
	suspending(t, func(t *testing.T, slept *atomic.Int64) {
		c, err := New(memstore.New(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var tokens []int64
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- c.Run(ctx, Job{Name: "tick", Schedule: At(time.Now()), Retry: Retry{Attempts: 2, Backoff: 100 * time.Millisecond}, Do: func(_ context.Context, run Run) error {
				if tokens = append(tokens, run.Lease.Token()); len(tokens) == 1 {
					time.AfterFunc(50*time.Millisecond, func() { slept.Add(int64(time.Hour)) })
				}
				return errors.New("no paper")
			}})
		}()
		time.Sleep(time.Minute)
		stop()
		if err := <-ended; err != nil || len(tokens) != 2 || tokens[0] == tokens[1] {
			t.Errorf("attempts with the tokens %v, %v; want two under different leases", tokens, err)
		}
	})
}

// When the clocks of the kernel cannot be read, from the start or later, time does not stand still for leases, nor go back.
func TestClocksThatCannotBeRead(t *testing.T) {
	defer func() { suspended = kernelSuspended }()
	for what, told := range map[string]int64{"never": 0, "no more": 3} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var readings atomic.Int64
				suspended = func(time.Duration) (atLeast, atMost time.Duration, ok bool) {
					if readings.Add(1) > told {
						return 0, 0, false
					}
					return 100 * time.Hour, 100 * time.Hour, true
				}
				s := &deafStore{Store: memstore.New()}
				c, err := New(s, Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				l, err := c.TryLock(t.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if err := l.Err(); err != nil {
					t.Fatalf("while it is renewed: %v", err)
				}
				s.deaf.Store(true)
				begin := time.Now()
				<-l.Context().Done()
				if took := time.Since(begin); took > 28*time.Second || took < 17*time.Second || readings.Load() <= told {
					t.Errorf("lost after %v, %d readings", took, readings.Load())
				}
			})
		})
	}
}

// A deafStore refuses renewals once it is deaf.
type deafStore struct {
	*memstore.Store
	deaf atomic.Bool
}

func (s *deafStore) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if s.deaf.Load() {
		return nil, errors.New("deaf")
	}
	return s.Store.Extend(ctx, extensions)
}

// Where the wall clock stands in, a step forward counts as a suspend and one back takes nothing away.
func TestStepsOfTheWallClock(t *testing.T) {
	sum := time.Hour
	for _, step := range []struct {
		gained time.Duration
		want   time.Duration
		counts bool
	}{
		{500 * time.Microsecond, time.Hour, false}, {-500 * time.Microsecond, time.Hour, false},
		{time.Minute, time.Hour + time.Minute, true}, {-time.Hour, time.Hour + time.Minute, true}, {time.Second, time.Hour + time.Minute + time.Second, true},
	} {
		var counted bool
		if sum, counted = stepped(sum, step.gained); sum != step.want || counted != step.counts {
			t.Errorf("gained %v: %v, %t", step.gained, sum, counted)
		}
	}
}

// Where the kernel reports suspends again, and then no more, steps of the wall clock count from its last report: what was before is in that, or was no suspend.
func TestStepsBeforeTheKernelToldDoNotCount(t *testing.T) {
	var c clock
	begin := time.Now()
	for i, ok := range []bool{false, true, true} {
		c.mu.Lock()
		at := begin.Add(time.Duration(i) * time.Hour)
		c.suspends(at, 0, 0, ok)
		if ok && !c.wall.Equal(at) {
			t.Errorf("steps count from %v before the kernel told last", at.Sub(c.wall))
		}
		c.mu.Unlock()
	}
}

// Two readings of the suspends differ by some nanoseconds. No event has a negative duration for that.
func TestDurationsAreNotNegative(t *testing.T) {
	defer func() { suspended = kernelSuspended }()
	synctest.Test(t, func(t *testing.T) {
		var readings atomic.Int64
		suspended = func(time.Duration) (atLeast, atMost time.Duration, ok bool) {
			d := time.Hour - 4*time.Duration(readings.Add(1))
			return d, d, true
		}
		var told atomic.Int64
		c, err := New(memstore.New(), Config{Observe: func(_ context.Context, e Event) {
			if told.Add(1); e.Duration < 0 || e.Delay < 0 {
				t.Errorf("%+v", e)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l, err := c.TryLock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(); err != nil || told.Load() == 0 {
			t.Errorf("%v; told of %d events", err, told.Load())
		}
	})
}

// Clones of a process, which have all of its memory in common, ask as different holders.
func TestClonesAreDifferentHolders(t *testing.T) {
	c, err := New(memstore.New(), Config{Replica: strings.Repeat("r", 128)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	seen := map[string]bool{}
	for range 1000 {
		c.holders.Store(math.MaxUint64 - 1) // as in the snapshot
		holder := c.newHolder()
		if err := store.CheckName(holder); err != nil || seen[holder] {
			t.Fatalf("%q: %v", holder, err)
		}
		seen[holder] = true
	}
}

// At the very instant of its deadline a lease is not held any more, also if that is asked before the timer has fired: another may be granted the name once the
// margin is over. Its context has ended then, too.
func TestLeaseIsNotHeldAtItsDeadline(t *testing.T) {
	for slept, want := range map[time.Duration]error{27*time.Second - time.Nanosecond: nil, 27 * time.Second: ErrLost} {
		t.Run(slept.String(), func(t *testing.T) {
			suspending(t, func(t *testing.T, sum *atomic.Int64) {
				c, l := mustHold(t)
				defer c.Close()
				sum.Store(int64(slept))
				if err := l.Err(); !errors.Is(err, want) {
					t.Errorf("held: %v, want %v", err, want)
				}
				if cause := context.Cause(l.Context()); !errors.Is(cause, want) || (cause == nil) != (want == nil) {
					t.Errorf("its context ended with %v, want %v: who was told of the loss need not wait for the timer", cause, want)
				}
			})
		})
	}
}

// A client that does something after a suspend, or is asked, notices the loss of its leases in time, and not only when the timer that stood still fires.
func TestLossIsNoticedInTimeAfterASuspend(t *testing.T) {
	asked := func(t *testing.T, _ *Client, l *Lease) {
		if err := l.Err(); err != nil {
			t.Error(err)
		}
	}
	for what, row := range map[string]struct {
		opts  Options
		awake time.Duration
		slept time.Duration
		after func(t *testing.T, c *Client, l *Lease)
	}{
		"a claim": {awake: 100 * time.Millisecond, slept: 26500 * time.Millisecond, after: func(t *testing.T, c *Client, _ *Lease) {
			if _, err := c.TryLock(t.Context(), "y"); err != nil {
				t.Error(err)
			}
		}},
		"Err":                             {awake: 100 * time.Millisecond, slept: 26500 * time.Millisecond, after: asked},
		"Err, with nothing left to renew": {opts: Options{AtMost: 40 * time.Second}, awake: 25100 * time.Millisecond, slept: 11500 * time.Millisecond, after: asked},
		"Left": {awake: 100 * time.Millisecond, slept: 26500 * time.Millisecond, after: func(t *testing.T, _ *Client, l *Lease) {
			if left := l.Left(); left != 400*time.Millisecond {
				t.Errorf("%v are left", left)
			}
		}},
	} {
		t.Run(what, func(t *testing.T) {
			suspending(t, func(t *testing.T, slept *atomic.Int64) {
				s := &deafStore{Store: memstore.New()}
				c, err := New(s, Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				l, err := c.With(row.opts).TryLock(t.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				s.deaf.Store(row.opts.AtMost == 0)
				time.Sleep(row.awake)
				slept.Add(int64(row.slept))
				begin := time.Now()
				row.after(t, c, l)
				<-l.Context().Done()
				if took := time.Since(begin); took != 400*time.Millisecond {
					t.Errorf("told after %v, want the 400 ms that were left", took)
				}
			})
		})
	}
}

// A process that is paused while it reads the clocks does not take a lease for one that lasts longer.
func TestReadingTheClocksTakesTime(t *testing.T) {
	defer func() { suspended = kernelSuspended }()
	synctest.Test(t, func(t *testing.T) {
		suspended = func(time.Duration) (atLeast, atMost time.Duration, ok bool) {
			time.Sleep(time.Second)
			return 0, 0, true
		}
		var c clock
		if now := c.latest(); now.Before(time.Now()) {
			t.Errorf("the latest time that it may be is %v ago", time.Since(now))
		}
		begin := time.Now()
		if now := (&clock{}).earliest(); now.After(begin) {
			t.Errorf("the earliest time that it may be is %v after it was asked for", now.Sub(begin))
		}
	})
}

// A process that is paused after it has read the clocks, and before it has told until when a lease is held, tells no later time than the lease has.
func TestPauseMakesNoDeadlineLater(t *testing.T) {
	c := &clock{}
	c.host = func() (atLeast, atMost time.Duration) { // the clock waits for its mutex once it has read the time
		c.mu.Lock()
		time.AfterFunc(50*time.Millisecond, c.mu.Unlock)
		return 0, 0
	}
	deadline := time.Now().Add(time.Hour)
	if until := c.until(deadline); until.After(deadline) {
		t.Errorf("told a time that is %v after the deadline", until.Sub(deadline))
	}
}

// A name lingers for AtLeast after a grant also if the machine was suspended shortly before it: the client may not have noticed that yet.
func TestALingerAfterASuspend(t *testing.T) {
	suspending(t, func(t *testing.T, slept *atomic.Int64) {
		one := memstore.New()
		a, b := forceClient(t, one), forceClient(t, one.Share())
		if _, err := a.TryLock(t.Context(), "first"); err != nil { // the client has read the clocks
			t.Fatal(err)
		}
		slept.Add(int64(20 * time.Second))
		l, err := a.With(Options{AtLeast: time.Minute}).TryLock(t.Context(), "x")
		if err == nil {
			err = l.Release()
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second)
		if _, err := b.TryLock(t.Context(), "x"); !errors.Is(err, ErrHeld) {
			t.Errorf("59 s after the grant: %v, want ErrHeld", err)
		}
	})
}
