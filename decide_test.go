package soloist_test

import (
	"context"
	"errors"
	"fmt"
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
		one.Heal()
		two.Heal()
	})
}

// A replica that has known the job for longer than the record says takes over the run that the dead one was at, and not one from before the record was made.
func TestTakeoverByOneThatHasKnownTheJobForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var r recorder
		one := soloisttest.NewStore()
		two := one.Share()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 6 * time.Second, Missed: soloist.MissedAll, Grace: time.Second}
		job.Do = r.do
		one.Stall()
		start(t, soloisttest.NewReplica(t, one, soloist.Config{}), job)
		time.Sleep(90 * time.Second)
		job.Do = func(ctx context.Context, run soloist.Run) error {
			_ = r.do(ctx, run)
			two.Stall()
			<-ctx.Done()
			return ctx.Err()
		}
		start(t, soloisttest.NewReplica(t, two, soloist.Config{}), job)
		time.Sleep(31 * time.Second)
		one.Heal()
		time.Sleep(30 * time.Second)
		check(t, "scheduled", r.scheduled(begin), []time.Duration{2 * time.Minute, 2 * time.Minute})
		two.Heal()
	})
}

// A claim that was made in time is remembered as that, although an earlier one of the same replica was refused and it had not heard that the run in its way had been
// recorded: the answer may come when the time would be missed.
func TestClaimInTimeBehindOneThatWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var r recorder
		one := soloisttest.NewStore()
		two := one.Share()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(3 * time.Second), TTL: 6 * time.Second, Grace: 1500 * time.Millisecond}
		job.Do = r.do
		start(t, soloisttest.NewReplica(t, one, soloist.Config{}), job)
		synctest.Wait()
		job.Do = func(ctx context.Context, run soloist.Run) error {
			time.Sleep(2 * time.Second)
			return r.do(ctx, run)
		}
		other := start(t, soloisttest.NewReplica(t, two, soloist.Config{}), job)
		time.Sleep(2900 * time.Millisecond)
		one.Slow(10 * time.Millisecond) // so that the other is first at 3 s
		time.Sleep(200 * time.Millisecond)
		one.Slow(0)
		time.Sleep(2400 * time.Millisecond)
		other()
		time.Sleep(400 * time.Millisecond)
		one.Slow(2 * time.Second)
		time.Sleep(2 * time.Second)
		one.Slow(0)
		time.Sleep(time.Second)
		check(t, "scheduled", r.scheduled(begin), []time.Duration{3 * time.Second, 6 * time.Second})
	})
}

// A dead replica's run is taken over when its lease ends, even if the job is not due then and the run is later than Grace.
func TestTakeoverDoesNotWaitForTheNextTime(t *testing.T) {
	for _, schedule := range []soloist.Schedule{soloist.Every(time.Minute), soloist.At(time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC))} { // the clock of a test begins a minute before
		job := soloist.Job{Name: "tick", Schedule: schedule, TTL: 6 * time.Second, Grace: time.Second}
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
		begin := time.Now()
		one := soloisttest.NewStore()
		two := &slowControls{Store: one.Share()}
		mortal, job := dyingRun(soloist.Job{Name: "tick", Schedule: soloist.Every(10 * time.Second), TTL: 30 * time.Second, Grace: time.Second, Missed: soloist.MissedOnce}, &r, one)
		other := soloist.Job{Name: "other", Schedule: soloist.Every(time.Hour), Do: r.do}
		start(t, soloisttest.NewReplica(t, one, soloist.Config{}), mortal)
		time.Sleep(11 * time.Second)
		if len(r.began()) != 1 {
			t.Fatal("the first replica did not run the job")
		}
		start(t, soloisttest.NewReplica(t, two, soloist.Config{RequestTimeout: 20 * time.Second}), job, other)
		time.Sleep(20 * time.Second)
		two.slow.Store(true)
		if err := soloisttest.NewReplica(t, two.Share(), soloist.Config{}).Admin().Pause(background, "other", "a test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(60 * time.Second)
		if all := r.scheduled(begin); len(all) < 2 || all[1] != all[0] {
			t.Errorf("ran %v; want the first again, which was cut off", all)
		}
		one.Heal()
	})
}

