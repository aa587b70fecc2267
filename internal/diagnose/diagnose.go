// Package diagnose finds in the records of jobs what should not be: runs that overlap, and scheduled times that nothing has run for.
package diagnose

import (
	"slices"
	"time"

	"github.com/soloist-dev/soloist"
)

const (
	// clockTolerance is how long two runs may seem to overlap because the clocks of replicas differ.
	clockTolerance = time.Second

	// overdueAfter is how late a job may be at least; one with a longer grace may be that late.
	overdueAfter = time.Minute
)

// An Overlap is two runs of one job at the same time.
type Overlap struct {
	First, Second soloist.RunRecord
	At            time.Time
	Took          time.Duration
}

// Overlaps returns where runs of a job overlap, by more than the clocks of replicas may differ. When an abandoned run ended is not known; it is
// not among them.
func Overlaps(j soloist.JobInfo, now time.Time) (all []Overlap) {
	runs := slices.Clone(j.Runs)
	if r := j.Running; r != nil {
		runs = append(runs, soloist.RunRecord{StartedAt: r.Since, EndedAt: now, Replica: r.Replica(), Token: r.Token, Attempt: r.Attempt})
	}
	runs = slices.DeleteFunc(runs, func(r soloist.RunRecord) bool { return r.Outcome == soloist.OutcomeAbandoned })
	slices.SortStableFunc(runs, func(a, b soloist.RunRecord) int { return a.StartedAt.Compare(b.StartedAt) })
	for i, first := range runs {
		for _, second := range runs[i+1:] {
			end := first.EndedAt
			if second.EndedAt.Before(end) {
				end = second.EndedAt
			}
			if took := end.Sub(second.StartedAt); took > clockTolerance && first.Token != second.Token {
				all = append(all, Overlap{first, second, second.StartedAt, took})
			}
		}
	}
	return all
}

// Overdue returns the scheduled time that nothing has run for although its jitter and grace are over; zero if there is none.
func Overdue(j soloist.JobInfo, now time.Time) time.Time {
	if j.Paused != nil || j.Running != nil || j.DoneUpTo.IsZero() {
		return time.Time{}
	}
	for due := range j.NextTimes(j.DoneUpTo) {
		since := due
		if j.DoneUpTo.After(due) { // the delay was over in a pause, so it is due since that has ended
			since = j.DoneUpTo
		}
		if now.Sub(since) > max(j.Grace, overdueAfter) {
			return due
		}
		break
	}
	return time.Time{}
}
