package soloist_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
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
		if err != nil || len(info.Replicas) != 0 || info.About != "./tick" || len(info.Runs) != 1 {
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
		for r, err := range s.List(background, "control/") {
			if len(r.State) > 0 || err != nil {
				t.Errorf("%+v, %v", r, err)
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
