package soloist

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// An ending is what a run leaves behind.
type ending struct {
	task     *task
	back     bool  // nothing was begun, and the job has been given back
	left     int64 // the token of the lease in which the run was interrupted; 0 if it was not
	recorded bool  // in the store; then state and mark are what it has there
	state    jobState
	mark     int64
}

// execute runs a job as decided, with its retries, and records how it went. It has a goroutine of its own, so of the task it
// reads only what never changes.
func (r *runner) execute(t *task, lease *Lease, d decision) ending {
	if d.announce && !r.announceRun(t, lease, d) {
		return ending{task: t}
	}
	if d.giveUp {
		return r.conclude(t, lease, d, true)
	}
	for {
		record, failure := r.attempt(t, lease, d)
		d.state.add(record)
		if record.Outcome != OutcomeInterrupted {
			d.state.Attempts = d.attempt
		}
		if over, done := t.job.verdict(record); over {
			return r.conclude(t, lease, d, done)
		}
		if errors.Is(failure, ErrOverran) { // the function bounds its time itself
			return r.conclude(t, lease, d, true)
		}
		if lease.doubted { // the record may tell of a run that is done
			r.log.Warn("not recording a failed attempt: its transaction may have been committed", "job", t.job.Name)
		} else if err := lease.SetState(lease.Context(), d.state.json()); err != nil {
			r.log.Warn("recording a failed attempt", "job", t.job.Name, "err", err)
		}
		if !sleep(lease.Context(), t.job.Retry.after(d.attempt)) || lease.Err() != nil { // a suspend is noticed by Err first
			return r.conclude(t, lease, d, errors.Is(context.Cause(lease.Context()), ErrOverran))
		}
		d.attempt++
	}
}

// verdict says, after an attempt, whether the run is over for this replica, and whether it is done for the fleet.
func (j Job) verdict(record RunRecord) (over, done bool) {
	last := record.Attempt >= j.Retry.Attempts
	switch record.Outcome {
	case OutcomeOK:
		return true, true
	case OutcomeInterrupted:
		return true, false
	case OutcomeLost: // as if the replica had died
		return true, last && j.Retry.Attempts > 0
	}
	return last, last
}

// announceRun writes what the successor of a replica that dies in this run must know, before the run begins.
func (r *runner) announceRun(t *task, lease *Lease, d decision) bool {
	err := lease.extend(lease.Context(), lease.opts.TTL, func(e *store.Extension) {
		e.State = d.state.json()
		if t.job.Crash == CrashGiveUp {
			e.Mark = max(0, d.key())
		}
	})
	if err == nil {
		return true
	}
	r.log.Warn("not starting a run whose start could not be recorded", "job", t.job.Name, "scheduled", d.scheduled, "err", err)
	rel := store.Release{Retain: Forever}
	if d.left(t.job) {
		rel.State = d.state.json()
	}
	if err := lease.release(rel); err != nil && !errors.Is(err, ErrLost) {
		r.log.Warn("giving back a job", "job", t.job.Name, "err", err)
	}
	return false
}

// attempt calls the job's function once, and returns what it returned beside the record of that.
func (r *runner) attempt(t *task, lease *Lease, d decision) (RunRecord, error) {
	run := Run{Job: t.job.Name, ScheduledAt: d.scheduled.UTC(), Attempt: d.attempt, Manual: d.manual > 0, Token: lease.token, Lease: lease}
	start := time.Now()
	done := r.doneOf(t, d, run, start)
	lease.done.Store(&done)
	lease.report.Store(nil)
	r.observe(Event{Kind: EventRunStart, Name: t.job.Name, Token: lease.token, Delay: start.Sub(d.scheduled)})
	lease.busy.Store(true)
	err := recovered(func() error { return t.job.Do(lease.Context(), run) })
	lease.busy.Store(false)
	end := time.Now()
	if err != nil && !lease.completed(err) {
		yes, known := r.committed(lease)
		if lease.doubted = !known; yes {
			r.log.Warn("a run failed after its transaction had been committed, so it is done", "job", t.job.Name, "scheduled", d.scheduled, "err", err)
			err = nil
		}
	} else {
		err = nil
	}
	record := r.recordOf(run, start, end)
	record.Outcome = r.outcome(lease, err)
	if err != nil {
		record.Error = err.Error()
	}
	r.observe(Event{Kind: EventRunEnd, Name: t.job.Name, Token: lease.token, Duration: end.Sub(start), Outcome: record.Outcome, Err: err})
	var panicked *PanicError
	switch {
	case errors.As(err, &panicked):
		r.log.Error("a job panicked", "job", t.job.Name, "scheduled", d.scheduled, "attempt", d.attempt, "err", err, "stack", string(panicked.Stack))
	case err != nil:
		r.log.Warn("a run failed", "job", t.job.Name, "scheduled", d.scheduled, "attempt", d.attempt, "outcome", record.Outcome, "err", err)
	}
	return record, err
}

