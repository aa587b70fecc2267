package soloist_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// What was asked of a job cannot be read: nobody knows whether it is paused, so it is not run, however the replica learns of it. Other jobs go on.
func TestUnreadableControlIsNoLeaveToRun(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		var spoiled, good recorder
		jobs := []soloist.Job{
			{Name: "spoiled", Schedule: soloist.Every(time.Second), Do: spoiled.do},
			{Name: "good", Schedule: soloist.Every(time.Second), Do: good.do},
		}
		stop := start(t, a, jobs...)
		time.Sleep(1500 * time.Millisecond)
		stop()
		if len(spoiled.all()) != 1 {
			t.Fatalf("ran %d times before, want once", len(spoiled.all()))
		}
		if err := a.Admin().Pause(background, "spoiled", "the books are open"); err != nil {
			t.Fatal(err)
		}
		spoil(t, s, "control/spoiled", "?????")
		start(t, a, jobs...)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(spoiled.all()); n != 1 {
			t.Errorf("a job of which nobody knows whether it is paused ran %d times", n-1)
		}
		if n := len(good.all()); n < 9 {
			t.Errorf("the other job ran %d times, want it to go on", n)
		}
	})
}

// While nobody knows what was asked of all jobs, they are not claimed either, and run again soon after the record has been mended.
func TestUnreadableControlOfAllIsNotAskedForWithoutEnd(t *testing.T) {
	for watch, watches := range map[string]func(context.Context) <-chan struct{}{"silent": watches["silent"], "none": watches["nil"]} {
		t.Run(watch, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const enough = 1000
				s := &metered{Store: memstore.New(), most: 100 * enough, watch: watches}
				c, err := soloist.New(s, soloist.Config{Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				spoil(t, s.Store, "control-of-all", "?????")
				var x, y recorder
				ctx, cancel := context.WithCancel(background)
				ended := make(chan error, 1)
				go func() {
					ended <- c.Run(ctx,
						soloist.Job{Name: "x", Schedule: soloist.Every(time.Minute), Do: x.do}, soloist.Job{Name: "y", Schedule: soloist.Delay(time.Minute), Do: y.do})
				}()
				time.Sleep(10 * time.Minute)
				claims, runs := s.claims.Load(), len(x.all())+len(y.all())
				if runs != 0 || claims > enough {
					t.Errorf("%d runs, %d requests in ten minutes; want no run, and at most %d", runs, claims, enough)
				}
				spoil(t, s.Store, "control-of-all", "")
				time.Sleep(2 * time.Minute)
				if len(x.all()) == 0 || len(y.all()) == 0 {
					t.Errorf("%d and %d runs after the record was mended", len(x.all()), len(y.all()))
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// spoil writes something into a record that no client has written.
func spoil(t *testing.T, s store.Store, name, state string) {
	t.Helper()
	outcomes, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "spoiler", TTL: time.Minute}})
	if err != nil || outcomes[0].Err != nil {
		t.Fatal(err, outcomes)
	}
	errs, err := s.Release(background, []store.Release{{
		Name: name, Holder: "spoiler", Token: outcomes[0].Grant.Token, State: []byte(state), Retain: store.Forever,
	}})
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}
