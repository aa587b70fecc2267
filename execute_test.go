package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

func TestRetryKeepsTheLeaseAndCounts(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var attempts []string
		var tokens []int64
		begin := time.Now()
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Retry: soloist.Retry{Attempts: 4, Backoff: 2 * time.Second, MaxBackoff: 3 * time.Second}, Do: func(_ context.Context, run soloist.Run) error {
			attempts = append(attempts, fmt.Sprint(run.Attempt, time.Since(begin).Round(time.Second)))
			tokens = append(tokens, run.Lease.Token())
			if run.Attempt == 2 {
				panic("second")
			}
			return errors.New("no")
		}}
		start(t, a, job)
		start(t, b, job)
		time.Sleep(90 * time.Second)
		synctest.Wait()
		check(t, "attempts", attempts, []string{"1 1m0s", "2 1m2s", "3 1m5s", "4 1m8s"})
		if tokens = slices.Compact(tokens); len(tokens) != 1 {
			t.Errorf("tokens of the attempts: %v, want one lease for all", tokens)
		}
		info, _ := a.Admin().Job(background, "tick")
		var outcomes []string
		for _, run := range info.Runs {
			outcomes = append(outcomes, run.Outcome)
		}
		check(t, "outcomes", outcomes, []string{"failed", "panicked", "failed", "failed"})
	})
}

// A function that bounds its time itself is not called again when that is over.
func TestOverrunOfTheFunctionEndsTheRun(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		calls := 0
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Retry: soloist.Retry{Attempts: 4, Backoff: time.Second}, Do: func(context.Context, soloist.Run) error {
			calls++
			return fmt.Errorf("stopped: %w", soloist.ErrOverran)
		}}
		start(t, a, job)
		start(t, b, job)
		time.Sleep(90 * time.Second)
		synctest.Wait()
		info, _ := a.Admin().Job(background, "tick")
		if calls != 1 || len(info.Runs) != 1 || info.Runs[0].Outcome != soloist.OutcomeFailed {
			t.Errorf("%d calls, %+v", calls, info.Runs)
		}
	})
}

// A run that AtMost ends has failed, and was not lost.
func TestOverrunIsAFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), AtMost: time.Minute, Do: func(ctx context.Context, _ soloist.Run) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		start(t, a, job)
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		if info, err := a.Admin().Job(background, "tick"); err != nil || len(info.Runs) != 1 || info.Runs[0].Outcome != soloist.OutcomeFailed {
			t.Errorf("%v, %+v", err, info.Runs)
		}
	})
}

// A run whose end the store does not notice for longer than the client's TTL is recorded all the same, while its own lease lives.
func TestRunIsRecordedAfterALongOutage(t *testing.T) {
	for name, manual := range map[string]bool{"scheduled": false, "manual": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
				var r recorder
				job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), TTL: 10 * time.Minute, Do: func(ctx context.Context, run soloist.Run) error {
					s.Break(errors.New("away"))
					return r.do(ctx, run)
				}}
				start(t, a, job)
				if manual {
					if err := b.Admin().Trigger(background, "tick"); err != nil {
						t.Fatal(err)
					}
				} else {
					time.Sleep(time.Hour)
				}
				time.Sleep(time.Minute)
				s.Heal()
				job.Do = r.do
				start(t, b, job)
				time.Sleep(30 * time.Minute)
				if len(r.began()) != 1 {
					t.Errorf("begun at %v; want once", r.began())
				}
			})
		})
	}
}

// Close does not wait for a record that the store does not take.
func TestCloseIsBoundedWhileARunIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		a := soloisttest.NewReplica(t, s, soloist.Config{Drain: 5 * time.Second})
		ran := make(chan struct{})
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		go func() {
			done <- a.Run(ctx, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), TTL: 12 * time.Hour, Do: func(context.Context, soloist.Run) error {
				s.Break(errors.New("away"))
				close(ran)
				return nil
			}})
		}()
		<-ran
		begin := time.Now()
		_ = a.Close()
		if took := time.Since(begin); took > 2*time.Minute {
			t.Errorf("Close took %v", took)
		}
		if err := <-done; !errors.Is(err, soloist.ErrUnknown) || !strings.Contains(err.Error(), `"tick"`) {
			t.Errorf("Run: %v; want that the run of tick could not be recorded", err)
		}
		s.Heal()
	})
}

// A run whose time is over in the pause before another attempt is over, for all replicas.
func TestAtMostEndsInThePauseBetweenAttempts(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, b *soloist.Client) {
		var r recorder
		job := soloist.Job{Name: "tick", Schedule: soloist.Every(time.Hour), AtMost: time.Minute, Retry: soloist.Retry{Attempts: 3, Backoff: 10 * time.Minute}}
		job.Do = func(ctx context.Context, run soloist.Run) error {
			_ = r.do(ctx, run)
			return errors.New("no paper")
		}
		start(t, a, job)
		start(t, b, job)
		time.Sleep(100 * time.Minute)
		synctest.Wait()
		if n := len(r.began()); n != 1 {
			t.Errorf("begun at %v, want once", r.began())
		}
	})
}