// dyingRun makes one job of two: one that is cut off in its first run, on one, and that which takes over.
func dyingRun(job soloist.Job, r *recorder, one *soloisttest.Store) (mortal, other soloist.Job) {
	mortal, other = job, job
	other.Do = r.do
	mortal.Do = func(ctx context.Context, run soloist.Run) error {
		if err := r.do(ctx, run); err != nil {
			return err
		}
		one.Stall()
		<-ctx.Done()
		return ctx.Err()
	}
	return mortal, other
}

// A run that was cut off is found by a replica that has known the job for a shorter time than that, when the lease ends: though the run is
// later than Grace by then and the job is not due; and though the job had no record before.
func TestRunIsTakenOverByANewcomer(t *testing.T) {
	for name, test := range map[string]struct {
		grace   time.Duration
		network func(*soloisttest.Store) store.Store // of the first replica
	}{
		"later than Grace": {time.Second, func(s *soloisttest.Store) store.Store { return s }},
		"without a record": {time.Hour, func(s *soloisttest.Store) store.Store { return &refusesFirst{Store: s} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r recorder
				begin := time.Now()
				one := soloisttest.NewStore()
				two := one.Share()
				mortal, other := dyingRun(soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 20 * time.Second, Grace: test.grace}, &r, one)
				start(t, soloisttest.NewReplica(t, test.network(one), soloist.Config{}), mortal)
				time.Sleep(70 * time.Second)
				start(t, soloisttest.NewReplica(t, two, soloist.Config{}), other)
				time.Sleep(15 * time.Second)
				check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Minute, time.Minute})
				one.Heal()
			})
		})
	}
}

// The history names the replica that died although the newcomer that takes its run over has read the record slowly: how old the lease was then is known
// within the time of the request.
func TestNewcomerThatReadsSlowlyNamesTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		one := soloisttest.NewStore()
		two := &troubled{Store: one.Share()}
		mortal, other := dyingRun(soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 20 * time.Second, Grace: time.Second}, &r, one)
		start(t, soloisttest.NewReplica(t, one, soloist.Config{Replica: "mortal"}), mortal)
		time.Sleep(65 * time.Second)
		two.set(func(c store.Claim, _ store.Outcome) {
			if c.Name == "job/tick" && c.Mark < 0 {
				time.Sleep(4 * time.Second)
			}
		}, nil)
		newcomer := soloisttest.NewReplica(t, two, soloist.Config{RequestTimeout: 10 * time.Second})
		start(t, newcomer, other)
		time.Sleep(20 * time.Second)
		two.set(nil, nil)
		info, err := newcomer.Admin().Job(background, "tick")
		if err != nil || len(info.Runs) != 2 || info.Runs[0].Outcome != soloist.OutcomeAbandoned || info.Runs[0].Replica != "mortal" || info.Runs[0].Token == 0 {
			t.Errorf("the history is %+v, %v; want the run of the replica that died, with its name, and another", info.Runs, err)
		}
		one.Heal()
	})
}

// A refusesFirst store refuses the first releases, with which a job's record is made.
type refusesFirst struct {
	*soloisttest.Store
	refused atomic.Bool
}

func (s *refusesFirst) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if strings.HasPrefix(releases[0].Name, "job/") && s.refused.CompareAndSwap(false, true) {
		return slices.Repeat([]error{errors.New("not now")}, len(releases)), nil
	}
	return s.Store.Release(ctx, releases)
}

