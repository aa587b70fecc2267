package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// A job that was removed stays known until it is forgotten, which it cannot be while a replica has it.
func TestForgetAJob(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		admin := b.Admin()
		var r recorder
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Description: "./tick", Do: r.do}
		stop := start(t, a, job)
		time.Sleep(90 * time.Second)
		if err := admin.Pause(background, "tick", "a test"); err != nil {
			t.Fatal(err)
		}
		if err := admin.Forget(background, "tick"); !errors.Is(err, soloist.ErrInUse) || !strings.Contains(err.Error(), "have the job: a") {
			t.Errorf("while a replica has it: %v", err)
		}
		stop()
		info, err := admin.Job(background, "tick")
		if err != nil || info.Paused == nil || info.Paused.Reason != "a test" || len(info.Replicas) != 0 || info.About != "./tick" || len(info.Runs) != 1 {
			t.Errorf("%+v, %v", info, err)
		}
		if err := admin.Trigger(background, "tick"); !errors.Is(err, soloist.ErrNoReplica) {
			t.Errorf("triggered: %v", err)
		}
		if err := admin.Forget(background, "tick"); err != nil {
			t.Fatal(err)
		}
		if infos, err := collect(admin.Jobs(background)); len(infos) != 0 || err != nil {
			t.Errorf("%+v, %v", infos, err)
		}
		if actions, err := collect(admin.Actions(background)); err != nil || len(actions) == 0 || actions[len(actions)-1].Verb != soloist.ActionForget || actions[len(actions)-1].Name != "tick" {
			t.Errorf("%+v, %v", actions, err)
		}
		if err := admin.Pause(background, "tick", ""); !errors.Is(err, soloist.ErrNoJob) {
			t.Errorf("paused before the store has deleted its record: %v", err)
		}
		_, err = s.Sweep(background, 1000)
		must(t, err)
		for _, kind := range []string{"job/", "control/"} {
			for r, err := range s.List(background, kind) {
				t.Errorf("it is not forgotten: %+v, %v", r, err)
			}
		}
		for doing, err := range map[string]error{
			"forgetting again": admin.Forget(background, "tick"), "forgetting another": admin.Forget(background, "tock"),
			"pausing": admin.Pause(background, "tick", ""), "triggering": admin.Trigger(background, "tick"),
		} {
			if !errors.Is(err, soloist.ErrNoJob) {
				t.Errorf("%s: %v", doing, err)
			}
		}
		ran := len(r.began())
		start(t, a, job)
		time.Sleep(2 * time.Minute)
		if n := len(r.began()) - ran; n != 2 {
			t.Errorf("it was run %d times in 2 minutes after it came back; the pause is to be forgotten", n)
		}
		if info, err := admin.Job(background, "tick"); err != nil || info.Paused != nil || len(info.Runs) != 2 || len(info.Replicas) != 1 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// A job that was forgotten and is back is known again before it has run, also if the store had not deleted its record when it came back, and deletes it then.
func TestForgottenJobThatIsBackIsKnown(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		job := soloist.Job{Name: "report", Schedule: soloist.Every(24 * time.Hour), Do: nothing}
		stop := start(t, a, job)
		time.Sleep(time.Second)
		stop()
		admin := b.Admin()
		must(t, admin.Forget(background, "report"))
		start(t, a, job)
		time.Sleep(time.Second)
		must(t, admin.Pause(background, "report", "a test"))
		_, err := s.Sweep(background, 1000)
		must(t, err)
		must(t, admin.Resume(background, "report"))
		must(t, admin.Trigger(background, "report"))
	})
}

