package server

import (
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/internal/diagnose"
)

// A jobRow is a job as the pages show it.
type jobRow struct {
	soloist.JobInfo
	now time.Time
}

// InWords returns the schedule in words; "" if it is the application's own.
func (j jobRow) InWords() string {
	e, err := cron.Parse(j.Schedule)
	if err != nil {
		return ""
	}
	if e, err = e.For(j.Name); err != nil {
		return ""
	}
	return cron.Describe(e)
}

// State returns what the job is doing.
func (j jobRow) State() string {
	switch {
	case j.Running != nil:
		return "running"
	case j.Paused != nil:
		return "paused"
	case j.Manual:
		return "asked to run"
	case len(j.Replicas) == 0:
		return "no replica"
	}
	return "waiting"
}

// Coming returns the next five scheduled times.
func (j jobRow) Coming() (all []time.Time) {
	for t := range j.NextTimes(j.now) {
		if all = append(all, t); len(all) == 5 {
			break
		}
	}
	return all
}

// In returns how long it is until an instant.
func (j jobRow) In(t time.Time) string { return span(t.Sub(j.now).Round(time.Second)) }

// Overdue returns the scheduled time that nothing has run for.
func (j jobRow) Overdue() time.Time { return diagnose.Overdue(j.JobInfo, j.now) }

// Overlaps returns the double runs.
func (j jobRow) Overlaps() []overlap { return overlaps(j.JobInfo, j.now) }

// Newest returns the runs, the newest first.
func (j jobRow) Newest() []soloist.RunRecord {
	runs := slices.Clone(j.Runs)
	slices.Reverse(runs)
	return runs
}

// Delays returns how long after their scheduled times runs started: the half and 95 of 100 of them no later than that.
func (j jobRow) Delays() percentiles {
	var all []time.Duration
	for _, r := range j.Runs {
		if !r.Manual && !r.ScheduledAt.IsZero() && r.Attempt <= 1 {
			all = append(all, r.StartedAt.Sub(r.ScheduledAt))
		}
	}
	return percentilesOf(all)
}

// Durations returns how long runs took.
func (j jobRow) Durations() percentiles {
	var all []time.Duration
	for _, r := range j.Runs {
		all = append(all, r.EndedAt.Sub(r.StartedAt))
	}
	return percentilesOf(all)
}

// percentiles are of the runs that are kept, by nearest rank.
type percentiles struct {
	N        int
	P50, P95 time.Duration
}

func percentilesOf(all []time.Duration) percentiles {
	if len(all) == 0 {
		return percentiles{}
	}
	slices.Sort(all)
	rank := func(percent int) time.Duration { return all[(len(all)*percent+99)/100-1] }
	return percentiles{len(all), rank(50), rank(95)}
}

// A mark is how an outcome is shown without colour.
func markOf(outcome string) string {
	switch outcome {
	case soloist.OutcomeOK:
		return "✓"
	case soloist.OutcomeFailed:
		return "✗"
	case soloist.OutcomePanicked:
		return "!"
	case soloist.OutcomeInterrupted:
		return "↷"
	}
	return "?"
}

func (v *visit) jobList() (any, error) {
	var rows []jobRow
	jobs := v.jobSheet("/jobs", pageRows)
	for _, j := range jobs.Rows {
		rows = append(rows, jobRow{j, v.now})
	}
	return sheetOf(jobs, rows), nil
}

// jobPage shows one job, as the store has it now.
func (v *visit) jobPage() (any, error) {
	name := v.URL.Query().Get("name")
	if err := v.caller.mayUse(name); err != nil {
		return nil, err
	}
	defer v.within(storeWithin)()
	info, err := v.server.client.Admin().Job(v.Context, name)
	slices.SortFunc(info.Replicas, func(a, b soloist.Definition) int { return strings.Compare(a.Replica, b.Replica) })
	return jobRow{info, v.now}, err
}