// A job whose record could not be made is known to the fleet since it was known to the first replica that ran it, if only by hand: what was due after that is missed, and run.
func TestJobIsKnownSinceBeforeItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		begin := time.Now()
		one := soloisttest.NewStore()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 6 * time.Second, Missed: soloist.MissedAll, Do: r.do}
		a := soloisttest.NewReplica(t, &refusesFirst{Store: one}, soloist.Config{})
		stop := start(t, a, job)
		time.Sleep(10 * time.Second)
		if err := a.Admin().Trigger(background, "tick"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		stop()
		time.Sleep(50 * time.Second)
		start(t, soloisttest.NewReplica(t, one.Share(), soloist.Config{}), job)
		time.Sleep(10 * time.Second)
		check(t, "scheduled", r.scheduled(begin), []time.Duration{10 * time.Second, time.Minute})
	})
}

// A manual run that was cut off is taken over, and its crash counts as an attempt.
func TestManualRunIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		one := soloisttest.NewStore()
		two := one.Share()
		mortal, other := dyingRun(soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 20 * time.Second}, &r, one)
		start(t, soloisttest.NewReplica(t, one, soloist.Config{}), mortal)
		operator := soloisttest.NewReplica(t, two, soloist.Config{})
		time.Sleep(time.Second)
		asked := time.Now()
		if err := operator.Admin().Trigger(background, "tick"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		start(t, operator, other)
		time.Sleep(time.Minute)
		if len(r.all()) != 2 || !r.all()[1].Manual || r.all()[1].Attempt != 2 {
			t.Fatalf("runs: %+v; want the manual run, and its second attempt", r.all())
		}
		for _, run := range r.all() {
			if !run.ScheduledAt.Equal(asked) {
				t.Errorf("a manual run is of %v; want %v, when it was asked for", run.ScheduledAt, asked)
			}
		}
		info, err := operator.Admin().Job(background, "tick")
		if err != nil || len(info.Runs) != 2 || info.Runs[0].Outcome != soloist.OutcomeAbandoned || !info.Runs[0].Manual || info.Runs[1].Outcome != soloist.OutcomeOK {
			t.Errorf("history: %+v, %v", info.Runs, err)
		}
		one.Heal()
	})
}

// TestEachManualRunHasItsTime: the attempts at a manual run are of when it was asked for, also if another one was since.
func TestEachManualRunHasItsTime(t *testing.T) {
	for crash, want := range map[soloist.Crash][]time.Duration{soloist.CrashTakeOver: {time.Second, time.Second, 6 * time.Second}, soloist.CrashGiveUp: {time.Second, 6 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			var r recorder
			one := soloisttest.NewStore()
			two := one.Share()
			mortal, other := dyingRun(soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 20 * time.Second, Crash: crash}, &r, one)
			start(t, soloisttest.NewReplica(t, one, soloist.Config{}), mortal)
			operator := soloisttest.NewReplica(t, two, soloist.Config{})
			for _, wait := range []time.Duration{time.Second, 5 * time.Second} {
				time.Sleep(wait)
				must(t, operator.Admin().Trigger(background, "tick"))
			}
			time.Sleep(4 * time.Second)
			start(t, operator, other)
			time.Sleep(time.Minute)
			var got []time.Duration
			for _, run := range r.all() {
				got = append(got, run.ScheduledAt.Sub(begin))
			}
			check(t, "runs", fmt.Sprint(got), fmt.Sprint(want))
			info, err := operator.Admin().Job(background, "tick")
			must(t, err)
			got = nil
			for _, run := range info.Runs {
				got = append(got, run.ScheduledAt.Sub(begin))
			}
			check(t, "history", fmt.Sprint(got), fmt.Sprint(want))
			one.Heal()
		})
	}
}

// A manual run that is interrupted is taken over before another one that was requested while it was under way: both are run.
func TestInterruptedManualRunIsNotReplacedByAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		begin := time.Now()
		var r recorder
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Retry: soloist.Retry{Attempts: 3, Backoff: time.Second}}
		job.Do = func(ctx context.Context, run soloist.Run) error {
			if run.Attempt == 1 {
				return errOnce
			}
			<-ctx.Done()
			return ctx.Err()
		}
		stop := start(t, soloisttest.NewReplica(t, s.Share(), soloist.Config{Drain: -1}), job)
		for _, wait := range []time.Duration{time.Second, 5 * time.Second} {
			time.Sleep(wait)
			must(t, a.Admin().Trigger(background, "tick"))
		}
		time.Sleep(time.Second)
		stop()
		job.Do = r.do
		start(t, b, job)
		time.Sleep(time.Minute)
		check(t, "runs", r.scheduled(begin), []time.Duration{time.Second, 6 * time.Second})
		if all := r.all(); len(all) == 2 && (all[0].Attempt != 2 || all[1].Attempt != 1 || !all[0].Manual || !all[1].Manual) {
			t.Errorf("%+v; want the second attempt at the first manual run, and the first at the second", all)
		}
	})
}

