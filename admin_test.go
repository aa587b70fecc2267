package soloist_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

// collect returns what a list yields, and its error.
func collect[T any](list iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for one, err := range list {
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

// overwrite replaces the state of a record that nobody holds, as something else than soloist may do.
func overwrite(t *testing.T, s store.Store, name, state string) {
	t.Helper()
	claim := store.Claim{Name: name, Holder: "something else", TTL: time.Minute}
	outs, err := s.Acquire(background, []store.Claim{claim})
	if err != nil || outs[0].Err != nil {
		t.Fatal(err, outs[0].Err)
	}
	rel := store.Release{Name: name, Holder: claim.Holder, Token: outs[0].Grant.Token, State: []byte(state), Retain: store.Forever}
	if errs, err := s.Release(background, []store.Release{rel}); err != nil || errs[0] != nil {
		t.Fatal(err, errs[0])
	}
}

// A record that something else has written over does not hide the others from people: the error names it, and comes last.
func TestListsShowWhatCanBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		do := func(context.Context, soloist.Run) error { return nil }
		stop := start(t, a, soloist.Job{Name: "first", Schedule: soloist.Every(time.Minute), Do: do}, soloist.Job{Name: "second", Schedule: soloist.Every(time.Minute), Do: do},
			soloist.Job{Name: "third", Schedule: soloist.Every(time.Minute), Do: do})
		time.Sleep(90 * time.Second)
		stop()
		if err := a.Elements("invoices", soloist.ElementsOptions{}).Process(background, "1", func(context.Context, *soloist.Element) error { return errors.New("paper jam") }); err == nil {
			t.Fatal("no error")
		}
		admin := b.Admin()
		if err := admin.Pause(background, "third", "a test"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"job/first", "control/second", "element/invoices/0"} {
			overwrite(t, s, name, "garbage")
		}
		jobs, err := collect(admin.Jobs(background))
		if len(jobs) != 3 || err == nil || !strings.Contains(err.Error(), `"first"`) || !strings.Contains(err.Error(), `"second"`) {
			t.Errorf("%d jobs, %v; want all three, and an error that names the first two", len(jobs), err)
		}
		if third, err := admin.Job(background, "third"); err != nil || third.Paused == nil || len(third.Runs) == 0 {
			t.Errorf("third: %+v, %v", third, err)
		}
		elements, err := collect(admin.Elements(background, "invoices"))
		if len(elements) != 2 || err == nil || !strings.Contains(err.Error(), `"0"`) {
			t.Errorf("%d elements, %v; want both, and an error that names the first", len(elements), err)
		}
	})
}

// People see when a job is due next, and who runs it since when.
func TestJobInfoTellsWhatIsGoingOn(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		admin := b.Admin()
		slow := func(ctx context.Context, run soloist.Run) error {
			if run.Attempt == 1 {
				return errors.New("not yet")
			}
			return sleepOr(ctx, 10*time.Minute)
		}
		quick := func(context.Context, soloist.Run) error { return nil }
		once := time.Now().Add(3 * time.Hour).UTC()
		start(t, a,
			soloist.Job{Name: "cron", Schedule: cron.MustParse("0 * * * *"), Do: slow, Retry: soloist.Retry{Attempts: 2, Backoff: time.Second}},
			soloist.Job{Name: "delay", Schedule: soloist.Delay(time.Hour), Do: quick},
			soloist.Job{Name: "once", Schedule: soloist.At(once), Do: quick},
			soloist.Job{Name: "paused", Schedule: soloist.Every(time.Hour), Do: quick})
		if err := admin.Pause(background, "paused", "a test"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		hour := begin.Truncate(time.Hour).Add(time.Hour)
		time.Sleep(hour.Sub(begin) + 2*time.Minute)
		infos, err := collect(admin.Jobs(background))
		if err != nil || len(infos) != 4 {
			t.Fatal(infos, err)
		}
		of := func(name string) soloist.JobInfo {
			return infos[slices.IndexFunc(infos, func(i soloist.JobInfo) bool { return i.Name == name })]
		}
		if run := of("cron").Running; run == nil || run.Attempt != 2 || run.Replica() != a.Replica() || !run.Since.Equal(hour) || run.Kind != soloist.KindJob {
			t.Errorf("running: %+v", run)
		}
		check(t, "next of cron", of("cron").Next, hour.Add(time.Hour).UTC())
		if next := of("delay").Next; next.Before(time.Now()) || next.After(time.Now().Add(time.Hour)) {
			t.Errorf("next of delay: %v", next)
		}
		check(t, "next of once", of("once").Next, once)
		check(t, "next of paused", of("paused").Next, time.Time{})
		if of("paused").Paused == nil {
			t.Error("it is not shown as paused")
		}
		n := 0
		for range of("cron").NextTimes(time.Now()) {
			if n++; n == 3 {
				break
			}
		}
		check(t, "next times", n, 3)
		if runs := of("cron").Runs; len(runs) != 1 || runs[0].Error != "not yet" {
			t.Errorf("runs: %+v", runs)
		}
	})
}