// A job that was forgotten starts from the beginning, also if it has run and the store had not deleted its record when it came back: it has missed nothing,
// on whatever replica, and is known before it has run.
func TestForgottenJobThatHadRunStartsFromTheBeginning(t *testing.T) {
	for _, missed := range []soloist.Missed{soloist.MissedSkip, soloist.MissedOnce, soloist.MissedAll} {
		inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
			var saw witness
			c := soloisttest.NewReplica(t, s.Share(), soloist.Config{Replica: "c", Observe: saw.observe})
			var r recorder
			job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Missed: missed, Do: r.do}
			stop := start(t, a, job)
			time.Sleep(90 * time.Second)
			stop()
			time.Sleep(time.Hour)
			must(t, b.Admin().Forget(background, "tick"))
			time.Sleep(time.Second)
			ran, begin := len(r.began()), time.Now().Truncate(time.Minute)
			stop = start(t, c, job)
			time.Sleep(time.Second)
			must(t, b.Admin().Pause(background, "tick", "a test"))
			must(t, b.Admin().Resume(background, "tick"))
			start(t, b, job)
			time.Sleep(time.Second)
			stop()
			start(t, a, job)
			time.Sleep(2 * time.Minute)
			check(t, fmt.Sprint(missed, ": scheduled"), r.scheduled(begin)[ran:], []time.Duration{time.Minute, 2 * time.Minute})
			if events := saw.of(soloist.EventMissed); len(events) > 0 {
				t.Errorf("%v: missed: %+v", missed, events)
			}
		})
	}
}

// Nor does a request that fails, or that is lost, when its record is made anew, bring back what was forgotten.
func TestForgottenJobWhoseRecordIsNotMadeAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		whole bool // the whole request fails; else the store refuses the record of this job
		err   error
	}{
		"it fails":            {true, errNotNow},
		"its outcome is lost": {true, store.AsUnknown(errNotNow)},
		"it is refused":       {false, errNotNow},
		"it may be refused":   {false, store.AsUnknown(errNotNow)},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
				var r recorder
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Missed: soloist.MissedAll, Do: r.do}
				stop := start(t, a, job)
				time.Sleep(90 * time.Second)
				stop()
				time.Sleep(time.Hour)
				must(t, b.Admin().Forget(background, "tick"))
				time.Sleep(time.Second)
				ran, begin := len(r.began()), time.Now().Truncate(time.Minute)
				c := soloisttest.NewReplica(t, &lostRecord{Store: s.Share(), whole: test.whole, err: test.err}, soloist.Config{})
				start(t, c, job)
				time.Sleep(2 * time.Minute)
				check(t, "scheduled", r.scheduled(begin)[ran:], []time.Duration{time.Minute, 2 * time.Minute})
				if info, err := b.Admin().Job(background, "tick"); err != nil || len(info.Runs) != 2 {
					t.Errorf("the history is %+v, %v; want two runs", info.Runs, err)
				}
			})
		})
	}
}

// A lostRecord store loses the first request that writes the record of a job.
type lostRecord struct {
	*soloisttest.Store
	whole bool
	err   error
	lost  atomic.Bool
}

func (s *lostRecord) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if !strings.HasPrefix(releases[0].Name, "job/") || !s.lost.CompareAndSwap(false, true) {
		return s.Store.Release(ctx, releases)
	}
	if s.whole {
		return nil, s.err
	}
	return slices.Repeat([]error{s.err}, len(releases)), nil
}

// A job that was forgotten because its record was ahead of all clocks is not kept from running by what is left of that once the store has deleted it.
func TestForgottenJobWhoseRecordWasAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		outs, err := s.Acquire(background, []store.Claim{{Name: "job/tick", Holder: "x", TTL: time.Second}})
		must(t, errors.Join(err, outs[0].Err))
		errs, err := s.Release(background, []store.Release{{Name: "job/tick", Holder: "x", Token: outs[0].Grant.Token, State: []byte(`{"since":1}`), Mark: time.Now().Add(24 * time.Hour).UnixMilli(), Retain: store.Forever}})
		must(t, errors.Join(err, errs[0]))
		must(t, b.Admin().Forget(background, "tick"))
		var r recorder
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: r.do}
		stop := start(t, a, job)
		time.Sleep(90 * time.Second)
		stop()
		_, err = s.Sweep(background, 1000)
		must(t, err)
		start(t, a, job)
		time.Sleep(time.Minute)
		check(t, "runs", len(r.began()), 1)
	})
}