// doneOf answers what the job's record is to have when the run that began at start is completed while its function still runs.
func (r *runner) doneOf(t *task, d decision, run Run, start time.Time) doneFunc {
	return func() (int64, []byte) {
		record := r.recordOf(run, start, time.Now())
		record.Outcome = OutcomeOK
		state := d.state
		state.Runs = slices.Clone(state.Runs)
		state.add(record)
		mark := max(t.over(&state, d), t.markOf(d))
		return mark, state.json()
	}
}

// markOf answers the mark by which the run's completion is told from none: one that the record does not have yet, although a manual run raises none, and
// one that may be run once only has raised it when it began. It is a millisecond past what is done, where nothing is due; 0 if something is.
func (t *task) markOf(d decision) int64 {
	had := d.mark
	if t.job.Crash == CrashGiveUp {
		had = max(had, d.key())
	}
	if _, delayed := t.job.Schedule.(delay); !delayed && t.job.Schedule.Next(time.UnixMilli(had)).Equal(time.UnixMilli(had+1)) {
		return 0
	}
	return had + 1
}

// committed says whether a completion of the lease's was committed, although the function failed after it; and whether the store could say so.
func (r *runner) committed(lease *Lease) (yes, known bool) {
	mark := lease.completion.Load()
	if mark == 0 {
		return false, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*r.cfg.RequestTimeout)
	defer cancel()
	for wait := newBackoff(r.cfg.RequestTimeout / 8); ; {
		records, err := r.peek(ctx, []string{lease.name})
		if err == nil {
			return records[0].Mark >= mark, true
		}
		if !wait.sleep(ctx) {
			return false, false
		}
	}
}

func (r *runner) recordOf(run Run, start, end time.Time) RunRecord {
	return RunRecord{
		ScheduledAt: run.ScheduledAt, StartedAt: start.UTC().Truncate(time.Millisecond), EndedAt: end.UTC().Truncate(time.Millisecond),
		Replica: r.cfg.Replica, Attempt: run.Attempt, Token: run.Token, Manual: run.Manual,
	}.reported(run.Lease)
}

func (r *runner) outcome(lease *Lease, err error) string {
	var panicked *PanicError
	switch {
	case err == nil:
		return OutcomeOK
	case errors.As(err, &panicked):
		return OutcomePanicked
	}
	cause := context.Cause(lease.Context())
	switch {
	case errors.Is(err, ErrInterrupted) || errors.Is(cause, ErrInterrupted):
		return OutcomeInterrupted
	case errors.Is(cause, ErrLost) && !errors.Is(cause, ErrOverran):
		return OutcomeLost
	}
	return OutcomeFailed
}

// over makes state that of a job whose run d is over, and answers its mark: 0 for a manual run, of which only the state tells.
func (t *task) over(state *jobState, d decision) int64 {
	state.Pending, state.Attempts, state.Ended = 0, 0, time.Now().UnixMilli()
	state.Trigger = max(state.Trigger, d.manual)
	if d.manual > 0 {
		return 0
	}
	mark := t.markAfter(d.scheduled)
	if state.Claimed <= mark {
		state.Claimed = 0
	}
	return mark
}

// conclude releases the job. Unless it is done, its run stays to be done by the next replica, at once.
func (r *runner) conclude(t *task, lease *Lease, d decision, done bool) ending {
	rel := store.Release{Retain: Forever}
	if done || t.job.Crash == CrashGiveUp {
		rel.Mark = t.over(&d.state, d)
	} else {
		lease.opts.AtLeast = 0
	}
	if rel.Mark > 0 || !lease.doubted {
		rel.State = d.state.json()
	}
	err := lease.release(rel)
	switch {
	case errors.Is(err, ErrLost):
		r.log.Error("a run outlived its lease, so another replica may have run it too", "job", t.job.Name, "scheduled", d.scheduled, "token", lease.token)
	case err != nil:
		r.log.Error("a run could not be recorded, so it may be run again", "job", t.job.Name, "scheduled", d.scheduled, "err", err)
	}
	e := ending{task: t, recorded: err == nil, state: d.state, mark: rel.Mark}
	if runs := d.state.Runs; err == nil && rel.Mark == 0 && len(runs) > 0 && runs[len(runs)-1].Outcome == OutcomeInterrupted {
		e.left = lease.token
	}
	return e
}
