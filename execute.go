package soloist

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// An ending is what a grant of a job leaves behind.
type ending struct {
	job      *plannedJob
	back     bool  // nothing was begun, and the job has been given back
	unknown  bool  // the run is done, and nothing says whether that is recorded, or the run is another's by now
	left     int64 // the token of the lease under which the run was left to the next replica; 0 if it was not
	recorded bool  // in the store; then state and mark are what it has there
	state    jobState
	mark     int64
}

// An execution is what is done under the grant of a job, in its own goroutine.
type execution struct {
	*jobSpec
	decision
	client *core
	lease  *Lease
	ctx    context.Context // of the job's function: it ends when Run is to end, and with the lease
}

// execute runs a job as decided, with its retries, and records how it went. If there is nothing to run it gives the job back.
func (x *execution) execute() ending {
	switch {
	case x.none():
		return x.decline()
	case x.announce && !x.announced():
		return ending{back: true}
	case x.giveUp:
		x.nothingBegan()
		return x.conclude(true)
	}
	if x.missed > 0 {
		x.client.observe(x.ctx, Event{Kind: EventMissed, Subject: x.lease.subject, Token: x.lease.token, Missed: x.missed})
	}
	x.keepState()
	for {
		record, failure := x.try()
		x.state.User = x.lease.keptState(x.state.User)
		x.state.add(record)
		if record.Outcome != OutcomeInterrupted {
			x.state.Attempts = x.attempt
		}
		x.keepState()
		if over, done := x.job.verdict(record); over {
			return x.conclude(done)
		}
		if errors.Is(failure, ErrOverran) { // the function bounds its time itself
			return x.conclude(true)
		}
		if x.lease.doubted { // the record may show a run that is done
			return x.conclude(errors.Is(context.Cause(x.ctx), ErrOverran))
		}
		if err := x.lease.setRecord(x.lease.Context(), x.state.json()); err != nil {
			x.client.log.Warn("recording a failed attempt", "job", x.job.Name, "err", err)
		}
		if !x.pause() || x.lease.Err() != nil { // a suspend is noticed by Err first
			return x.conclude(errors.Is(context.Cause(x.ctx), ErrOverran))
		}
		x.attempt++
	}
}

// pause waits until another attempt may begin. It reports false if none may here: the run is to end, or the client shuts down and another replica makes the attempt.
func (x *execution) pause() bool {
	ctx, cancel := context.WithCancel(x.ctx)
	defer cancel()
	end := x.client.ctx
	if x.job.Crash == CrashGiveUp { // no other replica would make it
		end = x.ctx
	}
	defer context.AfterFunc(end, cancel)()
	return sleep(ctx, x.job.Retry.after(x.attempt)) && end.Err() == nil
}

// nothingBegan makes the release of the lease leave out AtLeast: no run began here that others would have to keep their distance from.
func (x *execution) nothingBegan() { x.lease.opts.AtLeast = 0 }

// decline gives back a job that is not due, with what its record has to tell.
func (x *execution) decline() ending {
	x.nothingBegan()
	err := x.lease.release(store.Release{State: x.unused(x.job), Retain: Forever})
	if err != nil {
		x.client.log.Warn("giving back a job that is not due", "job", x.job.Name, "err", err)
	}
	return ending{} // what the record has to tell was known when it was decided
}

// verdict reports, after an attempt, whether the run is over for this replica, and whether it is done for the fleet.
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

// announced writes what the successor of a replica that dies in this run must know, before the run begins. If it cannot, it gives the job back. With CrashGiveUp it
// repeats a request whose outcome is unknown, for a TTL: if it was carried out, no other replica can begin the run.
func (x *execution) announced() bool {
	err := x.tellBeginning()
	if x.job.Crash == CrashGiveUp && errors.Is(err, ErrUnknown) {
		x.client.log.Warn("asking again whether the start of a run is recorded", "job", x.job.Name, "scheduled", x.scheduled, "err", err)
		ctx, cancel := context.WithTimeout(x.ctx, x.lease.opts.TTL)
		defer cancel()
		for wait := newBackoff(x.client.cfg.RequestTimeout / 8); errors.Is(err, ErrUnknown) && wait.sleep(ctx); {
			if again := x.tellBeginning(); !open(again) { // else it may still be written
				err = again
			}
		}
	}
	if err == nil {
		return true
	}
	x.client.log.Warn("not starting a run whose start could not be recorded", "job", x.job.Name, "scheduled", x.scheduled, "err", err)
	x.nothingBegan()
	if err := x.lease.release(store.Release{State: x.unused(x.job), Retain: Forever}); err != nil && !gone(err) {
		x.client.log.Warn("giving back a job", "job", x.job.Name, "err", err)
	}
	return false
}

