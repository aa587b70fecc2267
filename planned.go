package soloist

import (
	"encoding/json"
	"math"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A jobSpec is what never changes of a job in a Runner. The goroutine of a run reads it too.
type jobSpec struct {
	given   Job     // as it was given
	job     Job     // with its defaults
	opts    Options // of its leases
	name    string  // of the job's record
	control string  // of the record that says what was asked of it
}

// delayed returns the job's fixed delay, if it has one: such a job is due by the end of its last run and not by the clock.
func (s *jobSpec) delayed() (delay, bool) {
	d, ok := s.job.Schedule.(delay)
	return d, ok
}

// once reports whether the job is due once.
func (s *jobSpec) once() bool {
	_, once := s.job.Schedule.(at)
	return once
}

// markAfter is the mark once the run of a scheduled time is done. Scheduled times less than AtLeast after it are done with it,
// for the job cannot be had then.
func (s *jobSpec) markAfter(scheduled time.Time) int64 {
	if _, delayed := s.delayed(); !delayed && s.opts.AtLeast > 0 {
		if last := latest(s.job.Schedule, scheduled, scheduled.Add(s.opts.AtLeast-time.Millisecond)); !last.IsZero() {
			return last.UnixMilli()
		}
	}
	return scheduled.UnixMilli()
}

// A phase is what is going on with a planned job.
type phase int

const (
	joining  phase = iota // its record has not been read yet
	idle                  // it waits for its wake
	claiming              // it is due, and is being claimed
	granted               // it has been granted, and its run, or what is done instead, has not ended
)

// A plannedJob is a job of a planner, with what this replica has seen of its records. What it has seen may be old: it says when to ask
// the store, and the store's answer decides.
type plannedJob struct {
	*jobSpec
	phase   phase
	removed bool          // it goes when it is idle
	gone    chan struct{} // closed when it has gone
	wake    time.Time     // when to look again while it is idle; zero for never
	index   int           // in the planner's heap, -1 when it is not in it
	runs    time.Time     // the scheduled time for which it was granted here last; zero if for none

	known      time.Time // since when the job is known here
	since      time.Time // since when the job is known, here or to the fleet: what counts while its record has no mark
	mark       int64     // of the record: all scheduled times up to it, in unix ms, are done
	forgot     int64     // a mark of the record up to which it is that of a job of this name that was forgotten
	ended      time.Time // of the last run; zero if there was none. One that ended in the future, by the clock of another replica, ended when this was seen
	endedThere int64     // the same as the record has it, in unix ms
	sinceThere int64     // since when the record had it that the job is known, in unix ms, when this was seen last; 0 if it did not say
	served     int64     // the last manual run that was done
	asked      control   // what people have asked of it

	token    int64     // up to which this replica knows how leases of the job ended, or has heard that they were left
	unlisted int64     // the token of another job up to which it may have been left without being listed, and was looked at
	leaseEnd time.Time // when the lease that is in the way ends, should its holder have died; zero if none is known
	timely   timelyClaim

	seenLease seenLease

	lastCall time.Time // when to look again for a scheduled time that would be missed soon; zero for none
	open     bool      // the last claim was not answered, or its record was locked, or nobody could say whether the job is paused
	warned   int64     // the mark that was reported to be ahead of this clock

	group   *claimGroup // nil if it is in none
	claimed int64       // the mark that this replica has claimed it with last
	behind  bool        // it is to be claimed alone: the others of its group do not know that it is due, or it is late
}

// A timelyClaim is a claim that this replica has made and not been granted, because the name was taken. Scheduled times that it was in time for
// are not missed while it lasts. With policies other than MissedSkip what is missed is run, so that it makes no difference.
type timelyClaim struct {
	at      time.Time // when the job was claimed first; zero if it has not been
	last    time.Time // when it was claimed last
	refused bool      // because of a lease that was granted when such a time was due, or of a linger that is over within Grace
	mark    int64     // of the record when it was refused
}

// A seenLease is the last lease of another replica that this one has seen, for the history of the run if that replica died.
type seenLease struct {
	holder string
	token  int64
	age    time.Duration // as the store reported it on the trip
	trip   trip
}

// saw learns what a record has at now.
func (j *plannedJob) saw(r store.Record, now time.Time) {
	if r.Holder == "" {
		j.token = max(j.token, r.Token)
	} else { // it may be left yet
		j.token = max(j.token, r.Token-1)
	}
	var state jobHead
	readable := json.Unmarshal(r.State, &state) == nil && state.check() == nil // of a record without a state there is nothing to learn
	if readable {
		j.sawState(state, now)
	}
	j.mark = max(j.mark, r.Mark)
	if readable && r.Holder == "" && (state.Pending < 0 || state.Pending > j.mark || state.Died > 0) { // a run was interrupted, or its replica died
		j.leaseEnd = now
	}
}

// sawLease learns when the lease of another replica ends, should that have died in a run.
func (j *plannedJob) sawLease(r store.Record, t trip) {
	if r.Holder != "" {
		j.leaseEnd = t.answered.Add(r.Left).Round(0) // as the wake is kept: else who looks then finds that it has not ended, and looks again at once
		j.seenLease = seenLease{r.Holder, r.Token, r.Age, t}
	}
}

// sawState learns what the state of a record has, before its mark.
func (j *plannedJob) sawState(s jobHead, now time.Time) {
	if j.sinceThere > 0 && s.Since > j.sinceThere && s.Since >= j.mark && !j.once() { // a record never tells a later time: the job was forgotten, and another replica has registered it anew
		j.forget()
		j.since = time.UnixMilli(s.Since)
	}
	j.sinceThere = s.Since
	if s.Ended > 0 && s.Ended != j.endedThere {
		j.endedThere, j.ended = s.Ended, earlier(time.UnixMilli(s.Ended), now.Round(0)) // as the wake is kept
	}
	if since := time.UnixMilli(s.Since); s.Since > 0 && since.Before(j.since) {
		j.since = since
	}
	j.served = max(j.served, s.Trigger)
	j.forgot = max(j.forgot, s.Forgot)
}

// sawForgotten reports whether a grant at now tells that the job was forgotten since this replica has seen its record: that has no state any more. The job then starts from the
// beginning: from when this replica knew it, but after what was done. A mark that is ahead goes with the record when the store deletes it.
func (j *plannedJob) sawForgotten(g store.Grant, now time.Time) bool {
	if len(g.State) > 0 || j.sinceThere == 0 && j.endedThere == 0 || g.Mark > now.UnixMilli() {
		return false
	}
	if !j.once() {
		j.since = later(j.known, earlier(time.UnixMilli(j.mark), now.Truncate(time.Millisecond)))
	}
	j.forget()
	j.forgot = g.Mark
	return true
}

// forget forgets what was seen of the runs of the job, which was forgotten.
func (j *plannedJob) forget() {
	j.mark, j.ended, j.endedThere, j.served = 0, time.Time{}, 0, 0
}

// sawEnd learns what a run of this replica has recorded.
func (j *plannedJob) sawEnd(e ending, now time.Time) {
	if !e.recorded {
		return
	}
	j.sawState(e.state.head(), now)
	if j.mark = max(j.mark, e.mark); e.state.Pending > j.mark { // it is not done, or another run comes after it
		j.leaseEnd = now
	}
}

// ahead returns by how much a job's record is ahead of this replica's clock, once for each mark; 0 if it is not.
func (j *plannedJob) ahead(now time.Time) time.Duration {
	ahead := time.UnixMilli(j.mark).Sub(now)
	if _, delayed := j.delayed(); delayed || ahead <= skew+j.opts.AtLeast || j.mark == j.warned {
		return 0
	}
	j.warned = j.mark
	return ahead
}

// done is the time up to which nothing is left to run: all is done, or fell into a pause.
func (j *plannedJob) done() time.Time {
	done := j.since
	if mark := time.UnixMilli(j.mark); j.mark > j.forgot || mark.After(done) { // a claim with a mark up to it is refused
		done = mark
	}
	if resumed := time.UnixMilli(j.asked.Resumed); j.asked.Resumed > 0 && resumed.After(done) {
		return resumed
	}
	return done
}

// An asOf says as of when a schedule is looked at: what was due by one instant, and missed by another. They differ where a request was under
// way between them, or where the clocks of two replicas may.
type asOf struct{ due, missed time.Time }

func exactly(t time.Time) asOf { return asOf{due: t, missed: t} }

// due returns the scheduled time that is to be run as of when, or the zero time.
func (j *plannedJob) due(when asOf) time.Time {
	d, delayed := j.delayed()
	if !delayed {
		return j.job.pick(j.done(), when.due, when.missed)
	}
	if due := j.delayEnd(d); !j.job.start(due).After(when.due) {
		return later(due, time.UnixMilli(j.beyond())) // the mark tells which times are done, and may be of a clock that was ahead
	}
	return time.Time{}
}

// delayEnd is the scheduled time of a job with a fixed delay: without the delay if it has never run.
func (j *plannedJob) delayEnd(d delay) time.Time {
	if j.ended.IsZero() {
		return j.since
	}
	return d.Next(j.ended)
}

// claimedInTime returns the scheduled time that is not missed, however late it is, because this replica claimed it within Grace and the name was
// taken; or the zero time.
func (j *plannedJob) claimedInTime() time.Time { return j.claimedBy(j.timely) }

// claimedBy returns the scheduled time that a claim was in time for, or the zero time.
func (j *plannedJob) claimedBy(c timelyClaim) time.Time {
	if _, delayed := j.delayed(); delayed || j.job.Missed != MissedSkip || c.at.IsZero() {
		return time.Time{}
	}
	return j.due(exactly(c.at))
}

// dueNow returns the scheduled time that is to be run as of when; one that was claimed in time comes first.
func (j *plannedJob) dueNow(when asOf) time.Time {
	if due := j.claimedInTime(); !due.IsZero() {
		return due
	}
	return j.due(when)
}

// hear takes over what people have asked of the job.
func (j *plannedJob) hear(asked control) {
	if asked.Trigger <= j.asked.Trigger && !asked.At.Equal(j.asked.At) { // the job may have been forgotten, and its manual runs count from 1 again: its record tells which was done
		j.served = 0
	}
	j.asked = asked
}

// triggered reports whether a manual run is to be done.
func (j *plannedJob) triggered() bool { return j.asked.Trigger > j.served }

// request returns the mark to claim the job with at now: that of the newest scheduled time, so that a record which is further
// than this replica has seen still refuses in one step. With MissedSkip a missed time is not the mark: if the claim is given back, its mark says
// what was claimed in time. 0 claims it whatever the mark. It reports false if there is nothing to claim it for.
func (j *plannedJob) request(now time.Time) (mark int64, ok bool) {
	if j.triggered() {
		return 0, true
	}
	if j.asked.Paused != nil {
		return 0, false
	}
	due := j.dueNow(exactly(now))
	if due.IsZero() { // the replica that had the job may have died in a run that only its successor can find
		return j.beyond(), !j.leaseEnd.IsZero() && !now.Before(j.leaseEnd)
	}
	if _, delayed := j.delayed(); delayed { // whether it is due is not a matter of the mark, which a run under way may have raised
		if mark = j.beyond(); mark > 0 {
			mark = max(mark, due.UnixMilli())
		}
		return mark, true
	}
	if newer := latest(j.job.Schedule, due, now); !newer.IsZero() && !j.job.start(newer).After(now) && !j.job.skips(newer, now) {
		due = newer
	}
	return due.UnixMilli(), true
}

// beyond is a mark with which a claim is not refused because of the mark of the record: 0 if no mark is higher.
func (j *plannedJob) beyond() int64 {
	if j.mark == math.MaxInt64 {
		return 0
	}
	return j.mark + 1
}

// claim notes that the job is claimed at now with a mark. A claim that was refused before keeps its instant while it keeps a time from being missed.
func (j *plannedJob) claim(mark int64, now time.Time) {
	if j.claimedInTime().IsZero() {
		j.timely = timelyClaim{at: now}
	}
	j.timely.last = now
	j.claimed, j.behind = mark, false
}

// forgetEarlier forgets all claims but the last if the job has another mark than when they were refused: a run has been recorded since.
func (j *plannedJob) forgetEarlier(mark int64) {
	if j.timely.refused && j.timely.mark != mark {
		j.timely = timelyClaim{at: j.timely.last, last: j.timely.last}
	}
}

// refused notes why the claim was refused. A lease that is from before the scheduled time was due is that of another run, which may take so long that the time is
// missed; so may a linger. But on a store without a clock, a replica that sees a linger for the first time is refused for the whole of it. The time that it has claimed is
// not missed if the linger ends within Grace, counted from the grant.
func (j *plannedJob) refused(r store.Record, now time.Time) {
	j.mark = max(j.mark, r.Mark)
	j.forgetEarlier(r.Mark)
	granted := now.Add(-r.Age)
	due := j.claimedInTime()
	switch {
	case due.IsZero(),
		r.Holder != "" && granted.Before(j.job.start(due)) && !j.dueAhead(due, granted, r.Age),
		r.Holder == "" && granted.Add(j.opts.AtLeast).After(due.Add(j.job.Grace)):
		j.timely = timelyClaim{}
	default:
		j.timely.refused, j.timely.mark = true, r.Mark
	}
}

// dueAhead reports whether a scheduled time that is due may have been due for a holder that was granted the job before it was, because its clock is ahead. If the lease
// was that of an earlier run, the record's mark moves when that ends, and the claim is forgotten then. With CrashGiveUp it moves when a run begins,
// so that a refusal may have the mark of that run already.
func (j *plannedJob) dueAhead(due, granted time.Time, age time.Duration) bool {
	return j.job.Crash != CrashGiveUp && j.due(lookBack(granted, granted, age)).Equal(due)
}

// unanswered notes that nobody knows what became of a claim, or that the store refused to say.
func (j *plannedJob) unanswered() {
	j.open = true
	if !j.timely.refused {
		j.timely = timelyClaim{}
	}
}

// next returns when to look at the job again, from now on, and whether that is now because it is to be claimed. The zero time is never.
func (j *plannedJob) next(now time.Time) (wake time.Time, due bool) {
	if _, ok := j.request(now); ok {
		return now, true
	}
	if d, ok := j.delayed(); ok {
		if start := j.job.start(j.delayEnd(d)); start.After(now) {
			return start, false
		}
		return now.Add(time.Minute), false // paused; resuming wakes it
	}
	if wake = j.following(now); !wake.IsZero() {
		wake = j.job.start(wake)
	}
	if j.asked.Paused == nil && !j.leaseEnd.IsZero() && (wake.IsZero() || j.leaseEnd.Before(wake)) {
		return j.leaseEnd, false
	}
	return wake, false
}

// following returns the first scheduled time that is neither done nor missed at now; while the job is paused the first one after now.
func (j *plannedJob) following(now time.Time) time.Time {
	from := later(j.done(), j.job.missedUpTo(now))
	if j.asked.Paused != nil && from.Before(now) {
		from = now
	}
	return j.job.Schedule.Next(from)
}

// again returns when to look again at a job that another replica runs, or that lingers, if it cannot be had before wake: then, when it is due again,
// and shortly before a scheduled time would be missed, for the run that is in the way may be of an older time, and end before its lease. A linger does not.
func (j *plannedJob) again(r store.Record, wake, now time.Time) time.Time {
	wake = j.orDue(wake, now)
	j.lastCall = time.Time{}
	if _, delayed := j.delayed(); delayed {
		return wake
	}
	switch last := j.lastCallAfter(j.done(), now); {
	case last.IsZero():
	case r.Holder != "":
		j.lastCall = last
		return earlier(last, wake)
	case wake.Before(last): // it lingers until then, and no longer
		j.lastCall = wake
	}
	return wake
}

// lastCallAfter returns when to look again, shortly before it would be missed, for the first scheduled time after another that can still be begun; zero if none is due.
func (j *plannedJob) lastCallAfter(at, now time.Time) time.Time {
	patience := (j.job.Grace - j.job.Jitter) * 7 / 8
	for due := j.job.dueBy(later(at, now.Add(-j.job.Jitter-patience)), now); !due.IsZero(); due = j.job.dueBy(due, now) {
		if last := j.job.start(due).Add(patience); last.After(now) {
			return last
		}
	}
	return time.Time{}
}

// orDue returns when to look again at a job that cannot be had before wake: then, or when it is due again if that is sooner. The jitter of a time that has
// come may not be over.
func (j *plannedJob) orDue(wake, now time.Time) time.Time {
	if _, delayed := j.delayed(); delayed {
		return wake
	}
	for due := j.job.Schedule.Next(later(j.done(), now.Add(-j.job.Jitter))); !due.IsZero() && due.Before(wake); due = j.job.Schedule.Next(due) {
		if start := j.job.start(due); start.After(now) {
			return earlier(start, wake)
		}
	}
	return wake
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// upcoming returns the first scheduled time that is neither done nor missed at now, nor being run here; zero if there is none, and while the job is paused.
func (j *plannedJob) upcoming(now time.Time) time.Time {
	if j.asked.Paused != nil {
		return time.Time{}
	}
	if d, delayed := j.delayed(); delayed {
		if j.phase == granted {
			return time.Time{} // nobody knows when its run ends
		}
		return later(j.delayEnd(d), now)
	}
	next := j.following(now)
	if j.phase == granted && !next.After(j.runs) {
		next = j.job.Schedule.Next(j.runs)
	}
	return next
}
