package soloist_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
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

// A swept store counts how often it is asked to forget.
type swept struct {
	*soloisttest.Store
	sweeps atomic.Int64
}

func (s *swept) Sweep(ctx context.Context, limit int) (int, error) {
	s.sweeps.Add(1)
	return s.Store.Sweep(ctx, limit)
}

// A replica that runs jobs lets the store forget every five to ten minutes, and of clients that do something short a few do.
func TestTheStoreForgetsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &swept{Store: soloisttest.NewStore()}
		stop := start(t, soloisttest.NewReplica(t, s, soloist.Config{}), soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing})
		time.Sleep(10 * time.Hour)
		stop()
		if n := s.sweeps.Load(); n < 59 || n > 120 {
			t.Errorf("%d sweeps in ten hours", n)
		}
		s.sweeps.Store(0)
		for range 400 {
			must(t, soloisttest.NewReplica(t, s, soloist.Config{}).Close())
		}
		if n := s.sweeps.Load(); n < 1 || n > 100 {
			t.Errorf("%d sweeps by 400 clients that did nothing", n)
		}
	})
}

// A refusing store refuses claims of jobs with the error that err returns, if any.
type refusing struct {
	*soloisttest.Store
	err func() error
}

var errRefused = &store.InvalidError{What: "name", Value: "tick", Rule: "is none of this store"}

func (s refusing) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if err := s.err(); err != nil && strings.HasPrefix(claims[0].Name, "job/") {
		return nil, err
	}
	return s.Store.Acquire(ctx, claims)
}

// A Run whose jobs cannot be registered in the store, now or later, returns why.
func TestRunThatCannotRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, refusing{soloisttest.NewStore(), func() error { return errRefused }}, soloist.Config{})
		begin := time.Now()
		if err := c.Run(background, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing}); !errors.Is(err, errRefused) || time.Since(begin) > time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

// A function that returns ErrInterrupted of its own accord leaves its run to another replica, which begins it at once if its own does not have the job any more.
func TestFunctionThatInterruptsItself(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 10 * time.Minute, Do: func(ctx context.Context, run soloist.Run) error {
			if _ = r.do(ctx, run); len(r.all()) > 1 {
				return nil
			}
			time.Sleep(time.Minute)
			return soloist.ErrInterrupted
		}}
		one := runs(t, a, job)
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + time.Second)))
		start(t, b, job)
		must(t, one.Remove(background, "tick"))
		time.Sleep(20 * time.Minute)
		if at := r.began(); len(at) != 2 || at[1].Sub(at[0]) > time.Minute+time.Second {
			t.Errorf("begun at %v; want a second time when the first has ended", at)
		}
	})
}

// A function has a second to end when Run does, however short its TTL is.
func TestDrainOfAShortTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{TTL: 100 * time.Millisecond, Drain: -1})
		ctx, cancel := context.WithCancel(background)
		err := c.Run(ctx, soloist.Job{Name: "tick", Schedule: soloist.At(time.Now()), Do: func(ctx context.Context, _ soloist.Run) error {
			cancel()
			<-ctx.Done()
			time.Sleep(900 * time.Millisecond)
			return nil
		}})
		if err != nil {
			t.Error(err)
		}
	})
}

// A function that ignores the end of its context is left to itself a TTL later, also if the client is closed meanwhile.
func TestCloseDoesNotProlongADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{Drain: -1})
		ctx, cancel := context.WithCancel(background)
		end := make(chan struct{})
		time.AfterFunc(10*time.Second, cancel)
		time.AfterFunc(30*time.Second, func() { _ = c.Close() })
		begin := time.Now()
		err := c.Run(ctx, soloist.Job{Name: "stuck", Schedule: soloist.At(time.Now()), Do: func(context.Context, soloist.Run) error { <-end; return nil }})
		if took := time.Since(begin); err == nil || took != 40*time.Second {
			t.Errorf("Run returned after %v: %v; want the name of the job 30 s after the end of its context", took, err)
		}
		close(end)
	})
}

// A Run names the jobs of which it could not tell the store how their runs ended, or that they did not begin.
func TestRunNamesTheJobsThatMayNotBeRecorded(t *testing.T) {
	for what, begins := range map[string]bool{"the function has returned": true, "it did not begin": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &late{Store: soloisttest.NewStore()}
				c := soloisttest.NewReplica(t, s, soloist.Config{Drain: -1, TTL: 3 * time.Second, RequestTimeout: 10 * time.Second})
				ctx, cancel := context.WithCancel(background)
				time.AfterFunc(9*time.Second, func() { s.is.Store(!begins) })
				time.AfterFunc(10*time.Second+500*time.Millisecond, func() { s.Stall(); cancel() })
				began := 0
				err := c.Run(ctx, soloist.Job{Name: "tick", Schedule: soloist.At(time.Now().Add(10 * time.Second)), Do: func(ctx context.Context, _ soloist.Run) error {
					began++
					<-ctx.Done()
					return ctx.Err()
				}})
				if (began == 1) != begins || !errors.Is(err, soloist.ErrUnknown) || !strings.Contains(err.Error(), `"tick"`) || strings.Contains(err.Error(), "ignored") {
					t.Errorf("begun %d times; Run: %v", began, err)
				}
				s.Heal()
				s.is.Store(false)
				time.Sleep(time.Minute)
			})
		})
	}
}

// A job that could not be registered at first is soon after the store lets it, also if nothing else goes on.
func TestJobThatIsRegisteredLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := refusing{soloisttest.NewStore(), func() error {
			if time.Since(begin) < 10*time.Second {
				return errors.New("not now")
			}
			return nil
		}}
		r := runs(t, soloisttest.NewReplica(t, s, soloist.Config{}))
		must(t, r.Add(soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: nothing}))
		<-r.Ready()
		if took := time.Since(begin); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("registered after %v", took)
		}
	})
}