// sleepOr sleeps unless ctx ends first.
func sleepOr(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A run that hangs is taken away from its replica: it is over, its history says by whom and why, and the job goes on.
func TestStuckRunIsReleased(t *testing.T) {
	for name, test := range map[string]struct {
		manual bool
		crash  soloist.Crash
	}{"scheduled": {}, "manual": {manual: true}, "at most once": {crash: soloist.CrashGiveUp}, "manual, at most once": {manual: true, crash: soloist.CrashGiveUp}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
				var r recorder
				ended := make(chan error, 1)
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Crash: test.crash, Do: func(ctx context.Context, run soloist.Run) error {
					if _ = r.do(ctx, run); len(r.began()) == 1 {
						<-ctx.Done()
						ended <- context.Cause(ctx)
						return ctx.Err()
					}
					return nil
				}}
				start(t, a, job)
				start(t, b, job)
				admin := b.Admin()
				due := time.Now().Truncate(time.Hour).Add(time.Hour).UTC()
				if test.manual {
					if err := admin.Trigger(background, "tick"); err != nil {
						t.Fatal(err)
					}
				} else {
					time.Sleep(time.Until(due))
				}
				time.Sleep(20 * time.Minute)
				seen, err := admin.Job(background, "tick")
				if err != nil || seen.Running == nil {
					t.Fatal(seen, err)
				}
				if err := admin.Release(background, seen.Running.LeaseInfo, "it hangs in the disk"); err != nil {
					t.Fatal(err)
				}
				if err := <-ended; !errors.Is(err, soloist.ErrLost) {
					t.Errorf("its context: %v", err)
				}
				time.Sleep(20 * time.Minute)
				if n := len(r.began()); n != 1 {
					t.Errorf("begun %d times; want that it is not run again", n)
				}
				info, err := admin.Job(background, "tick")
				if err != nil || len(info.Runs) != 1 {
					t.Fatalf("%+v, %v", info, err)
				}
				run := info.Runs[0]
				if run.Outcome != soloist.OutcomeReleased || !strings.Contains(run.Error, "it hangs in the disk") || !strings.Contains(run.Error, b.Replica()) ||
					run.Replica != seen.Running.Replica() || run.Token != seen.Running.Token || run.Manual != test.manual || run.EndedAt.Sub(run.StartedAt) != 20*time.Minute {
					t.Errorf("history: %+v", run)
				}
				if !test.manual {
					check(t, "scheduled", run.ScheduledAt, due)
				}
				time.Sleep(time.Hour)
				if n := len(r.began()); n != 2 {
					t.Errorf("begun %d times an hour later; want that the job goes on", n)
				}
				actions, err := collect(admin.Actions(background))
				if len(actions) == 0 || err != nil {
					t.Fatal(actions, err)
				}
				last := actions[len(actions)-1]
				if last.Verb != soloist.ActionRelease || last.Kind != soloist.KindJob || last.Name != "tick" || last.Token != run.Token || last.Reason != "it hangs in the disk" || last.By != b.Replica() {
					t.Errorf("action: %+v", last)
				}
			})
		})
	}
}

// A lease that has ended is not released, and the error says who has the name now.
func TestReleaseSaysWhoHasTheName(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		l, err := a.TryLock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		seen := soloist.LeaseInfo{Kind: soloist.KindLock, Name: "x", Token: l.Token()}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
		err = b.Admin().Release(background, seen, "a test")
		if !errors.Is(err, soloist.ErrNotHeld) || !strings.Contains(err.Error(), "it is free") {
			t.Errorf("of a free name: %v", err)
		}
		next, err := a.TryLock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		err = b.Admin().Release(background, seen, "a test")
		var now *soloist.NotHeldError
		if !errors.As(err, &now) || now.Now == nil || now.Now.Token != next.Token() || now.Now.Replica() != a.Replica() {
			t.Errorf("of one that another has: %v", err)
		}
		if next.Err() != nil || next.Check(background) != nil {
			t.Errorf("the holder: %v", next.Err())
		}
		var bad *soloist.InvalidError
		if err := b.Admin().Release(background, soloist.LeaseInfo{Kind: "lok", Name: "x", Token: 1}, ""); !errors.As(err, &bad) {
			t.Errorf("a kind that is none: %v", err)
		}
	})
}

