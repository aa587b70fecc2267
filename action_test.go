package soloist_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

// The list of actions keeps the newest, and fits its record however long the reasons are.
func TestActionsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(context.Context, soloist.Run) error { return nil }})
		time.Sleep(time.Second)
		for i := range 130 {
			if err := b.Admin().Pause(background, "tick", strconv.Itoa(i)+" "+strings.Repeat(`"<`, 900)); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Admin().Resume(background, "tick"); err != nil {
			t.Fatal(err)
		}
		actions, err := collect(b.Admin().Actions(background))
		if err != nil || len(actions) < 20 || len(actions) > 100 || actions[len(actions)-1].Verb != soloist.ActionResume || actions[len(actions)-2].Verb != soloist.ActionPause {
			t.Fatalf("%d actions, %v", len(actions), err)
		}
		if last := actions[len(actions)-2].Reason; !strings.HasPrefix(last, "129 ") {
			t.Errorf("the last pause in the list is %.9q; want that of number 129", last)
		}
	})
}

// The list of actions has a hundred, if they fit.
func TestTheNewestActionsAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), Do: func(context.Context, soloist.Run) error { return nil }})
		for i := range 130 {
			if err := b.Admin().Pause(background, "tick", strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
		actions, err := collect(b.Admin().Actions(background))
		if err != nil || len(actions) != 100 || actions[0].Reason != "30" || actions[99].Reason != "129" {
			t.Errorf("%d actions, %v; want those of 30 to 129", len(actions), err)
		}
		spoil(t, s, "actions", "?????")
		if actions, err := collect(b.Admin().Actions(background)); err == nil || len(actions) > 0 {
			t.Errorf("of a list that cannot be read: %+v, %v", actions, err)
		}
		if err := b.Admin().Resume(background, "tick"); err != nil {
			t.Errorf("it keeps a job from being resumed: %v", err)
		}
		if actions, err := collect(b.Admin().Actions(background)); err != nil || len(actions) != 1 || actions[0].Verb != soloist.ActionResume {
			t.Errorf("after that: %+v, %v", actions, err)
		}
	})
}