// An unreadable store cannot say, for some time, whether anything is asked of jobs.
type unreadable struct {
	*soloisttest.Store
	left atomic.Int32 // how often a control cannot be read
}

func (s *unreadable) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	control := slices.ContainsFunc(claims, func(c store.Claim) bool { return strings.HasPrefix(c.Name, "control/") })
	if claims[0].Name == "controls" && len(claims) == 1 || control && s.left.Add(-1) >= 0 {
		return nil, errors.New("not now")
	}
	return s.Store.Acquire(ctx, claims)
}

// A replica that is granted the job of a dead one, and cannot read whether it is paused, leaves the run to be found, and its attempt counts once.
func TestTakeoverThatCannotReadItsControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		one := soloisttest.NewStore()
		two := &unreadable{Store: one.Share()}
		mortal, other := dyingRun(soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 20 * time.Second, Grace: time.Second}, &r, one)
		start(t, soloisttest.NewReplica(t, one, soloist.Config{}), mortal)
		time.Sleep(61 * time.Second)
		two.left.Store(3)
		start(t, soloisttest.NewReplica(t, two, soloist.Config{}), other)
		time.Sleep(40 * time.Second)
		if len(r.all()) != 2 || !r.all()[1].ScheduledAt.Equal(r.all()[0].ScheduledAt) || r.all()[1].Attempt != 2 {
			t.Errorf("runs: %+v; want the first again, as its second attempt", r.all())
		}
		if two.left.Load() > 0 {
			t.Error("no control was read")
		}
		one.Heal()
	})
}

// AtLeast counts from a run. When a run is given up without another attempt, the next scheduled time is run when it is due.
func TestARunThatIsGivenUpKeepsNoDistance(t *testing.T) {
	job := soloist.Job{
		Name: "tick", Schedule: soloist.Every(30 * time.Second), TTL: 20 * time.Second, AtLeast: 50 * time.Second, Grace: 5 * time.Second,
		Retry: soloist.Retry{Attempts: 1},
	}
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		begin := time.Now()
		one := soloisttest.NewStore()
		two := one.Share()
		mortal, other := dyingRun(job, &r, one)
		start(t, soloisttest.NewReplica(t, one, soloist.Config{}), mortal)
		two.Slow(time.Millisecond)
		start(t, soloisttest.NewReplica(t, two, soloist.Config{}), other)
		time.Sleep(time.Until(begin.Add(65 * time.Second)))
		check(t, "scheduled", r.scheduled(begin), []time.Duration{30 * time.Second, time.Minute})
		one.Heal()
	})
}

// A cannotBegin store refuses to record that runs begin.
type cannotBegin struct{ *soloisttest.Store }

func (s cannotBegin) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if strings.HasPrefix(extensions[0].Name, "job/") {
		return nil, errors.New("read-only")
	}
	return s.Store.Extend(ctx, extensions)
}

// Nor does a run whose beginning could not be recorded: another replica runs it within Grace.
func TestARunThatCouldNotBeAnnouncedKeepsNoDistance(t *testing.T) {
	job := soloist.Job{
		Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 20 * time.Second, AtLeast: 50 * time.Second, Crash: soloist.CrashGiveUp, Grace: 30 * time.Second,
	}
	synctest.Test(t, func(t *testing.T) {
		var r, never recorder
		begin := time.Now()
		one := cannotBegin{soloisttest.NewStore()}
		two := one.Share()
		job.Do = never.do
		stop := start(t, soloisttest.NewReplica(t, one, soloist.Config{}), job)
		two.Slow(time.Millisecond)
		job.Do = r.do
		start(t, soloisttest.NewReplica(t, two, soloist.Config{}), job)
		time.Sleep(time.Until(begin.Add(61 * time.Second)))
		stop()
		time.Sleep(time.Until(begin.Add(100 * time.Second)))
		check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Minute})
		check(t, "begun without a record", len(never.all()), 0)
	})
}

