package soloist_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
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

// A slowControls answers late what is asked of jobs, and tells nobody that it has changed.
type slowControls struct {
	*soloisttest.Store
	slow atomic.Bool
}

func (s *slowControls) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	other := func(c store.Claim) bool { return c.Mark >= 0 || !strings.Contains(c.Name, "control") }
	if s.slow.Load() && !slices.ContainsFunc(claims, other) {
		select {
		case <-time.After(15 * time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.Store.Acquire(ctx, claims)
}

func (s *slowControls) Watch(context.Context, []string) (<-chan struct{}, error) {
	return nil, errors.ErrUnsupported
}

// A successor looks back from when it was granted the job, not from when it had learned what people ask of it.
func TestTakeoverLooksBackFromTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		var dead atomic.Bool
		begin := time.Now()
		one := soloisttest.NewStore()
		two := &slowControls{Store: one.Share()}
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(10 * time.Second), TTL: 30 * time.Second, Grace: time.Second, Missed: soloist.MissedOnce}
		job.Do = r.do
		other := soloist.Job{Name: "other", Schedule: soloist.Every(time.Hour), Do: r.do}
		mortal := job
		mortal.Do = func(ctx context.Context, run soloist.Run) error {
			if err := r.do(ctx, run); err != nil {
				return err
			}
			dead.Store(true)
			one.Stall()
			<-ctx.Done()
			return ctx.Err()
		}
		start(t, soloisttest.NewReplica(t, one, soloist.Config{}), mortal)
		time.Sleep(11 * time.Second)
		if !dead.Load() {
			t.Fatal("the first replica did not run the job")
		}
		start(t, soloisttest.NewReplica(t, two, soloist.Config{RequestTimeout: 20 * time.Second}), job, other)
		time.Sleep(20 * time.Second)
		two.slow.Store(true)
		if err := soloisttest.NewReplica(t, two.Share(), soloist.Config{}).PauseJob(background, "other", "a test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(60 * time.Second)
		if all := r.scheduled(begin); len(all) < 2 || all[1] != all[0] {
			t.Errorf("ran %v; want the first again, which was cut off", all)
		}
		one.Mend()
	})
}
