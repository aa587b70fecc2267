package soloist_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
)

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

// When the outputs of all runs are too long together, the oldest go, also short ones behind a long one that does not fit: what is shown has no gap.
func TestOldestOutputsAreDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *soloisttest.Store, a, _ *soloist.Client) {
		outputs := []int{100, 2000, 2000, 2000, 200}
		n := 0
		start(t, a, soloist.Job{Name: "tick", Schedule: soloist.Every(time.Minute), Do: func(_ context.Context, run soloist.Run) error {
			run.Report(strings.Repeat("x", outputs[n]), 0)
			n++
			return nil
		}})
		time.Sleep(time.Duration(len(outputs))*time.Minute + time.Second)
		info, err := a.Admin().Job(background, "tick")
		must(t, err)
		var kept []int
		for _, run := range info.Runs {
			kept = append(kept, len(run.Output))
		}
		check(t, "bytes of output", kept, []int{0, 0, 2000, 2000, 200})
	})
}