// Nor does a run that is interrupted: another replica runs it at once.
func TestAnInterruptedRunKeepsNoDistance(t *testing.T) {
	job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 20 * time.Second, AtLeast: 50 * time.Second}
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		begin := time.Now()
		one := soloisttest.NewStore()
		two := one.Share()
		job.Do = func(ctx context.Context, _ soloist.Run) error {
			<-ctx.Done()
			return soloist.ErrInterrupted
		}
		stop := start(t, soloisttest.NewReplica(t, one, soloist.Config{Drain: -1}), job)
		two.Slow(time.Millisecond)
		job.Do = r.do
		start(t, soloisttest.NewReplica(t, two, soloist.Config{}), job)
		time.Sleep(time.Until(begin.Add(61 * time.Second)))
		stop()
		time.Sleep(time.Until(begin.Add(65 * time.Second)))
		check(t, "scheduled", r.scheduled(begin), []time.Duration{time.Minute})
	})
}

// Attempts count over crashes and failures alike, up to the bound, and each once.
func TestAttemptsCountOverReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		one := soloisttest.NewStore()
		two := one.Share()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 20 * time.Second, Retry: soloist.Retry{Attempts: 4, Backoff: time.Second}}
		dies, fails := job, job
		dies.Do = func(ctx context.Context, run soloist.Run) error {
			_ = r.do(ctx, run)
			if run.Attempt == 2 {
				one.Stall()
				<-ctx.Done()
			}
			return errors.New("no")
		}
		fails.Do = func(ctx context.Context, run soloist.Run) error {
			_ = r.do(ctx, run)
			return errors.New("no")
		}
		start(t, soloisttest.NewReplica(t, one, soloist.Config{}), dies)
		time.Sleep(time.Hour + 10*time.Second)
		start(t, soloisttest.NewReplica(t, two, soloist.Config{}), fails)
		time.Sleep(10 * time.Minute)
		var attempts []int
		for _, run := range r.all() {
			attempts = append(attempts, run.Attempt)
		}
		check(t, "attempts", attempts, []int{1, 2, 3, 4})
		one.Heal()
	})
}

// The first run of a job with a fixed delay is due since each process began, and is the same run nevertheless: each crash of it is told, and counts.
func TestCrashesInTheFirstRunOfADelayCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		network := soloisttest.NewStore()
		job := soloist.Job{Name: "tick", Schedule: soloist.Delay(time.Hour), TTL: 20 * time.Second, Retry: soloist.Retry{Attempts: 2, Backoff: time.Second}}
		for range 4 { // the job ends each process in which it is begun
			life := network.Share()
			job.Do = func(ctx context.Context, run soloist.Run) error {
				_ = r.do(ctx, run)
				life.Stall()
				<-ctx.Done()
				return ctx.Err()
			}
			stop := start(t, soloisttest.NewReplica(t, life, soloist.Config{}), job)
			time.Sleep(2 * time.Minute)
			stop()
			life.Heal()
		}
		var attempts []int
		for _, run := range r.all() {
			attempts = append(attempts, run.Attempt)
		}
		check(t, "attempts", attempts, []int{1, 2})
		info, err := soloisttest.NewReplica(t, network, soloist.Config{}).Admin().Job(background, "tick")
		if err != nil || len(info.Runs) != 2 || info.Runs[0].Outcome != soloist.OutcomeAbandoned || info.Runs[1].Outcome != soloist.OutcomeAbandoned {
			t.Errorf("the history: %+v, %v", info.Runs, err)
		}
	})
}