// A forgetting store fails some of the requests with which a job is forgotten.
type forgetting struct {
	*soloisttest.Store
	acquires, releases func(name string) bool // which fail
}

var errNotNow = errors.New("not now")

func (s *forgetting) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	for _, c := range claims {
		if s.acquires != nil && s.acquires(c.Name) {
			return nil, errNotNow
		}
	}
	return s.Store.Acquire(ctx, claims)
}

func (s *forgetting) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	for _, r := range releases {
		if s.releases != nil && s.releases(r.Name) {
			return nil, errNotNow
		}
	}
	return s.Store.Release(ctx, releases)
}

// A job that is not forgotten, or only in part, is not said to be, and can be forgotten later.
func TestForgetThatFails(t *testing.T) {
	of := func(prefix string) func(string) bool {
		return func(name string) bool { return strings.HasPrefix(name, prefix) }
	}
	for what, test := range map[string]struct {
		hinders func(t *testing.T, s *forgetting)
		want    error
	}{
		"its record cannot be read":      {func(_ *testing.T, s *forgetting) { s.acquires = of("job/") }, errNotNow},
		"its commands cannot be changed": {func(_ *testing.T, s *forgetting) { s.acquires = of("control/") }, errNotNow},
		"its record cannot be released":  {func(_ *testing.T, s *forgetting) { s.releases = of("job/") }, errNotNow},
		"it cannot be noted":             {func(_ *testing.T, s *forgetting) { s.acquires = of("actions") }, soloist.ErrUnknown},
		"a replica has died in its run": {func(t *testing.T, s *forgetting) {
			outs, err := s.Store.Acquire(background, []store.Claim{{Name: "job/tick", Holder: "a#1", TTL: 10 * time.Second}})
			must(t, errors.Join(err, outs[0].Err))
		}, soloist.ErrHeld},
		"nobody knows what a replica has": {func(t *testing.T, s *forgetting) {
			outs, err := s.Store.Acquire(background, []store.Claim{{Name: "replica/other", Holder: "a#1", TTL: 10 * time.Second}})
			must(t, errors.Join(err, outs[0].Err))
			errs, err := s.Store.Extend(background, []store.Extension{{Name: "replica/other", Holder: "a#1", Token: outs[0].Grant.Token, TTL: 10 * time.Second, State: []byte("page 7")}})
			must(t, errors.Join(err, errs[0]))
		}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &forgetting{Store: soloisttest.NewStore()}
				leave(t, s, "job/tick", `{"schedule":"@every 1m0s"}`)
				admin := soloisttest.NewReplica(t, s, soloist.Config{}).Admin()
				test.hinders(t, s)
				if err := admin.Forget(background, "tick"); err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), `job "tick"`) {
					t.Errorf("%v, want %v", err, test.want)
				}
				if what == "nobody knows what a replica has" {
					if err := admin.Trigger(background, "tick"); err == nil || errors.Is(err, soloist.ErrNoReplica) {
						t.Errorf("triggered: %v", err)
					}
				}
				s.acquires, s.releases = nil, nil
				time.Sleep(time.Minute)
				if what == "nobody knows what a replica has" { // it is dead by now
					if err := admin.Trigger(background, "tick"); !errors.Is(err, soloist.ErrNoReplica) {
						t.Errorf("triggered: %v", err)
					}
					if _, err := collect(admin.Replicas(background)); err == nil || !strings.Contains(err.Error(), `replica "other" is not soloist's`) {
						t.Errorf("listed with %v", err)
					}
				}
				if err := admin.Forget(background, "tick"); err != nil && !errors.Is(err, soloist.ErrNoJob) || errors.Is(err, soloist.ErrNoJob) != (what == "it cannot be noted") {
					t.Errorf("later: %v", err)
				}
			})
		})
	}
	c, _ := soloisttest.NewClient(t)
	var invalid *soloist.InvalidError
	if err := c.Admin().Forget(background, ""); !errors.As(err, &invalid) {
		t.Errorf("a name that is none: %v", err)
	}
}

