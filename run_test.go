package soloist_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// On shutdown a run is drained; one that takes too long is cancelled and taken over at once.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		a := soloisttest.NewReplica(t, s, soloist.Config{Drain: 5 * time.Second})
		b := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		var r recorder
		begin := time.Now()
		slow := soloist.Job{Name: "tick", Schedule: soloist.Every(10 * time.Second), Do: func(ctx context.Context, run soloist.Run) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		stop := start(t, a, slow)
		time.Sleep(11 * time.Second)
		start(t, b, soloist.Job{Name: "tick", Schedule: soloist.Every(10 * time.Second), Do: r.do})
		stop()
		if took := time.Since(begin); took < 16*time.Second || took > 17*time.Second {
			t.Errorf("drained after %v", took)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if len(r.all()) == 0 || r.all()[0].ScheduledAt.Sub(begin) != 10*time.Second || r.all()[0].Attempt != 1 {
			t.Errorf("runs: %+v", r.all())
		}
	})
}

func TestStoreOutageStopsAndGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		var r recorder
		begin := time.Now()
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(10 * time.Second), Missed: soloist.MissedOnce, Grace: 5 * time.Second, Do: r.do})
		time.Sleep(15 * time.Second)
		s.Break(nil)
		time.Sleep(60 * time.Second)
		s.Heal()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		check(t, "scheduled", r.scheduled(begin), []time.Duration{10 * time.Second, 70 * time.Second, 80 * time.Second, 90 * time.Second})
	})
}

// A Run whose functions ignore the end of their context names their jobs.
func TestRunNamesTheJobsThatIgnoreTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{})
		ctx, cancel := context.WithCancel(background)
		end := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			stuck := func(context.Context, soloist.Run) error { <-end; return nil }
			done <- a.Run(ctx, soloist.Job{Name: "stuck", Schedule: soloist.Every(time.Minute), Do: stuck}, soloist.Job{Name: "fine", Schedule: soloist.Every(time.Minute), Do: func(context.Context, soloist.Run) error { return nil }})
		}()
		time.Sleep(61 * time.Second)
		cancel()
		if err := <-done; err == nil || !strings.Contains(err.Error(), `"stuck"`) || strings.Contains(err.Error(), `"fine"`) {
			t.Errorf("Run: %v; want that stuck is named, and fine is not", err)
		}
		close(end)
	})
}

// A Run that fails to begin leaves the names of its jobs to the next.
func TestRunThatFailsLeavesTheNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := soloisttest.NewClient(t)
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(context.Context, soloist.Run) error { return nil }}
		unnamed := job
		unnamed.Do = nil
		var invalid *soloist.InvalidError
		if err := c.Run(background, job, unnamed); !errors.As(err, &invalid) {
			t.Fatalf("Run of a job that is not valid: %v", err)
		}
		s.Break(errors.New("away"))
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		if err := c.Run(ctx, job); err != nil {
			t.Fatalf("Run until its context ended, without a store: %v", err)
		}
		s.Heal()
		start(t, c, job)()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first leaves nothing behind either
			if err := c.Run(background, job); !errors.Is(err, soloist.ErrClosed) {
				t.Errorf("Run of a closed client: %v", err)
			}
		}
	})
}

// Each outage is logged once, and its end as well.
func TestOutagesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		var log strings.Builder
		c := soloisttest.NewReplica(t, s, soloist.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		stop := start(t, c, soloist.Job{Name: "tick", Schedule: soloist.Every(10 * time.Second), Do: func(context.Context, soloist.Run) error { return nil }})
		time.Sleep(5 * time.Second) // between two ticks, as what follows: at a tick one request may fail and another succeed
		for range 2 {
			time.Sleep(time.Minute)
			s.Break(nil)
			time.Sleep(time.Minute)
			s.Heal()
		}
		time.Sleep(time.Minute)
		stop()
		check(t, "beginnings", strings.Count(log.String(), "no job can start"), 2)
		check(t, "ends", strings.Count(log.String(), "requests to the store succeed again"), 2)
	})
}
