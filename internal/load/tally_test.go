package load

import (
	"testing"
	"time"
)

// A job that is attempted again, for its lease was lost, does not stand in for a job that has not run.
func TestAttemptsOfOneRun(t *testing.T) {
	runs := newTally(time.Minute)
	begin := time.Unix(0, 0).Add(30 * time.Second)
	tick := begin.Add(30 * time.Second)
	for _, job := range []string{"a", "b", "a"} {
		runs.add(job, tick)
		runs.add(job, tick.Add(time.Hour)) // after what is counted
	}
	if all, again, fewest := runs.between(begin, begin.Add(time.Minute)); all != 2 || again != 1 || fewest != 2 {
		t.Errorf("%d runs, %d again, %d in the tick with the fewest; want 2, 1, 2", all, again, fewest)
	}
	if all, again, fewest := runs.between(begin, begin.Add(2*time.Minute)); all != 2 || again != 1 || fewest != 0 {
		t.Errorf("with a tick without runs: %d runs, %d again, fewest %d; want 2, 1, 0", all, again, fewest)
	}
}
