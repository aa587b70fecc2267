package soloist_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// What the simulation in test/sim has found, made small.

// cutOff runs a job on two replicas. Whichever runs it first is cut off from the store in that run; test is given the other's network.
func cutOff(t *testing.T, job soloist.Job, test func(t *testing.T, r *recorder, other func() *soloisttest.Store, begin time.Time)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		var dead atomic.Pointer[soloisttest.Store]
		begin := time.Now()
		one := soloisttest.NewStore()
		two := one.Share()
		for _, network := range []*soloisttest.Store{one, two} {
			job.Do = func(ctx context.Context, run soloist.Run) error {
				_ = r.do(ctx, run)
				if dead.CompareAndSwap(nil, network) {
					network.Stall()
					<-ctx.Done()
				}
				return ctx.Err()
			}
			start(t, soloisttest.NewReplica(t, network, soloist.Config{}), job)
			synctest.Wait()
		}
		test(t, &r, func() *soloisttest.Store {
			if dead.Load() == one {
				return two
			}
			return one
		}, begin)
		one.Mend()
		two.Mend()
	})
}

// A dead replica's run is taken over when its lease ends, even if the job is not due then and the run is later than Grace.
func TestTakeoverDoesNotWaitForTheNextTime(t *testing.T) {
	job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 6 * time.Second, Grace: time.Second}
	cutOff(t, job, func(t *testing.T, r *recorder, _ func() *soloisttest.Store, begin time.Time) {
		time.Sleep(80 * time.Second)
		check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Minute, time.Minute})
		if len(r.began()) < 2 {
			t.FailNow()
		}
		if late := r.began()[1].Sub(begin); late > 68*time.Second {
			t.Errorf("taken over after %v", late)
		}
	})
}

// A job with a delay that may be run once only is asked for now and then while it runs, and goes on after a run that nobody ended.
func TestDelayGoesOnAfterARunThatWasGivenUp(t *testing.T) {
	job := soloist.Job{Name: "tick", Schedule: soloist.Delay(20 * time.Second), TTL: 6 * time.Second, Crash: soloist.CrashGiveUp}
	cutOff(t, job, func(t *testing.T, r *recorder, other func() *soloisttest.Store, begin time.Time) {
		before := other().Calls()
		time.Sleep(5 * time.Second)
		if asked := other().Calls() - before; asked > 10 {
			t.Errorf("%d requests in 5 s in which another replica runs the job", asked)
		}
		time.Sleep(45 * time.Second)
		if len(r.began()) != 3 {
			t.Fatalf("begun at %v; want once, and twice after it was given up", r.began())
		}
		if early := r.began()[1].Sub(begin); early < 25*time.Second || early > 27*time.Second {
			t.Errorf("it goes on after %v; want the delay after the end of the lease", early)
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
