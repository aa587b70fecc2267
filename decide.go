package soloist

import (
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A runID names a run of a job: a scheduled time, or a manual run with its number.
type runID struct {
	scheduled time.Time // of a manual run: when it was asked for
	manual    int64     // 0 for a scheduled run
}

func (r runID) none() bool { return r.manual == 0 && r.scheduled.IsZero() }

// key names the run in jobState.Pending.
func (r runID) key() int64 {
	if r.manual > 0 {
		return -r.manual
	}
	return r.scheduled.UnixMilli()
}

// A decision is what a replica does with a job that it was granted: it runs a run, or nothing if there is none.
type decision struct {
	runID
	attempt  int
	missed   int      // scheduled times before it that no replica runs, because they were missed; mostMissed at most
	state    jobState // of the record, to go on from
	mark     int64    // of the record when the job was granted
	announce bool     // the state must be in the store before the run begins
	giveUp   bool     // all attempts are used up: do not run
	tell     bool     // the state is to be written even if there is nothing to run
}

// unused returns the state with which a grant is given back under which nothing was begun; nil leaves the state as it is. The next replica finds
// the run in it: it may be later than Grace by then, and nobody reports any more that a holder before this one has died. A manual run that may be
// run once only is not in it, nor in the record if it has been announced: it would count as begun, and its control has it.
func (d decision) unused(job Job) []byte {
	if d.none() && !d.tell {
		return nil
	}
	if d.manual > 0 && job.Crash == CrashGiveUp {
		d.state.Pending, d.state.Attempts, d.state.Manual = 0, 0, 0
	}
	return d.state.json()
}

// A trip is a request to the store and back, by this replica's clock.
type trip struct {
	asked, answered time.Time
	spread          time.Duration // by how much more an age is uncertain that the trip has brought: somebody else was told of it, on a trip of his own
}

// granted returns the earliest and the latest instant at which a lease was granted whose age the store reported on the trip.
func (t trip) granted(age time.Duration) (earliest, latest time.Time) {
	return t.asked.Add(-age), t.answered.Add(t.spread - age)
}

// skew is how far the clocks of replicas may lie apart for a takeover to find the same run.
const skew = 2 * time.Second

// lookBack returns as of when the holder of a lease decided what to run that was granted so long ago, between two instants. Its clock may have
// differed by skew: what was due or was missed by that much is still, or was not yet.
func lookBack(earliest, latest time.Time, ago time.Duration) asOf {
	return asOf{due: latest.Add(min(skew, ago)), missed: earliest.Add(-skew)}
}

// begunAhead returns as of when that holder may have begun a run that is not due yet by this replica's clock.
func begunAhead(earliest, latest time.Time) asOf { return lookBack(earliest, latest, skew) }

// decide returns what to run under a grant, if anything. When the holder before died it finds the run that this holder was at, by deciding
// as of the time when its lease was granted.
func (j *plannedJob) decide(g store.Grant, t trip) decision {
	anew := j.sawForgotten(g, t.answered)
	state := j.sawGrant(g, t.answered)
	d := decision{state: state, mark: g.Mark, tell: anew}
	unmarked := g.Mark <= j.forgot && !j.since.IsZero()
	if unmarked {
		d.mark = max(g.Mark, j.since.UnixMilli())
	}
	if state.Died > 0 { // a holder after that one, if there was any, has begun nothing: it would have written so before
		g.ExpiredAge, t.spread = max(1, t.asked.Sub(time.UnixMilli(state.Died))), time.Duration(state.Spread)*time.Millisecond
		d.state.Died, d.state.Spread, d.tell, d.announce = 0, 0, true, true
	}
	died := g.ExpiredAge > 0
	if j.begunOnce(state, g) {
		d.tell, died = true, false
		j.close(&d.state, g, t)
	}
	j.sawClaims(d.state, g, t.asked)
	var crashed bool
	d.runID, crashed = j.pickRun(&d.state, g, t, died)
	if _, delayed := j.delayed(); unmarked && !delayed {
		d.state.Since, d.state.Forgot = j.since.UnixMilli(), j.forgot // from here on all replicas count from when the first of those knew the job that were granted it
	}
	if !d.none() {
		if !crashed { // else that holder has counted them
			d.missed = j.missedBefore(d)
		}
		d.count(j, g, t, crashed)
		d.announce = d.announce || j.ambiguous(d, g, t)
	}
	if died && d.none() {
		d.tell = j.keepAhead(&d.state, g, t) || d.tell
	}
	j.timely.refused, j.timely.mark = true, g.Mark // until the record shows the run, or another
	return d
}

// sawGrant learns what a grant tells, and returns the state to go on from.
func (j *plannedJob) sawGrant(g store.Grant, now time.Time) jobState {
	state, _ := parseJobState(g.State) // a state of something else counts as none
	j.sawState(state.head(), now)
	state.describe(j.job)
	j.mark, j.token = max(j.mark, g.Mark), max(j.token, g.Token)
	return state
}

// begunOnce reports whether a run which may be run once only had begun when the lease before ended.
func (j *plannedJob) begunOnce(state jobState, g store.Grant) bool {
	return state.Pending > 0 && state.Pending <= g.Mark || state.Pending < 0 && j.job.Crash == CrashGiveUp
}

// close ends the run of a holder that died and that may be run once only: the history says that it was abandoned.
func (j *plannedJob) close(state *jobState, g store.Grant, t trip) {
	run := runID{scheduled: time.UnixMilli(state.Pending)}
	if state.Pending < 0 {
		run = pendingManual(*state)
		state.Trigger = max(state.Trigger, run.manual)
	}
	state.add(j.abandoned(run.scheduled, g, t, state.Attempts+1, run.manual))
	state.advance(g.Mark)
	state.Ended = t.answered.UnixMilli() // nobody knows when it ended; a fixed delay counts from here
	j.sawState(state.head(), t.answered)
}

// sawClaims learns which claims kept a scheduled time from being missed: this replica's, unless a run has been recorded since, and one
// that was given back. What was claimed earlier is run first.
func (j *plannedJob) sawClaims(state jobState, g store.Grant, now time.Time) {
	j.forgetEarlier(g.Mark)
	if state.Claimed <= j.mark {
		return
	}
	back := timelyClaim{at: later(j.job.start(time.UnixMilli(state.Claimed)), time.UnixMilli(state.Asked))}
	if back.at.After(now) { // by a clock that is ahead: it is run when it is due here
		return
	}
	mine, theirs := j.claimedInTime(), j.claimedBy(back)
	if !theirs.IsZero() && (mine.IsZero() || theirs.Before(mine)) {
		j.timely = back
	}
}

// pickRun picks the run: that of the holder before, if that has died in one, or else what is to be run now. It reports whether that
// holder's death is a crash of the run.
func (j *plannedJob) pickRun(state *jobState, g store.Grant, t trip, died bool) (run runID, crashed bool) {
	inTime := j.claimedInTime()
	if died {
		earliest, latest := t.granted(g.ExpiredAge)
		run = j.lastRun(*state, j.asRecorded(*state).due(lookBack(earliest, latest, g.ExpiredAge)))
		// It had left out what this replica has claimed in time, if that is older.
		leftOut := !inTime.IsZero() && inTime.Before(run.scheduled) && run.key() != state.Pending
		switch {
		case leftOut:
			j.putOff(state, run, g, t)
			return runID{scheduled: inTime}, false
		case !run.none():
			return run, true
		}
	}
	run = j.nextRun(*state, j.dueNow(asOf{due: t.asked, missed: t.answered})) // of what is due since it was asked nobody has asked whether it may run
	return run, died && j.timely.refused && run.key() == inTime.UnixMilli()
}

// asRecorded returns the job as the holder before knew it, which may have known it for a shorter time than this replica: as long as the record says.
func (j *plannedJob) asRecorded(state jobState) *plannedJob {
	then := *j
	if state.Since > 0 {
		then.since = time.UnixMilli(state.Since)
	}
	return &then
}

// keepAhead notes the scheduled time that a holder which died may have begun by a clock that is ahead of this one, by which it is not due yet. Nobody
// finds that holder dead once the grant has been given back, so that the time would be missed. It reports whether there is one.
func (j *plannedJob) keepAhead(state *jobState, g store.Grant, t trip) bool {
	if _, delayed := j.delayed(); delayed || j.job.Missed != MissedSkip || state.Claimed > j.mark {
		return false
	}
	run := j.lastRun(*state, j.asRecorded(*state).due(begunAhead(t.granted(g.ExpiredAge))))
	if run.none() {
		return false
	}
	state.Claimed, state.Asked = run.scheduled.UnixMilli(), 0
	return true
}

// putOff notes that the run of a holder that died comes after an older one.
func (j *plannedJob) putOff(state *jobState, run runID, g store.Grant, t trip) {
	state.Next, state.Begun = run.key(), 0
	if j.job.Crash == CrashTakeOver {
		state.Begun = 1
		state.add(j.abandoned(run.scheduled, g, t, 1, 0))
	}
}

// lastRun returns the run that the holder before had begun, or was to begin when due was due.
func (j *plannedJob) lastRun(state jobState, due time.Time) runID {
	if state.Pending < 0 { // another manual run may have been asked for since
		return pendingManual(state)
	}
	return j.scheduledRun(state, due)
}

// pendingManual returns the manual run that the state shows as pending.
func pendingManual(state jobState) runID {
	run := runID{manual: -state.Pending}
	if state.Manual > 0 {
		run.scheduled = time.UnixMilli(state.Manual)
	}
	return run
}

// nextRun returns the run to begin when due is due: one that was interrupted comes first, which the record shows until it shows another, and then a manual one.
func (j *plannedJob) nextRun(state jobState, due time.Time) runID {
	if -state.Pending > state.Trigger {
		return pendingManual(state)
	}
	run := j.scheduledRun(state, due)
	if j.asked.Trigger > state.Trigger && run.key() != state.Pending {
		return runID{scheduled: j.asked.At.Truncate(time.Millisecond), manual: j.asked.Trigger}
	}
	return run
}

// scheduledRun returns the run that was interrupted, or else that of due.
func (j *plannedJob) scheduledRun(state jobState, due time.Time) runID {
	switch {
	case j.asked.Paused != nil:
		return runID{}
	case state.Pending > j.mark && state.Pending > j.asked.Resumed:
		return runID{scheduled: time.UnixMilli(state.Pending)}
	}
	return runID{scheduled: due}
}

// ambiguous reports whether another replica, looking back from the takeover of this run, might find another one: because its clock differs,
// or because it has known the job for a shorter time than this one, and the record does not tell since when. It never does for the first run of a
// fixed delay, which is due since then.
func (j *plannedJob) ambiguous(d decision, g store.Grant, t trip) bool {
	_, delayed := j.delayed()
	switch {
	case delayed && j.ended.IsZero():
		return true
	case !delayed && g.Mark <= j.forgot && !j.since.IsZero() && j.since.UnixMilli() != j.sinceThere:
		return true
	}
	first, last := t.asked.Add(-skew), t.answered.Add(skew)
	return j.due(lookBack(first, first, skew)) != d.scheduled || j.due(lookBack(last, last, skew)) != d.scheduled
}

// count finds which attempt it is.
func (d *decision) count(j *plannedJob, g store.Grant, t trip, crashed bool) {
	job := j.job
	begun := 0
	if d.state.Pending == d.key() {
		begun = d.state.Attempts
	}
	if crashed && job.Crash == CrashTakeOver {
		begun++
		d.state.add(j.abandoned(d.scheduled, g, t, begun, d.manual))
		d.announce = true
	}
	d.giveUp = job.Retry.Attempts > 0 && begun >= job.Retry.Attempts
	d.state.Pending, d.state.Attempts, d.state.Manual = d.key(), begun, 0
	if d.manual > 0 {
		d.state.Manual = max(0, d.scheduled.UnixMilli())
	}
	d.attempt = begun + 1
	d.announce = d.announce || job.Crash == CrashGiveUp || d.manual > 0
}

// mostMissed is how many missed times are counted at most.
const mostMissed = 1000

// missedBefore counts the scheduled times that nobody runs because they were missed when d is run first.
func (j *plannedJob) missedBefore(d decision) int {
	if _, delayed := j.delayed(); delayed || d.manual > 0 || d.state.Pending == d.key() {
		return 0
	}
	missed := 0
	for at := j.job.Schedule.Next(j.done()); !at.IsZero() && at.Before(d.scheduled) && missed < mostMissed; at = j.job.Schedule.Next(at) {
		missed++
	}
	return missed
}

// holderOf returns the replica whose lease was granted so long before a trip, and its token, if this replica has seen that lease: a grant does not report who
// held the lease before.
func (j *plannedJob) holderOf(age time.Duration, t trip) (replica string, token int64) {
	seen := j.seenLease
	if seen.holder == "" {
		return "", 0
	}
	earliest, latest := t.granted(age)
	first, last := seen.trip.granted(seen.age)
	apart := min(skew, time.Millisecond+t.answered.Sub(seen.trip.asked)/8) // that the two clocks may have drifted apart in between
	if earliest.Sub(last) > apart || first.Sub(latest) > apart {
		return "", 0
	}
	return replicaOf(seen.holder), seen.token
}

// abandoned is the history of a run whose replica did not live to write it. manual is the number of a manual run, else 0.
func (j *plannedJob) abandoned(scheduled time.Time, g store.Grant, t trip, attempt int, manual int64) RunRecord {
	replica, token := j.holderOf(g.ExpiredAge, t)
	_, granted := t.granted(g.ExpiredAge)
	return RunRecord{
		ScheduledAt: scheduled.UTC(), StartedAt: granted.UTC().Truncate(time.Millisecond), EndedAt: t.answered.UTC().Truncate(time.Millisecond),
		Replica: replica, Token: token, Attempt: attempt, Manual: manual > 0, Request: manual, Outcome: OutcomeAbandoned, Error: "its replica died or was cut off",
	}
}
