package soloist

import (
	"errors"
	"time"

	"github.com/soloist-dev/soloist/internal/rand"
	"github.com/soloist-dev/soloist/store"
)

// A task is a job in a Run, with what this replica has seen of its records. What it has seen may be old: it says when to ask
// the store, and the store's answer decides.
type task struct {
	job     Job
	client  *Client // whose options are the job's
	name    string  // of the job's record
	control string  // of the record that says what was asked of it

	herd    *herd // of which it is; nil if of none
	claimed int64 // the mark that this replica has claimed it with last
	behind  bool  // it was due again when a run of it ended here, which others do not know

	since  time.Time // since when the job is known, here or to the fleet: what counts while its record has no mark
	mark   int64     // of the record: all scheduled times up to it, in unix ms, are done
	ended  time.Time // of the last run; zero if there was none. One that ended in the future, by the clock of another replica, ended when this was seen
	told   int64     // that, as the record has it, in unix ms
	served int64     // the last manual run that was done
	ctl    control

	token int64     // of the last lease of the job that this replica knows of
	until time.Time // when the lease that is in the way ends, if its holder has died; zero if none is known
	stood stand
	last  time.Time // when to look again for a scheduled time that would be missed soon; zero for none
	open  bool      // the last claim was not answered, or nobody could say whether the job is paused

	warned int64 // the mark that was reported to be ahead of this clock

	wake  time.Time // when to look again
	index int       // in the heap, -1 when it is not in it
}

// saw takes over what a record says, at now.
func (t *task) saw(r store.Record, now time.Time) {
	t.mark, t.token = max(t.mark, r.Mark), max(t.token, r.Token)
	if state, err := parseJobState(r.State); err == nil {
		t.sawState(state, now)
		if r.Holder == "" && (state.Pending < 0 || state.Pending > t.mark) { // a run was interrupted
			t.until = now
		}
	}
}

// watch notes when the lease of another replica ends, should that have died in a run.
func (t *task) watch(r store.Record, now time.Time) {
	if r.Holder != "" {
		t.until = now.Add(r.Left)
	}
}

func (t *task) sawState(s jobState, now time.Time) {
	if s.Ended > 0 && s.Ended != t.told {
		t.told, t.ended = s.Ended, earlier(time.UnixMilli(s.Ended), now)
	}
	if since := time.UnixMilli(s.Since); s.Since > 0 && since.Before(t.since) {
		t.since = since
	}
	t.served = max(t.served, s.Trigger)
}

// concluded takes over what a run of this replica left behind.
func (t *task) concluded(e ending) {
	if !e.recorded {
		return
	}
	t.sawState(e.state, time.Now())
	t.mark = max(t.mark, e.mark)
}

// done is the time up to which nothing is left to run: all is done, or fell into a pause.
func (t *task) done() time.Time {
	done := t.since
	if t.mark > 0 {
		done = time.UnixMilli(t.mark)
	}
	if resumed := time.UnixMilli(t.ctl.Resumed); t.ctl.Resumed > 0 && resumed.After(done) {
		return resumed
	}
	return done
}

// markAfter is the mark once the run of a scheduled time is done. Scheduled times less than AtLeast after it are done with it,
// for the job cannot be had then.
func (t *task) markAfter(scheduled time.Time) int64 {
	if _, delayed := t.job.Schedule.(delay); !delayed && t.client.opts.AtLeast > 0 {
		if last := latest(t.job.Schedule, scheduled, scheduled.Add(t.client.opts.AtLeast-time.Millisecond)); !last.IsZero() {
			return last.UnixMilli()
		}
	}
	return scheduled.UnixMilli()
}

// due answers the scheduled time that is to be run at now, all up to done being done, or the zero time. It was due at asked.
func (t *task) due(done, asked, now time.Time) time.Time {
	d, ok := t.job.Schedule.(delay)
	if !ok {
		return t.job.pick(done, asked, now)
	}
	if due := t.delayed(d); !due.After(asked) {
		return due
	}
	return time.Time{}
}

// delayed is when a job with a fixed delay is due: at once, if it has never run.
func (t *task) delayed(d delay) time.Time {
	if t.ended.IsZero() {
		return t.since
	}
	return d.Next(t.ended)
}

// A stand is a claim that this replica has made and not been granted, because the name was taken. Scheduled times that it was in time for
// are not missed while it lasts. With policies other than MissedSkip what is missed is run, so that it makes no difference.
type stand struct {
	at      time.Time // when the job was asked for; zero if it has not been
	refused bool      // because of a lease that was granted when such a time was due
	mark    int64     // of the record then; 0 if that was not seen
}