// The list of actions keeps the newest, and fits its record however long the reasons are.
func TestActionsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(context.Context, soloist.Run) error { return nil }})
		time.Sleep(time.Second)
		for i := range 130 {
			if err := b.Admin().Pause(background, "tick", strings.Repeat(`"<`, 900)+strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Admin().Resume(background, "tick"); err != nil {
			t.Fatal(err)
		}
		actions, err := collect(b.Admin().Actions(background))
		if err != nil || len(actions) < 20 || len(actions) > 100 || actions[len(actions)-1].Verb != soloist.ActionResume || actions[len(actions)-2].Verb != soloist.ActionPause {
			t.Errorf("%d actions, %v", len(actions), err)
		}
	})
}

// The history keeps the exit code of a run and the end of its output, within bounds; who waits for a manual run is told both.
func TestRunsReport(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		admin := b.Admin()
		n := 0
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Retry: soloist.Retry{Attempts: 2, Backoff: time.Second}, Do: func(_ context.Context, run soloist.Run) error {
			if n++; n%2 == 1 {
				run.Report(strings.Repeat("x", 5000)+"\x1b[31m\xff\nthe end "+strconv.Itoa(n), 3)
				return errors.New("exit status 3")
			}
			if n > 2 {
				run.Report("fine", 0)
			}
			return nil
		}})
		time.Sleep(time.Second)
		first, err := admin.TriggerAndWait(background, "tick")
		if err != nil || first.Outcome != soloist.OutcomeOK || first.ExitCode != nil || first.Output != "" || !first.Manual || first.Attempt != 2 {
			t.Errorf("a run that reports nothing: %+v, %v", first, err)
		}
		for range 8 {
			if run, err := admin.TriggerAndWait(background, "tick"); err != nil || run.Output != "fine" || run.ExitCode == nil || *run.ExitCode != 0 {
				t.Errorf("%+v, %v", run, err)
			}
		}
		info, err := admin.Job(background, "tick")
		if err != nil || len(info.Runs) != 18 {
			t.Fatalf("%d runs, %v", len(info.Runs), err)
		}
		sum := 0
		for i, run := range info.Runs {
			sum += len(run.Output)
			if i == 16 && (run.ExitCode == nil || *run.ExitCode != 3 || len(run.Output) > 2100 || !strings.HasSuffix(run.Output, "[31m?\nthe end 17") || strings.Contains(run.Output, "\x1b")) {
				t.Errorf("the last that failed: %+v", run)
			}
		}
		if sum > 6<<10 || info.Runs[0].Output != "" || info.Runs[0].ExitCode == nil {
			t.Errorf("%d bytes of output; the first: %+v", sum, info.Runs[0])
		}
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		s.Stall()
		if _, err := admin.TriggerAndWait(ctx, "tick"); err == nil {
			t.Error("no error although the replica is cut off")
		}
		s.Heal()
	})
}

// All jobs are paused at once, and resumed: those that are there, and those that come later, on this replica and others.
// A job that was paused by name stays paused.
func TestAllJobsArePaused(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		admin := b.Admin()
		var r recorder
		jobs := make([]soloist.Job, 2500)
		for i := range jobs {
			jobs[i] = soloist.Job{Name: "job " + strconv.Itoa(i), Schedule: soloist.Every(time.Hour), Do: r.do}
		}
		start(t, a, jobs...)
		time.Sleep(time.Second)
		if err := admin.Pause(background, "job 7", "this one alone"); err != nil {
			t.Fatal(err)
		}
		before := s.Calls()
		if err := admin.PauseAll(background, "the fleet moves"); err != nil {
			t.Fatal(err)
		}
		if calls := s.Calls() - before; calls > 20 {
			t.Errorf("%d calls", calls)
		}
		if err := admin.PauseAll(background, "it still moves"); err != nil {
			t.Error(err)
		}
		late := soloist.Job{Name: "late", Schedule: soloist.Every(time.Minute), Missed: soloist.MissedAll, Do: r.do}
		start(t, b, append(jobs[:100:100], late)...)
		time.Sleep(3 * time.Hour)
		check(t, "runs in a pause", len(r.began()), 0)
		for _, job := range []string{"job 7", "job 8", "late"} {
			info, err := admin.Job(background, job)
			if err != nil || info.Paused == nil || info.Paused.All != (job != "job 7") || !info.Next.IsZero() {
				t.Errorf("%s: %+v, next %v, %v", job, info.Paused, info.Next, err)
			}
			if err := admin.Resume(background, job); !errors.Is(err, soloist.ErrAllPaused) || !strings.Contains(err.Error(), "it still moves") {
				t.Errorf("resumed %s alone: %v", job, err)
			}
		}
		if p, err := admin.AllPaused(background); err != nil || p == nil || p.Reason != "it still moves" || p.By != "b" {
			t.Errorf("%+v, %v", p, err)
		}
		if err := admin.ResumeAll(background); err != nil {
			t.Fatal(err)
		}
		if p, err := admin.AllPaused(background); err != nil || p != nil {
			t.Errorf("%+v, %v", p, err)
		}
		time.Sleep(time.Hour)
		check(t, "runs after it", len(r.began()), len(jobs)-1+60)
		if info, err := admin.Job(background, "job 7"); err != nil || info.Paused == nil || info.Paused.Reason != "this one alone" || info.Paused.All {
			t.Errorf("%+v, %v", info.Paused, err)
		}
	})
}

