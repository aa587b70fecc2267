package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// runs starts a Runner of jobs in a bubble, and ends it with the test.
func runs(t *testing.T, c *soloist.Client, jobs ...soloist.Job) *soloist.Runner {
	t.Helper()
	r, err := c.NewRunner(jobs...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(background)
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	select {
	case <-r.Ready():
	case <-time.After(time.Hour): // of a bubble
		t.Fatal("not ready after an hour")
	}
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Jobs come and go while Run runs: each runs from when it was added until it is removed.
func TestJobsComeAndGo(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var first, second recorder
		begin := time.Now()
		one, other := runs(t, a), runs(t, b)
		job := soloist.Job{Name: "first", Schedule: soloist.Every(10 * time.Second), Grace: 4 * time.Second, Do: first.do}
		must(t, one.Add(job))
		must(t, other.Add(job))
		time.Sleep(25 * time.Second)
		job.Name, job.Do = "second", second.do
		must(t, one.Add(job))
		must(t, one.Remove(background, "first"))
		time.Sleep(20 * time.Second)
		check(t, "runs of the first job, which one replica still has", first.scheduled(begin), []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, 40 * time.Second})
		check(t, "runs of the second job", second.scheduled(begin), []time.Duration{30 * time.Second, 40 * time.Second})
		must(t, other.Remove(background, "first"))
		must(t, one.Remove(background, "second"))
		time.Sleep(time.Minute)
		check(t, "runs of both after that", len(first.all())+len(second.all()), 6)
		must(t, one.Add(job))
		time.Sleep(10 * time.Second)
		check(t, "runs of a job that was added again", len(second.all()), 3)
	})
}

// A name is given to one job, and what is not valid is refused at the call, in the words of the field.
func TestMistakesWithJobsAreErrorsAtTheCall(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		good := soloist.Job{Name: "x", Schedule: soloist.Every(time.Minute), Do: func(context.Context, soloist.Run) error { return nil }}
		bad := good
		bad.Grace = -1
		other := good
		other.Name = "other"
		r := runs(t, a, good)
		twoRunners, err := a.NewRunner(soloist.Job{Name: "y", Schedule: good.Schedule, Do: good.Do})
		must(t, err)
		_, both := a.NewRunner(good, good, bad)
		for what, test := range map[string]struct {
			err  error
			says string
		}{
			"twice":                         {r.Add(good), "twice"},
			"not valid":                     {r.Add(soloist.Job{Name: "z", Schedule: good.Schedule}), "Do"},
			"an update that is not valid":   {r.Update(bad), "Grace"},
			"both, when the Runner is made": {both, "twice"},
			"and the other":                 {both, "Grace"},
			"in another Runner that runs":   {runs(t, a, other).Add(good), "running in this client"},
		} {
			var invalid *soloist.InvalidError
			if !errors.As(test.err, &invalid) || !strings.Contains(test.err.Error(), test.says) {
				t.Errorf("%s: %v", what, test.err)
			}
		}
		for what, err := range map[string]error{
			"Remove": r.Remove(background, "none"),
			"Update": r.Update(soloist.Job{Name: "none", Schedule: good.Schedule, Do: good.Do}),
		} {
			if !errors.Is(err, soloist.ErrNoJob) {
				t.Errorf("%s of a job that is not there: %v", what, err)
			}
		}
		must(t, r.Add(soloist.Job{Name: "y", Schedule: good.Schedule, Do: good.Do}))
		if err := twoRunners.Run(background); err == nil || !strings.Contains(err.Error(), `"y"`) {
			t.Errorf("two Runners of one client run one job: %v", err)
		}
		if err := r.Run(background); err == nil {
			t.Error("a Runner runs twice at once")
		}
	})
}

// A job that is removed while it runs finishes its run, with its retries. Remove waits for that, as long as it may.
func TestRemoveLetsTheRunFinish(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		begin := time.Now()
		var attempts atomic.Int32
		job := soloist.Job{Name: "slow", Schedule: soloist.Every(10 * time.Second), Retry: soloist.Retry{Attempts: 2, Backoff: time.Second}, Do: func(ctx context.Context, _ soloist.Run) error {
			attempts.Add(1)
			time.Sleep(30 * time.Second)
			if err := ctx.Err(); err != nil {
				t.Errorf("its context ended: %v", err)
			}
			return errors.New("again")
		}}
		r := runs(t, a, job)
		time.Sleep(11 * time.Second)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		if err := r.Remove(ctx, "slow"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Remove returned before the run has ended: %v", err)
		}
		if err := r.Add(job); err == nil || !strings.Contains(err.Error(), "being removed") {
			t.Errorf("added while it is being removed: %v", err)
		}
		if err := r.Update(job); !errors.Is(err, soloist.ErrNoJob) {
			t.Errorf("updated while it is being removed: %v", err)
		}
		check(t, "entries", len(r.Entries()), 0)
		if err := a.Admin().Trigger(background, "slow"); !errors.Is(err, soloist.ErrNoReplica) {
			t.Errorf("a run of a job that is being removed is asked for: %v", err)
		}
		must(t, r.Remove(background, "slow"))
		check(t, "it has gone after", time.Since(begin).Round(time.Second), 71*time.Second)
		check(t, "attempts", attempts.Load(), 2)
		must(t, r.Add(job))
		must(t, r.Remove(background, "slow"))
	})
}