// asks notes that the job is asked for at now, unless it has been and was refused.
func (t *task) asks(now time.Time) {
	if t.standing().IsZero() {
		t.stood = stand{at: now}
	}
}

// standing answers the scheduled time that is not missed, however late it is, because this replica asked for it within Grace and the name was
// taken; or the zero time.
func (t *task) standing() time.Time {
	if _, delayed := t.job.Schedule.(delay); delayed || t.job.Missed != MissedSkip || t.stood.at.IsZero() {
		return time.Time{}
	}
	return t.job.pick(t.done(), t.stood.at, t.stood.at)
}

// refused notes by which lease the claim was refused. One that is from before the scheduled time was due is that of another run, which may
// take so long that the time is missed; and so is one that comes after a run which was recorded.
func (t *task) refused(r store.Record, now time.Time) {
	t.mark = max(t.mark, r.Mark)
	granted := now.Add(-r.Age)
	due := t.standing()
	if due.IsZero() || r.Holder == "" || granted.Before(t.job.start(due)) || t.stood.mark > 0 && r.Mark != t.stood.mark {
		t.stood = stand{}
		return
	}
	t.stood.refused, t.stood.mark = true, r.Mark
}

// unanswered notes that nobody knows what became of a claim, or that the store refused to say.
func (t *task) unanswered() {
	t.open = true
	if !t.stood.refused {
		t.stood = stand{}
	}
}

// asked says that a manual run is to be done.
func (t *task) asked() bool { return t.ctl.Trigger > t.served }

// want answers the mark to claim the job with at now: that of the newest scheduled time, so that a record which is further
// than this replica has seen still refuses in one step. 0 claims it whatever the mark.
func (t *task) want(now time.Time) (mark int64, ok bool) {
	if t.asked() {
		return 0, true
	}
	if t.ctl.Paused != nil {
		return 0, false
	}
	due := t.standing()
	if due.IsZero() {
		due = t.due(t.done(), now, now)
	}
	if due.IsZero() { // whoever had the job may have died in a run that only its successor can find
		return t.mark + 1, !t.until.IsZero() && !now.Before(t.until)
	}
	if _, delayed := t.job.Schedule.(delay); delayed { // whether it is due is not a matter of the mark, which a run under way may have raised
		return max(due.UnixMilli(), t.mark+1), true
	}
	if newer := latest(t.job.Schedule, due, now); !newer.IsZero() && !t.job.start(newer).After(now) {
		due = newer
	}
	return due.UnixMilli(), true
}

// next is when to look at the job again, from now on; the zero time when it will never be due.
func (t *task) next(now time.Time) time.Time {
	if _, ok := t.want(now); ok {
		return now
	}
	if d, ok := t.job.Schedule.(delay); ok {
		if due := t.delayed(d); due.After(now) {
			return due
		}
		return now.Add(time.Minute) // paused; resuming wakes it
	}
	from := t.done()
	if recent := now.Add(-t.job.Grace - time.Millisecond); from.Before(recent) {
		from = recent
	}
	if t.ctl.Paused != nil && from.Before(now) {
		from = now
	}
	due := t.job.Schedule.Next(from)
	if !due.IsZero() {
		if due = t.job.start(due); !due.After(now) {
			return now
		}
	}
	if t.ctl.Paused == nil && !t.until.IsZero() && (due.IsZero() || t.until.Before(due)) {
		return t.until
	}
	return due
}