// tellBeginning asks the store once to record that the run begins.
func (x *execution) tellBeginning() error {
	return x.lease.extend(x.ctx, x.lease.opts.TTL, func(e *store.Extension) {
		e.State = x.state.json()
		if x.job.Crash == CrashGiveUp {
			e.Mark = max(0, x.key())
		}
	})
}

// try calls the job's function once, and returns what it returned beside the record of that.
func (x *execution) try() (RunRecord, error) {
	run := Run{Job: x.job.Name, ScheduledAt: x.scheduled.UTC(), Attempt: x.attempt, Manual: x.manual > 0, Lease: x.lease}
	start := time.Now()
	done := x.doneOf(run, start)
	x.lease.done.Store(&done)
	x.lease.report.Store(nil)
	event := Event{Kind: EventRunStart, Subject: x.lease.subject, Token: x.lease.token, Attempt: run.Attempt, ScheduledAt: run.ScheduledAt, Manual: run.Manual}
	started := event
	started.Delay = start.Sub(x.scheduled)
	x.client.observe(x.ctx, started)
	work := Work{Subject: x.lease.subject, Attempt: run.Attempt, ScheduledAt: run.ScheduledAt, Manual: run.Manual, Lease: x.lease}
	x.lease.busy.Store(true)
	err := recovered(func() error {
		return x.client.handle(x.ctx, work, func(ctx context.Context) error { return x.job.Do(ctx, run) })
	})
	x.lease.busy.Store(false)
	end := time.Now()
	if err != nil && !x.lease.completed(err) {
		yes, known := x.committed()
		if x.lease.doubted = !known; yes {
			x.client.log.Warn("a run failed after its transaction had been committed, so it is done", "job", x.job.Name, "scheduled", x.scheduled, "err", err)
			err = nil
		}
	} else {
		err = nil
	}
	record := x.recordOf(run, start, end)
	record.Outcome = x.outcome(err)
	if err != nil {
		record.Error = err.Error()
	}
	event.Kind, event.Duration, event.Outcome, event.Err = EventRunEnd, end.Sub(start), record.Outcome, err
	x.client.observe(x.ctx, event)
	var panicked *PanicError
	switch {
	case errors.As(err, &panicked):
		x.client.log.Error("a job panicked", "job", x.job.Name, "scheduled", x.scheduled, "attempt", x.attempt, "err", err, "stack", string(panicked.Stack))
	case err != nil:
		x.client.log.Warn("a run failed", "job", x.job.Name, "scheduled", x.scheduled, "attempt", x.attempt, "outcome", record.Outcome, "err", err)
	}
	return record, err
}

// keepState lets the function of the job set its state in the record as it is now.
func (x *execution) keepState() {
	now := x.state
	x.lease.keepState(now.User, func(user []byte) []byte {
		state := now
		state.User = user
		return state.json()
	})
}

// doneOf returns the mark and state to write if the run that began at start is completed in the user's transaction.
func (x *execution) doneOf(run Run, start time.Time) doneFunc {
	return func() (int64, []byte) {
		record := x.recordOf(run, start, time.Now())
		record.Outcome = OutcomeOK
		state := x.state
		state.User = x.lease.keptState(state.User)
		state.add(record)
		mark := max(x.over(&state), x.completionMark())
		return mark, state.json()
	}
}

// completionMark returns the mark by which the run's completion is told from none: one that the record does not have yet, although a manual run raises none, and
// one that may be run once only has raised it when it began. It is a millisecond past what is done, where nothing is due; 0 if something is, or if no mark is higher.
func (x *execution) completionMark() int64 {
	had := x.mark
	if x.job.Crash == CrashGiveUp {
		had = max(had, x.key())
	}
	if _, delayed := x.delayed(); had == math.MaxInt64 || !delayed && x.job.Schedule.Next(time.UnixMilli(had)).Equal(time.UnixMilli(had+1)) {
		return 0
	}
	return had + 1
}

