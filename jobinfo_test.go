package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

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
		again := 0
		start(t, a,
			soloist.Job{Name: "cron", Schedule: cron.MustParse("0 * * * *"), Do: slow, Retry: soloist.Retry{Attempts: 2, Backoff: time.Second}},
			soloist.Job{Name: "delay", Schedule: soloist.Delay(time.Hour), Do: quick},
			soloist.Job{Name: "once", Schedule: soloist.At(once), Do: quick, Jitter: time.Minute, Grace: 2 * time.Minute},
			soloist.Job{Name: "again", Schedule: soloist.Delay(time.Minute), Do: func(ctx context.Context, _ soloist.Run) error {
				if again++; again == 1 {
					return nil
				}
				return sleepOr(ctx, 10*time.Hour)
			}},
			soloist.Job{Name: "paused", Schedule: soloist.Every(time.Hour), Do: quick})
		if err := admin.Pause(background, "paused", "a test"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		hour := begin.Truncate(time.Hour).Add(time.Hour)
		time.Sleep(hour.Sub(begin) + 2*time.Minute)
		infos, err := collect(admin.Jobs(background))
		if err != nil || len(infos) != 5 {
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
		check(t, "next of a delay that runs", fmt.Sprint(of("again").Running != nil, of("again").Next), fmt.Sprint(true, time.Time{}))
		check(t, "grace of once", of("once").Grace, 3*time.Minute)
		check(t, "grace of cron", of("cron").Grace, time.Minute)
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

// Whether there is a job cannot be told while the store is away.
func TestJobOfAStoreThatIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		if _, err := a.Admin().Job(background, "tick"); !errors.Is(err, soloist.ErrNoJob) {
			t.Errorf("without a job: %v, want ErrNoJob", err)
		}
		away := errors.New("away")
		s.Break(away)
		if _, err := a.Admin().Job(background, "tick"); !errors.Is(err, away) || errors.Is(err, soloist.ErrNoJob) {
			t.Errorf("with a store that is away: %v", err)
		}
		s.Heal()
		defer start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing})()
		time.Sleep(time.Second)
		for _, what := range []string{"control", "replica"} {
			some := soloisttest.NewReplica(t, without{s.Share(), what + "/", away}, soloist.Config{}).Admin()
			if info, err := some.Job(background, "tick"); !errors.Is(err, away) {
				t.Errorf("with a store that did not tell its %s records: %+v, %v", what, info, err)
			}
			if infos, err := collect(some.Jobs(background)); len(infos) > 0 || !errors.Is(err, away) {
				t.Errorf("with a store that did not tell its %s records: %+v, %v", what, infos, err)
			}
		}
	})
}

// A without store cannot list the names that begin with a prefix.
type without struct {
	*soloisttest.Store
	prefix string
	err    error
}

func (s without) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

func (s without) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	if !strings.HasPrefix(prefix, s.prefix) {
		return s.Store.ListAfter(ctx, prefix, after)
	}
	return func(yield func(store.Record, error) bool) { yield(store.Record{}, s.err) }
}

// A replica with very many jobs shows all of them.
func TestManyJobsAreShown(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		jobs := make([]soloist.Job, 10_000)
		for i := range jobs {
			jobs[i] = soloist.Job{Name: fmt.Sprint("job ", i), Schedule: soloist.Every(time.Hour), Do: nothing}
		}
		stop := start(t, a, jobs...)
		time.Sleep(time.Second)
		infos, err := collect(b.Admin().Jobs(background))
		if len(infos) != len(jobs) || err != nil {
			t.Fatalf("%d jobs, %v", len(infos), err)
		}
		for _, info := range infos {
			if len(info.Replicas) != 1 {
				t.Fatalf("%+v", info)
			}
		}
		stop()
		for _, info := range infos[:10] {
			if err := b.Admin().Forget(background, info.Name); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A job whose name stays taken after its run, for AtLeast, is run by nobody.
func TestJobThatLingersIsNotRunning(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var ended atomic.Bool
		do := func(ctx context.Context, _ soloist.Run) error {
			defer ended.Store(true)
			return sleepOr(ctx, time.Minute)
		}
		start(t, a, soloist.Job{Name: "brief", Schedule: soloist.Every(time.Hour), AtLeast: 10 * time.Minute, Do: do})
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		for _, running := range []bool{true, false} {
			time.Sleep(30 * time.Second)
			info, err := b.Admin().Job(background, "brief")
			if err != nil || running == ended.Load() || (info.Running != nil) != running {
				t.Errorf("running %v, %v; want %v", info.Running, err, running)
			}
			time.Sleep(time.Minute)
		}
	})
}

// The next time of a job is one that is not done, also where AtLeast has done times that are yet to come.
func TestNextTimeIsNotDone(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), AtLeast: 10 * time.Minute, Do: r.do})
		time.Sleep(90 * time.Second)
		info, err := b.Admin().Job(background, "tick")
		must(t, err)
		if !info.DoneUpTo.After(time.Now()) || !info.Next.Equal(info.DoneUpTo.Add(time.Minute)) {
			t.Errorf("at %v all is done until %v, and next comes %v", time.Now().UTC(), info.DoneUpTo, info.Next)
		}
	})
}

// An expression whose zone is not in its text is shown with it, and due next by it. What is in a zone that only this process knows is not said to be due at a time in UTC.
func TestNextTimeIsInTheZoneOfTheExpression(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	must(t, err)
	for _, row := range []struct {
		zone *time.Location
		text string
		next time.Duration // after midnight UTC
	}{
		{time.UTC, "0 3 * * *", 3 * time.Hour},
		{berlin, "TZ=Europe/Berlin 0 3 * * *", 2 * time.Hour},
		{time.FixedZone("here", 3600), "0 3 * * * (here)", 0},
	} {
		inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
			midnight := time.Now() // that of a bubble
			schedule, err := cron.ParseIn("0 3 * * *", row.zone)
			must(t, err)
			start(t, a, soloist.Job{Name: "report", Schedule: schedule, Do: nothing})
			time.Sleep(time.Second)
			info, err := b.Admin().Job(background, "report")
			must(t, err)
			var next time.Duration
			if !info.Next.IsZero() {
				next = info.Next.Sub(midnight)
			}
			if info.Schedule != row.text || next != row.next {
				t.Errorf("in %v: %q, next %v after midnight in UTC; want %q, %v", row.zone, info.Schedule, next, row.text, row.next)
			}
		})
	}
}