// Update gives a job another schedule and function from then on; a run under way keeps those that it has.
func TestUpdateTakesEffectWithTheNextRun(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		var old, updated recorder
		begin := time.Now()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(10 * time.Second), Do: func(ctx context.Context, run soloist.Run) error {
			time.Sleep(5 * time.Second)
			return old.do(ctx, run)
		}}
		r := runs(t, a, job)
		time.Sleep(11 * time.Second)
		check(t, "running", r.Entries()[0].Running, true)
		job.Schedule, job.Do = soloist.Every(15*time.Second), updated.do
		must(t, r.Update(job))
		time.Sleep(40 * time.Second)
		check(t, "runs of the old function", old.scheduled(begin), []time.Duration{10 * time.Second})
		check(t, "runs of the new one", updated.scheduled(begin), []time.Duration{15 * time.Second, 30 * time.Second, 45 * time.Second})
	})
}

// Entries tell when a job is due next, whether it runs, and why it does not.
func TestEntries(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		begin := time.Now()
		hangs := func(ctx context.Context, _ soloist.Run) error { <-ctx.Done(); return ctx.Err() }
		r := runs(t, a,
			soloist.Job{Name: "b", Schedule: soloist.Every(time.Minute), Jitter: time.Second, Do: hangs},
			soloist.Job{Name: "a", Schedule: soloist.At(begin.Add(time.Hour)), Do: hangs},
			soloist.Job{Name: "c", Schedule: soloist.Every(time.Hour), Do: hangs})
		text := func() string {
			var all []string
			for _, e := range r.Entries() {
				s := fmt.Sprintf("%s %v", e.Job.Name, e.Next.Sub(begin))
				if e.Next.IsZero() {
					s = e.Job.Name + " never"
				}
				if e.Running {
					s += " running"
				}
				if e.Paused != nil {
					s += " paused: " + e.Paused.Reason
				}
				all = append(all, s)
			}
			return strings.Join(all, ", ")
		}
		check(t, "at first", text(), "a 1h0m0s, b 1m0s, c 1h0m0s")
		must(t, a.Admin().Pause(background, "c", "repairs"))
		time.Sleep(90 * time.Second)
		check(t, "while b runs", text(), "a 1h0m0s, b 2m0s running, c never paused: repairs")
	})
}

// A job that is added is ready to be triggered, and does not run if it was paused before.
func TestAnAddedJobHasWhatWasAskedOfItBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(10 * time.Second), Do: r.do}
		runs(t, b, job)
		must(t, b.Admin().Pause(background, "tick", "repairs"))
		one := runs(t, a, soloist.Job{Name: "other", Schedule: soloist.Every(time.Second), Do: func(context.Context, soloist.Run) error { return nil }})
		time.Sleep(5 * time.Second)
		must(t, one.Add(job))
		<-one.Ready()
		time.Sleep(time.Minute)
		check(t, "runs during the pause", len(r.all()), 0)
		job.Name = "manual"
		must(t, one.Add(job))
		<-one.Ready()
		must(t, a.Admin().Trigger(background, "manual"))
	})
}

// A store that is away when a job is added delays that job alone, until the store is back.
func TestAJobThatIsAddedWhileTheStoreIsAwayJoinsLater(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		var rec recorder
		r := runs(t, a)
		s.Break(nil)
		must(t, r.Add(soloist.Job{Name: "tick", Schedule: soloist.Every(10 * time.Second), Do: rec.do}))
		time.Sleep(15 * time.Second)
		select {
		case <-r.Ready():
			t.Error("ready, although the store is away")
		default:
		}
		s.Heal()
		healed := time.Now()
		<-r.Ready()
		if took := time.Since(healed); took > 2*time.Second {
			t.Errorf("it joined %v after the store was back", took)
		}
		time.Sleep(10 * time.Second)
		if len(rec.all()) == 0 {
			t.Error("it does not run when the store is back")
		}
	})
}