// An untold store lists no commands to jobs, so a replica does not know them before it claims.
type untold struct{ *soloisttest.Store }

func (s untold) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	if prefix == "control/" {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, errors.New("not now")) }
	}
	return s.Store.List(ctx, prefix)
}

// A pause of all jobs holds on a replica that was not notified: the claim of what is due finds it.
func TestAPauseOfAllJobsIsNeverMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		s := soloisttest.NewStore()
		admin := soloisttest.NewReplica(t, s, soloist.Config{}).Admin()
		start(t, soloisttest.NewReplica(t, untold{s.Share()}, soloist.Config{}), soloist.Job{Name: "tick", Schedule: soloist.Every(time.Second), Do: r.do})
		time.Sleep(1500 * time.Millisecond)
		for range 20 {
			time.Sleep(499 * time.Millisecond) // just before it is due
			synctest.Wait()
			before := len(r.began())
			if err := admin.PauseAll(background, "a check"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
			check(t, "runs in a pause", len(r.began()), before)
			if err := admin.ResumeAll(background); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1501 * time.Millisecond)
		}
		if n := len(r.began()); n < 20 {
			t.Errorf("%d runs between the pauses", n)
		}
	})
}

// While nobody knows whether all jobs are paused, no replica starts any, and no client overwrites what it cannot read.
func TestUnreadableControlOfAllJobs(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		spoil(t, s, "control-of-all")
		if err := b.Admin().PauseAll(background, "it cannot be written"); err == nil {
			t.Error("what was there has been overwritten")
		}
		if _, err := b.Admin().AllPaused(background); err == nil {
			t.Error("what cannot be read was read")
		}
		if err := b.Admin().Resume(background, "tick"); err == nil {
			t.Error("a job was resumed")
		}
		var r recorder
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Second), Do: r.do})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		check(t, "runs of a job of which nobody knows whether it is paused", len(r.began()), 0)
	})
}

// A meddling store does something when a lock is to be released by force, and sweeps after that.
type meddling struct {
	*soloisttest.Store
	before func()
}

func (s *meddling) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if s.before == nil || releases[0].Name != "lock/x" {
		return s.Store.Release(ctx, releases)
	}
	s.before()
	s.before = nil
	errs, err := s.Store.Release(ctx, releases)
	if _, err := s.Sweep(ctx, 100); err != nil {
		return nil, err
	}
	return errs, err
}

// What a holder has left with a name, after the one who releases it by force has looked, is not forgotten.
func TestAReleaseByForceForgetsNoState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &meddling{Store: soloisttest.NewStore()}
		a, admin := soloisttest.NewReplica(t, s.Share(), soloist.Config{}), soloisttest.NewReplica(t, s, soloist.Config{}).Admin()
		lease, err := a.TryLock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		s.before = func() {
			if err := lease.SetState(background, []byte("left")); err != nil {
				t.Error(err)
			}
		}
		if err := admin.Release(background, soloist.LeaseInfo{Kind: soloist.KindLock, Name: "x", Token: lease.Token()}, "a test"); err != nil {
			t.Fatal(err)
		}
		next, err := a.TryLock(background, "x")
		if err != nil {
			t.Fatal(err)
		}
		check(t, "state", string(next.State()), "left")
	})
}