// again is when to look again at a job that somebody else runs, or that lingers: when that ends, when it is due again, and shortly before a
// scheduled time would be missed, for the run that is in the way may end before its lease.
func (t *task) again(r store.Record, now time.Time) time.Time {
	wake := t.orDue(now.Add(r.Left+rand.N(20*time.Millisecond)), now)
	t.last = time.Time{}
	if _, delayed := t.job.Schedule.(delay); delayed || r.Holder == "" {
		return wake
	}
	done := later(t.done(), now.Add(-t.job.Grace))
	if !t.standing().IsZero() {
		done = later(done, t.stood.at) // until then nothing is missed
	}
	if due := t.job.dueBy(done, now); !due.IsZero() {
		if last := t.job.start(due).Add((t.job.Grace - t.job.Jitter) * 7 / 8); last.After(now) {
			t.last = last
			if last.Before(wake) {
				wake = last
			}
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

// orDue is when to look again at a job that cannot be had before wake: then, or when it is due again if that is sooner.
func (t *task) orDue(wake, now time.Time) time.Time {
	if _, delayed := t.job.Schedule.(delay); delayed {
		return wake
	}
	if due := t.job.Schedule.Next(now); !due.IsZero() {
		if start := t.job.start(due); start.Before(wake) {
			return start
		}
	}
	return wake
}

// A decision is what a replica does with a job that it was granted.
type decision struct {
	scheduled time.Time
	manual    int64 // the number of the manual run; 0 for a scheduled one
	attempt   int
	state     jobState // to go on from
	mark      int64    // of the record when the job was granted
	announce  bool     // the state must be in the store before the run begins
	giveUp    bool     // all attempts are used up: do not run
	tell      bool     // the state is to be written even if there is nothing to run
}

// key tells the run from others in jobState.Pending.
func (d decision) key() int64 {
	if d.manual > 0 {
		return -d.manual
	}
	return d.scheduled.UnixMilli()
}

// skew is how far the clocks of replicas may lie apart for a takeover to find the same run.
const skew = 2 * time.Second

// decide says what to run under a grant that was asked for at asked and told at now, if anything. When the lease before was abandoned
// it finds the run that its holder was at, by deciding as of the time when that lease was granted.
func (t *task) decide(g store.Grant, asked, now time.Time) (decision, bool) {
	state, _ := parseJobState(g.State) // a state of something else counts as none
	t.sawState(state, now)
	state.describe(t.job)
	told := state.Since // so that all replicas count from the same instant
	if _, delayed := t.job.Schedule.(delay); told == 0 && g.Mark == 0 && !delayed && !t.since.IsZero() {
		state.Since = t.since.UnixMilli()
	}
	t.mark, t.token = max(t.mark, g.Mark), max(t.token, g.Token)
	crashed, tell := g.ExpiredAge > 0, false
	if t.begunOnce(state, g) { // nobody has told its end
		manual := state.Pending < 0
		state.Trigger = max(state.Trigger, -state.Pending)
		at := time.UnixMilli(state.Pending)
		if manual {
			at = t.ctl.At
		}
		state.add(abandoned(at, g, now, state.Attempts+1, manual))
		state.Pending, state.Attempts, crashed = 0, 0, false
		state.Ended, tell = now.UnixMilli(), true // nobody knows when it ended; a fixed delay counts from here
		t.sawState(state, now)
	}
	if t.stood.mark > 0 && t.stood.mark != g.Mark { // a run has been recorded since
		t.stood = stand{}
	}
	if claimed := time.UnixMilli(state.Claimed).Add(t.job.Jitter); state.Claimed > t.mark && (t.standing().IsZero() || claimed.Before(t.stood.at)) {
		t.stood = stand{at: claimed} // what was claimed earlier is run first
	}
	d, crashed, ok := t.find(state, g, crashed, asked, now)
	t.stood = stand{} // from here on the record tells of the run
	if !ok {
		return decision{state: state, tell: tell}, false
	}
	if d.mark = g.Mark; g.Mark == 0 && !t.since.IsZero() {
		d.mark = t.since.UnixMilli()
	}
	d.count(t.job, state, g, now, crashed)
	if d.manual == 0 && t.ambiguous(d, g, told, asked, now) {
		d.announce = true
	}
	return d, true
}

// find picks the run: that which the holder was at whose lease was abandoned, if one was, or else what is to be run now. It says whether that
// holder's death is a crash of this run.
func (t *task) find(state jobState, g store.Grant, crashed bool, asked, now time.Time) (d decision, of bool, ok bool) {
	standing := t.standing()
	if crashed {
		if d, ok = t.choose(state, t.lookBack(asked.Add(now.Sub(asked)/2-g.ExpiredAge), g.ExpiredAge), false); ok { // off by half of a request's time at most
			later := !standing.IsZero() && standing.Before(d.scheduled) && d.manual == 0 && d.key() != state.Pending
			if !later {
				return d, true, true
			}
			crashed = false // it had left out what this replica stands for
		}
	}
	due := standing
	if due.IsZero() {
		due = t.due(t.done(), asked, now) // of what is due since then nobody has asked whether it may run
	}
	d, ok = t.choose(state, due, true)
	return d, crashed && ok && t.stood.refused && d.manual == 0 && d.scheduled.Equal(standing), ok
}

// lookBack answers the scheduled time that was to be run under a lease which was granted at an instant and abandoned, so long ago. The clock
// of its holder may have differed by skew: what was due or was missed by that much is still, or was not yet.
func (t *task) lookBack(granted time.Time, ago time.Duration) time.Time {
	return t.due(t.done(), granted.Add(min(skew, ago)), granted.Add(-skew))
}

// untouched gives back a grant under which nothing was begun, for which d was decided, if ok. The next replica finds that run in the state: it
// may be later than Grace by then, and nobody tells any more that a holder before this one has died.
func (t *task) untouched(claim store.Claim, g store.Grant, d decision, ok bool) store.Release {
	rel := store.Release{Name: claim.Name, Holder: claim.Holder, Token: g.Token, Retain: Forever}
	if d.tell || ok && d.left(t.job) {
		rel.State = d.state.json()
	}
	return rel
}

// left says that the state may tell of the run before it has begun. Of a manual run that may be run once only it says that it has.
func (d decision) left(job Job) bool { return d.manual == 0 || job.Crash == CrashTakeOver }

// ambiguous says that another replica, looking back from the takeover of this run, might find another one: because its clock differs,
// or because it has known the job for a shorter time than this one, and the record does not tell since when.
func (t *task) ambiguous(d decision, g store.Grant, told int64, asked, now time.Time) bool {
	_, delayed := t.job.Schedule.(delay)
	first, last := t.lookBack(asked.Add(-skew), skew), t.lookBack(now.Add(skew), skew)
	return g.Mark == 0 && !delayed && !t.since.IsZero() && t.since.UnixMilli() != told || first != d.scheduled || last != d.scheduled
}

// begunOnce says that a run which may be run once only had been begun when the lease before ended.
func (t *task) begunOnce(state jobState, g store.Grant) bool {
	return state.Pending > 0 && state.Pending <= g.Mark || state.Pending < 0 && t.job.Crash == CrashGiveUp
}

// choose picks the run: a manual one first, then one that was interrupted, then what is due. isNow says that nobody was cut off in it.
func (t *task) choose(state jobState, due time.Time, isNow bool) (decision, bool) {
	if !isNow && state.Pending < 0 { // the manual run that had begun; another may have been asked for since
		return decision{scheduled: t.ctl.At.Truncate(time.Millisecond), manual: -state.Pending}, true
	}
	if t.ctl.Trigger > state.Trigger && isNow { // one that had begun would be pending
		return decision{scheduled: t.ctl.At.Truncate(time.Millisecond), manual: t.ctl.Trigger}, true
	}
	if t.ctl.Paused != nil {
		return decision{}, false
	}
	if pending := time.UnixMilli(state.Pending); state.Pending > t.mark && state.Pending > t.ctl.Resumed {
		return decision{scheduled: pending}, true
	}
	return decision{scheduled: due}, !due.IsZero()
}

// count finds which attempt it is.
func (d *decision) count(job Job, state jobState, g store.Grant, now time.Time, crashed bool) {
	begun := 0
	if state.Pending == d.key() {
		begun = state.Attempts
	}
	if crashed && job.Crash == CrashTakeOver {
		begun++
		state.add(abandoned(d.scheduled, g, now, begun, d.manual > 0))
		d.announce = true
		d.giveUp = job.Retry.Attempts > 0 && begun >= job.Retry.Attempts
	}
	state.Pending, state.Attempts = d.key(), begun
	d.attempt, d.state = begun+1, state
	d.announce = d.announce || job.Crash == CrashGiveUp || d.manual > 0
}

// abandoned is the history of a run whose replica did not live to write it.
func abandoned(scheduled time.Time, g store.Grant, now time.Time, attempt int, manual bool) RunRecord {
	return RunRecord{
		ScheduledAt: scheduled.UTC(), StartedAt: now.Add(-g.ExpiredAge).UTC().Truncate(time.Millisecond), EndedAt: now.UTC().Truncate(time.Millisecond),
		Attempt: attempt, Manual: manual, Outcome: OutcomeAbandoned, Error: "its replica died or was cut off",
	}
}

// A taskHeap orders tasks by when to look at them (container/heap).
type taskHeap []*task

func (h taskHeap) Len() int           { return len(h) }
func (h taskHeap) Less(i, j int) bool { return h[i].wake.Before(h[j].wake) }
func (h taskHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *taskHeap) Push(x any) {
	t := x.(*task)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *taskHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}

var errRunning = errors.New("it is running in this client already")