// However many jobs a Runner has, also if they were added one by one, it costs the goroutines and requests of one Run.
func TestManyAddedJobsCostOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tenants = 500
		var requests atomic.Int32
		a := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{Observe: func(_ context.Context, e soloist.Event) {
			if e.Kind == soloist.EventRequest {
				requests.Add(1)
			}
		}})
		r := runs(t, a)
		goroutines := runtime.NumGoroutine()
		var ran atomic.Int32
		for i := range tenants {
			must(t, r.Add(soloist.Job{Name: fmt.Sprint("tenant ", i), Schedule: soloist.Every(time.Minute), Do: func(context.Context, soloist.Run) error { ran.Add(1); return nil }}))
		}
		synctest.Wait()
		if more := runtime.NumGoroutine() - goroutines; more > tenants/10 { // those of other tests that are about to end are counted, too
			t.Errorf("%d goroutines more for %d jobs", more, tenants)
		}
		requests.Store(0)
		time.Sleep(90 * time.Second)
		synctest.Wait()
		check(t, "runs", ran.Load(), tenants)
		// The claim of the group, that of the jobs, and the releases, which leave together while one is under way: at worst each alone.
		if n := requests.Load(); n > tenants+20 {
			t.Errorf("%d requests for one tick of %d jobs", n, tenants)
		}
	})
}

// The replica that begins a run reports how many scheduled times before it were missed and are not run, once.
func TestMissedTimesAreReported(t *testing.T) {
	for _, test := range []struct {
		missed soloist.Missed
		limit  int
		want   []int // missed before each of the runs: those that nobody runs of 2:00 to 9:00, when the fleet was away from 1:30 to 10:10
	}{
		{soloist.MissedSkip, 0, []int{8}},
		{soloist.MissedOnce, 0, []int{7}},
		{soloist.MissedAll, 0, nil},
		{soloist.MissedAll, 3, []int{5}},
	} {
		t.Run(fmt.Sprint(test.missed, test.limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var missed []int
				s := soloisttest.NewStore()
				observe := func(_ context.Context, e soloist.Event) {
					if e.Kind == soloist.EventMissed {
						missed = append(missed, e.Missed)
					}
				}
				a := soloisttest.NewReplica(t, s, soloist.Config{Observe: observe})
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Grace: 15 * time.Second, Missed: test.missed, MissedCap: test.limit, Do: func(context.Context, soloist.Run) error { return nil }}
				stop := start(t, a, job)
				time.Sleep(90 * time.Second)
				stop()
				time.Sleep(8*time.Minute + 40*time.Second)
				start(t, a, job)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				check(t, "missed", missed, test.want)
			})
		})
	}
}

// A Runner that is not running, and from which a job is removed, leaves the name to the one that runs it.
func TestRemoveFromARunnerThatDoesNotRun(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		job := soloist.Job{Name: "x", Schedule: soloist.Every(time.Minute), Do: nothing}
		runs(t, a, job)
		idle, err := a.NewRunner(job)
		must(t, err)
		must(t, idle.Remove(background, "x"))
		if err := a.Run(background, job); err == nil || !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("two Runs of one client run one job: %v", err)
		}
	})
}

// Each name of a job is either one with which everything works, or refused at the call.
func TestLongNamesOfJobs(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		valid := 0
		for n := 200; n < 300; n++ {
			name := strings.Repeat("x", n)
			r, err := a.NewRunner(soloist.Job{Name: name, Schedule: soloist.Every(time.Hour), Do: nothing})
			if bad, is := errors.AsType[*soloist.InvalidError](err); err != nil && (!is || r != nil) {
				t.Errorf("%d bytes: %v", n, bad)
			}
			if err == nil {
				valid = n
			}
		}
		start(t, a, soloist.Job{Name: strings.Repeat("x", valid), Schedule: soloist.Every(time.Hour), Do: nothing})
		time.Sleep(time.Second)
		must(t, b.Admin().Pause(background, strings.Repeat("x", valid), "a test"))
	})
}

// A Runner that cannot run, since one of its jobs is running already, leaves the names of the others.
func TestRunnerThatCannotRunReservesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		var r recorder
		job := func(name string) soloist.Job {
			return soloist.Job{Name: name, Schedule: soloist.Every(time.Minute), Do: r.do}
		}
		start(t, a, job("busy"))
		time.Sleep(time.Second)
		var jobs []soloist.Job
		for i := range 50 { // in no order
			jobs = append(jobs, job(fmt.Sprint("job ", i)))
		}
		if err := a.Run(background, append(jobs, job("busy"))...); err == nil {
			t.Fatal("a job runs twice")
		}
		start(t, a, jobs...)
		time.Sleep(time.Minute)
		check(t, "runs", len(r.began()), 51)
	})
}
