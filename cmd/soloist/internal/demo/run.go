package demo

import (
	"cmp"
	"slices"
	"time"
)

// A run is one attempt at a scheduled time, as its replica reported it.
type run struct {
	replica    string
	scheduled  int64
	attempt    int
	token      int64
	start, end time.Duration // by its holder's belief; end is 0 if it never reported one
	err        string
	recorded   bool // the store has confirmed its end
}

// completed reports whether the run did its work and the store has confirmed that.
func (r run) completed() bool { return r.end > 0 && r.err == "" && r.recorded }

// A grant identifies a token: tokens of different replicas may be equal.
type grant struct {
	replica string
	token   int64
}

// runsIn returns the runs of the job, in the order in which they were reported.
func runsIn(events []event) []run {
	var runs []run
	at := map[grant]int{}
	for _, e := range events {
		i, known := at[grant{e.Replica, e.Token}]
		switch {
		case e.Kind == runStart:
			at[grant{e.Replica, e.Token}] = len(runs)
			runs = append(runs, run{replica: e.Replica, scheduled: e.Scheduled, attempt: e.Attempt, token: e.Token, start: e.At})
		case e.Kind == runEnd && known:
			runs[i].end, runs[i].err = e.Held, e.Err
		case e.Kind == recorded && known:
			runs[i].recorded = e.Err == ""
		}
	}
	return runs
}

// completions returns the completed runs by scheduled time.
func completions(events []event) map[int64][]run {
	by := map[int64][]run{}
	for _, r := range runsIn(events) {
		if r.completed() {
			by[r.scheduled] = append(by[r.scheduled], r)
		}
	}
	return by
}

// inOrder sorts runs by scheduled time and attempt: the order in which they must have been granted, whatever any clock
// says.
func inOrder(runs []run) []run {
	return slices.SortedStableFunc(slices.Values(runs), func(a, b run) int {
		return cmp.Or(cmp.Compare(a.scheduled, b.scheduled), cmp.Compare(a.attempt, b.attempt))
	})
}

// takeover returns the beginning of the first later attempt, by another replica, at the run that was halted.
func takeover(events []event, halted event) (event, bool) {
	return find(events, func(e event) bool {
		return e.Kind == runStart && e.Scheduled == halted.Scheduled && e.Attempt > halted.Attempt && e.Replica != halted.Replica
	})
}
