package diagnose_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/diagnose"
	"github.com/soloist-dev/soloist/soloisttest"
)

// A job is not overdue for a time that fell into a pause, and is for the first one after it.
func TestOverdueAfterAPause(t *testing.T) {
	for name, pause := range map[string]func(ctx context.Context, a *soloist.Admin) (resume func() error, err error){
		"of the job": func(ctx context.Context, a *soloist.Admin) (resume func() error, err error) {
			return func() error { return a.Resume(ctx, "import") }, a.Pause(ctx, "import", "maintenance")
		},
		"of all jobs": func(ctx context.Context, a *soloist.Admin) (resume func() error, err error) {
			return func() error { return a.ResumeAll(ctx) }, a.PauseAll(ctx, "maintenance")
		},
	} {
		for schedule, s := range map[string]soloist.Schedule{"every": soloist.Every(time.Hour), "delay": soloist.Delay(time.Hour)} {
			t.Run(name+", "+schedule, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					client, _ := soloisttest.NewClient(t)
					ctx, stop := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() {
						ended <- client.Run(ctx, soloist.Job{Name: "import", Schedule: s, Do: func(context.Context, soloist.Run) error { return nil }})
					}()
					overdue := func() time.Time {
						t.Helper()
						info, err := client.Admin().Job(t.Context(), "import")
						if err != nil {
							t.Fatal(err)
						}
						return diagnose.Overdue(info, time.Now())
					}
					time.Sleep(61 * time.Minute)
					resume, err := pause(t.Context(), client.Admin())
					stop()
					if err := errors.Join(err, <-ended); err != nil {
						t.Fatal(err)
					}
					time.Sleep(150 * time.Minute)
					if err := resume(); err != nil || !overdue().IsZero() {
						t.Errorf("just resumed: %v; overdue since %v, want that it is not", err, overdue())
					}
					time.Sleep(30 * time.Second)
					if due := overdue(); !due.IsZero() {
						t.Errorf("at %v it is overdue since %v, want that it is not", time.Now(), due)
					}
					time.Sleep(2 * time.Hour)
					if overdue().IsZero() {
						t.Error("nothing runs after the pause, and it is not overdue")
					}
				})
			})
		}
	}
}