// committed reports whether a completion of the lease was committed although the function failed after it, and whether the store is sure of that. It asks for as long
// as the lease lasts, unless Run is to end: what it does not know cannot be recorded.
func (x *execution) committed() (yes, known bool) {
	mark := x.lease.completion.Load()
	if mark == 0 {
		return false, true
	}
	for wait := newBackoff(x.client.cfg.RequestTimeout / 8); ; {
		ctx, cancel := x.client.patience(context.Background(), time.Now().Add(2*x.client.cfg.RequestTimeout))
		yes, known = x.marked(ctx, mark, wait)
		cancel()
		if known || x.lease.Err() != nil || x.ctx.Err() != nil {
			return yes, known
		}
	}
}

// marked reports whether the record has a mark, and whether that is known. It asks until it is, or ctx ends.
func (x *execution) marked(ctx context.Context, mark int64, wait *backoff) (yes, known bool) {
	for {
		settled := x.lease.settled(ctx)
		if records, err := x.client.peek(ctx, []string{x.lease.name}); err == nil && (settled || records[0].Mark >= mark) {
			return records[0].Mark >= mark, true
		}
		if !wait.sleep(ctx) {
			return false, false
		}
	}
}

func (x *execution) recordOf(run Run, start, end time.Time) RunRecord {
	return RunRecord{
		ScheduledAt: run.ScheduledAt, StartedAt: start.UTC().Truncate(time.Millisecond), EndedAt: end.UTC().Truncate(time.Millisecond),
		Replica: x.client.cfg.Replica, Attempt: run.Attempt, Token: x.lease.token, Manual: run.Manual, Request: x.manual,
	}.reported(run.Lease)
}

func (x *execution) outcome(err error) string {
	var panicked *PanicError
	switch {
	case err == nil:
		return OutcomeOK
	case errors.As(err, &panicked):
		return OutcomePanicked
	}
	cause := cmp.Or(context.Cause(x.ctx), x.lease.Err()) // the second knows of an end before the first
	switch {
	case errors.Is(err, ErrInterrupted) || errors.Is(cause, ErrInterrupted):
		return OutcomeInterrupted
	case errors.Is(cause, ErrLost) && !errors.Is(cause, ErrOverran):
		return OutcomeLost
	}
	return OutcomeFailed
}

// over makes state that of a job whose run d is over, and answers its mark: 0 for a manual run, of which only the state tells.
func (x *execution) over(state *jobState) int64 {
	state.Ended = time.Now().UnixMilli()
	if state.Trigger = max(state.Trigger, x.manual); x.manual > 0 {
		state.advance(x.mark)
		return 0
	}
	mark := x.scheduled.UnixMilli()
	if !x.giveUp { // else no run began that the next times would have to keep their distance from
		mark = x.markAfter(x.scheduled)
	}
	state.advance(mark)
	return mark
}

// conclude releases the job. Unless it is done, its run stays to be done by the next replica, at once.
func (x *execution) conclude(done bool) ending {
	rel := store.Release{Retain: Forever}
	over := done || x.job.Crash == CrashGiveUp
	if over {
		rel.Mark = x.over(&x.state)
	} else {
		x.lease.opts.AtLeast = 0
	}
	if x.lease.doubted && rel.Mark == 0 { // the record may show a run that is done, and must not be written over: the next holder finds that, or that this one has died in the run
		x.client.log.Error("a run failed, and nobody can say whether its transaction was committed; its lease ends by itself", "job", x.job.Name, "scheduled", x.scheduled)
		x.client.renewer.lose(x.lease, errDoubted)
		return ending{unknown: done}
	}
	rel.State = x.state.json()
	err := x.lease.release(rel)
	switch {
	case errors.Is(err, ErrLost):
		x.client.log.Error("a run outlived its lease, so another replica may have run it too", "job", x.job.Name, "scheduled", x.scheduled, "token", x.lease.token)
	case err != nil:
		x.client.log.Error("a run could not be recorded, so it may be run again", "job", x.job.Name, "scheduled", x.scheduled, "err", err)
	}
	e := ending{recorded: err == nil, unknown: done && errors.Is(err, ErrUnknown) && !gone(err), state: x.state, mark: rel.Mark}
	if !over && err == nil {
		e.left = x.lease.token
	}
	return e
}