// A job that could not be forgotten is as it was: a replica that has it takes over the run of one that died, although Forget alone was told of that by the store.
func TestForgetInVainKeepsThatAReplicaDied(t *testing.T) {
	for what, test := range map[string]struct {
		live bool // another replica has the job
		want error
	}{
		"a live replica has it":          {live: true, want: soloist.ErrInUse},
		"its commands cannot be changed": {want: errNotNow},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				as := soloisttest.NewStore()
				bs, cs := as.Share(), &forgetting{Store: as.Share(), acquires: func(name string) bool { return strings.HasPrefix(name, "control/") }}
				a := soloisttest.NewReplica(t, as, soloist.Config{Replica: "a"})
				b := soloisttest.NewReplica(t, bs, soloist.Config{Replica: "b"})
				admin := soloisttest.NewReplica(t, cs, soloist.Config{Replica: "c"}).Admin()
				var r recorder
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: r.do}
				begun := make(chan struct{})
				dies := job
				dies.Do = func(ctx context.Context, _ soloist.Run) error {
					close(begun)
					<-ctx.Done()
					return ctx.Err()
				}
				start(t, a, dies)
				<-begun
				time.Sleep(2 * time.Minute)
				if test.live {
					start(t, b, job)
				}
				time.Sleep(5 * time.Minute)
				as.Stall()
				time.Sleep(20 * time.Second)
				bs.Break(errNotNow)
				time.Sleep(12 * time.Second) // the lease of the run is over, and b is still taken for alive
				if !test.live {
					time.Sleep(time.Minute) // nor does a count as alive any more
				}
				if err := admin.Forget(background, job.Name); !errors.Is(err, test.want) {
					t.Fatalf("forgotten: %v, want %v", err, test.want)
				}
				bs.Heal()
				if !test.live {
					start(t, b, job)
				}
				time.Sleep(time.Minute)
				check(t, "runs taken over at once", len(r.all()), 1)
				time.Sleep(59 * time.Minute)
				if runs := r.all(); len(runs) != 2 || runs[0].Attempt != 2 || runs[1].Attempt != 1 {
					t.Errorf("%+v, want the second attempt at the run of the dead replica, and the next run", runs)
				}
				info, err := admin.Job(background, job.Name)
				must(t, err)
				var outcomes []string
				for _, run := range info.Runs {
					outcomes = append(outcomes, run.Outcome)
				}
				check(t, "history", outcomes, []string{soloist.OutcomeAbandoned, soloist.OutcomeOK, soloist.OutcomeOK})
				as.Heal()
			})
		})
	}
}

