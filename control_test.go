package soloist_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
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
		spoil(t, s, "control/spoiled")
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

// spoil writes something into a record that no client has written.
func spoil(t *testing.T, s store.Store, name string) {
	t.Helper()
	outcomes, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "spoiler", TTL: time.Minute}})
	if err != nil || outcomes[0].Err != nil {
		t.Fatal(err, outcomes)
	}
	errs, err := s.Release(background, []store.Release{{
		Name: name, Holder: "spoiler", Token: outcomes[0].Grant.Token, State: []byte(strings.Repeat("?", 5)), Retain: store.Forever,
	}})
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}
