package soloist

import (
	"math"
	"testing"
	"time"
)

// The mark of a completion is one that the record does not have yet, and at which nothing is due.
func TestMarkOfACompletion(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	for name, test := range map[string]struct {
		had      int64
		schedule Schedule
		crash    Crash
		want     int64
	}{
		"taken over":                   {500_000, Every(time.Hour), CrashTakeOver, 500_001},
		"given up":                     {500_000, Every(time.Hour), CrashGiveUp, 1_000_001}, // when it began it has raised the mark
		"a delay is not due at a mark": {500_000, Delay(time.Millisecond), CrashTakeOver, 500_001},
		"something is due":             {500_000, At(time.UnixMilli(500_001)), CrashTakeOver, 0},
		"no mark is higher":            {math.MaxInt64, Every(time.Hour), CrashTakeOver, 0},
	} {
		x := execution{
			jobSpec:  &jobSpec{job: Job{Name: "tick", Schedule: test.schedule, Crash: test.crash}},
			decision: decision{runID: runID{scheduled: at}, mark: test.had},
		}
		if got := x.completionMark(); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