// A replica that was cut off while a job was forgotten, and registered anew by another, goes by the new record: it runs nothing that was due before, and reports
// nothing as missed, whatever it had seen of the job, and also if the store has deleted the old record.
func TestJobIsForgottenWhileAReplicaIsCutOff(t *testing.T) {
	for name, test := range map[string]struct {
		before, after time.Duration // while another replica has the job, from when on and until when; not at all if both are zero
		joins, cut    time.Duration // when the replica begins, and when it is cut off
	}{
		"it had run there":             {joins: 0, cut: 90 * time.Minute},
		"it had run before":            {before: 0, after: 70 * time.Minute, joins: 65 * time.Minute, cut: 90 * time.Minute},
		"it has run on another since":  {before: 10 * time.Minute, after: 90 * time.Minute, joins: 0, cut: 30 * time.Minute},
		"it had been seen, and no run": {before: 0, after: 20 * time.Minute, joins: 10 * time.Minute, cut: 30 * time.Minute},
		"it had been made there":       {joins: 0, cut: 30 * time.Minute},
	} {
		for _, missed := range []soloist.Missed{soloist.MissedSkip, soloist.MissedAll} {
			for _, swept := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %v, swept %t", name, missed, swept), func(t *testing.T) {
					inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
						var saw witness
						cs := s.Share()
						c := soloisttest.NewReplica(t, cs, soloist.Config{Replica: "c", Observe: saw.observe})
						var r recorder
						job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Missed: missed, Do: r.do}
						begin := time.Now()
						at := func(d time.Duration, do func()) { time.AfterFunc(time.Until(begin.Add(d)), do) }
						ctx, cancel := context.WithCancel(background)
						done := make(chan error, 2)
						if test.after > 0 {
							at(test.before, func() { done <- a.Run(ctx, job) })
							at(test.after, cancel)
						}
						at(test.joins, func() { done <- c.Run(t.Context(), job) })
						at(test.cut, cs.Stall)
						time.Sleep(3*time.Hour + 30*time.Minute)
						cancel()
						must(t, b.Admin().Forget(background, "tick"))
						if swept {
							time.Sleep(time.Hour)
							if n, err := s.Sweep(background, 1000); n == 0 || err != nil {
								t.Fatal(n, err)
							}
						}
						ran, anew := len(r.began()), time.Now().Truncate(time.Hour)
						stop := start(t, a, job)
						time.Sleep(10 * time.Minute)
						stop()
						cs.Heal()
						time.Sleep(2 * time.Hour)
						check(t, "scheduled", r.scheduled(anew)[ran:], []time.Duration{time.Hour, 2 * time.Hour})
						if events := saw.of(soloist.EventMissed); len(events) > 0 {
							t.Errorf("missed: %+v", events)
						}
					})
				})
			}
		}
	}
}

// A run with a fixed delay of a replica that was cut off while the job was forgotten is taken over when that replica ends in it, as any other run.
func TestDelayAfterItWasForgottenIsTakenOver(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		cs := s.Share()
		c := soloisttest.NewReplica(t, cs, soloist.Config{Replica: "c"})
		var r recorder
		job := soloist.Job{Name: "tick", Schedule: soloist.Delay(4 * time.Minute), TTL: 20 * time.Second, Do: func(ctx context.Context, run soloist.Run) error {
			_ = r.do(ctx, run)
			if run.Attempt == 1 && len(r.all()) == 2 {
				<-ctx.Done()
			}
			return ctx.Err()
		}}
		stop := start(t, c, job)
		time.Sleep(10 * time.Second)
		cs.Stall()
		time.Sleep(time.Minute)
		must(t, b.Admin().Forget(background, "tick"))
		cs.Heal()
		time.Sleep(5 * time.Minute)
		check(t, "begun", len(r.all()), 2)
		start(t, a, job)
		time.Sleep(time.Second)
		stop()
		time.Sleep(time.Second)
		runs := r.all()
		if len(runs) != 3 || !runs[2].ScheduledAt.Equal(runs[1].ScheduledAt) {
			t.Errorf("%+v", runs)
		}
		info, err := a.Admin().Job(background, "tick")
		if err != nil || slices.ContainsFunc(info.Runs, func(r soloist.RunRecord) bool { return r.Outcome == soloist.OutcomeAbandoned }) {
			t.Errorf("%+v, %v", info.Runs, err)
		}
	})
}

// A Runner that runs again after its job was forgotten starts it from the beginning, and begins the manual runs that are asked for, which count from 1 again: also
// if the store has deleted the record in between, and if another replica has registered the job anew.
func TestRunnerRunsAJobAgainThatWasForgotten(t *testing.T) {
	for name, test := range map[string]struct {
		schedule soloist.Schedule
		missed   soloist.Missed
		first    int // runs when it begins anew
	}{
		"every hour":               {soloist.Every(time.Hour), soloist.MissedAll, 0},
		"an hour after it has run": {soloist.Delay(time.Hour), soloist.MissedSkip, 1},
	} {
		for _, swept := range []bool{false, true} {
			for _, registered := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, swept %t, registered %t", name, swept, registered), func(t *testing.T) {
					inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
						var r recorder
						job := soloist.Job{Name: "tick", Schedule: test.schedule, Missed: test.missed, Do: r.do}
						runner, err := a.NewRunner(job)
						must(t, err)
						run := func() (stop func()) {
							ctx, cancel := context.WithCancel(background)
							done := make(chan error, 1)
							go func() { done <- runner.Run(ctx) }()
							<-runner.Ready()
							return func() {
								cancel()
								must(t, <-done)
							}
						}
						trigger := func() (runs int) {
							before := len(r.began())
							must(t, b.Admin().Trigger(background, "tick"))
							time.Sleep(5 * time.Minute)
							return len(r.began()) - before
						}
						time.Sleep(10 * time.Minute)
						stop := run()
						time.Sleep(time.Minute)
						check(t, "manual runs of the first life", trigger()+trigger(), 2)
						time.Sleep(55 * time.Minute)
						stop()
						time.Sleep(3*time.Hour + 10*time.Minute)
						must(t, b.Admin().Forget(background, "tick"))
						if swept {
							time.Sleep(time.Hour)
							if n, err := s.Sweep(background, 1000); n == 0 || err != nil {
								t.Fatal(n, err)
							}
						}
						ran := len(r.began())
						if registered {
							start(t, b, job)()
						}
						stop = run()
						defer stop()
						time.Sleep(time.Minute)
						check(t, "runs before one was asked for", len(r.began())-ran, test.first)
						check(t, "manual runs", []int{trigger(), trigger()}, []int{1, 1})
						time.Sleep(10 * time.Minute)
						check(t, "runs", len(r.began())-ran, test.first+2)
					})
				})
			}
		}
	}
}

// A replica that was cut off while a job was forgotten, and registered anew by another, begins the manual runs that are asked for since: they count from 1 again.
func TestManualRunOfAJobThatWasForgottenWhileAReplicaWasCutOff(t *testing.T) {
	for name, test := range map[string]struct {
		schedule soloist.Schedule
		before   int           // manual runs before the job was forgotten
		back     time.Duration // how long the replica is back when one is asked for
	}{
		"as many as before":      {soloist.Every(24 * time.Hour), 1, time.Minute},
		"fewer than before":      {soloist.Every(24 * time.Hour), 3, time.Minute},
		"of a job after a delay": {soloist.Delay(24 * time.Hour), 3, time.Minute},
		"as soon as it is alive": {soloist.Every(24 * time.Hour), 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
				cs := s.Share()
				c := soloisttest.NewReplica(t, cs, soloist.Config{Replica: "c"})
				var r recorder
				job := soloist.Job{Name: "tick", Schedule: test.schedule, Do: r.do}
				trigger := func() (runs int) {
					before := len(r.began())
					err := soloist.ErrNoReplica // also while the replica is alive, and has not yet listed the job again
					for ; errors.Is(err, soloist.ErrNoReplica); time.Sleep(time.Millisecond) {
						err = b.Admin().Trigger(background, "tick")
					}
					must(t, err)
					time.Sleep(time.Minute)
					return len(r.began()) - before
				}
				start(t, c, job)
				time.Sleep(time.Minute)
				for range test.before {
					check(t, "manual runs before", trigger(), 1)
				}
				cs.Stall()
				time.Sleep(time.Hour)
				must(t, b.Admin().Forget(background, "tick"))
				start(t, a, job)()
				cs.Heal()
				time.Sleep(test.back)
				check(t, "manual runs", trigger(), 1)
			})
		})
	}
}

// A job that a replica registers while it is being forgotten, and after Forget has seen that none has it, starts from the beginning there: it has missed nothing of what
// was due before, is listed, and begins the manual runs that are asked for, which count from 1 again.
func TestReplicaRegistersAJobThatIsBeingForgotten(t *testing.T) {
	for name, test := range map[string]struct {
		schedule soloist.Schedule
		missed   soloist.Missed
		want     []time.Duration // the runs in less than two hours, from when it was registered
	}{
		"what was missed last":     {soloist.Every(time.Hour), soloist.MissedOnce, []time.Duration{30 * time.Minute, 90 * time.Minute}},
		"all that was missed":      {soloist.Every(time.Hour), soloist.MissedAll, []time.Duration{30 * time.Minute, 90 * time.Minute}},
		"an hour after it has run": {soloist.Delay(time.Hour), soloist.MissedSkip, []time.Duration{0, time.Hour}},
	} {
		for _, swept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, swept %t", name, swept), func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
					var r recorder
					var saw witness
					c := soloisttest.NewReplica(t, s.Share(), soloist.Config{Replica: "c", Observe: saw.observe})
					forgets := &troubled{Store: s.Share()}
					job := soloist.Job{Name: "tick", Schedule: test.schedule, Missed: test.missed, Do: r.do}
					stop := start(t, a, job)
					time.Sleep(time.Minute)
					for range 2 {
						must(t, b.Admin().Trigger(background, "tick"))
						time.Sleep(time.Minute)
					}
					time.Sleep(2 * time.Hour)
					stop()
					time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(3*time.Hour + 30*time.Minute)))
					begin, ran := time.Now(), len(r.began())
					var once sync.Once
					forgets.set(func(claim store.Claim, out store.Outcome) {
						if claim.Name == "control/tick" && claim.Mark == 0 && out.Err == nil {
							once.Do(func() { start(t, c, job) })
						}
					}, nil)
					must(t, soloisttest.NewReplica(t, forgets, soloist.Config{}).Admin().Forget(background, "tick"))
					if swept {
						_, err := s.Sweep(background, 1000)
						must(t, err)
					}
					time.Sleep(time.Minute)
					_, err := b.Admin().Job(background, "tick")
					wantIs(t, "the job is listed", err, nil)
					time.Sleep(2*time.Hour - 2*time.Minute)
					var runs []time.Duration
					for _, at := range r.began()[ran:] {
						runs = append(runs, at.Sub(begin).Truncate(5*time.Minute))
					}
					check(t, "runs", runs, test.want)
					check(t, "missed", len(saw.of(soloist.EventMissed)), 0)
					for range 2 {
						before := len(r.began())
						must(t, b.Admin().Trigger(background, "tick"))
						time.Sleep(5 * time.Minute)
						check(t, "manual runs", len(r.began())-before, 1)
					}
				})
			})
		}
	}
}

// In a dying store without a clock the lease of a replica ends on the way to it.
type dying struct{ *soloisttest.Store }

func (dying) Clockless() {}

func (s dying) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if slices.ContainsFunc(claims, func(c store.Claim) bool { return strings.HasPrefix(c.Name, "replica/") && c.Mark >= 0 }) {
		time.Sleep(3 * time.Second)
	}
	return s.Store.Acquire(ctx, claims)
}

// A replica that dies while Forget looks at it is dead: Forget does not keep its record, by which it would seem to be alive.
func TestForgetWhileTheLastReplicaDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		cut := s.Share()
		var r recorder
		start(t, soloisttest.NewReplica(t, cut, soloist.Config{}), soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: r.do})
		time.Sleep(time.Second)
		cut.Stall()
		defer cut.Heal()
		admin := soloisttest.NewReplica(t, dying{s}, soloist.Config{}).Admin()
		alive := func() []soloist.ReplicaInfo {
			t.Helper()
			replicas, err := collect(admin.Replicas(background))
			must(t, err)
			return slices.DeleteFunc(replicas, func(info soloist.ReplicaInfo) bool { return !info.Alive })
		}
		for {
			replicas := alive()
			if len(replicas) != 1 {
				t.Fatalf("%+v", replicas)
			}
			if replicas[0].Left < 2*time.Second {
				break
			}
			time.Sleep(time.Second)
		}
		must(t, admin.Forget(background, "tick"))
		if replicas := alive(); len(replicas) > 0 {
			t.Errorf("alive: %+v", replicas)
		}
	})
}
