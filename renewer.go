package soloist

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A renewer has the live leases of a client. One goroutine renews them in batches. A timer, which no request can delay,
// ends the context of each lease when it must count as lost.
type renewer struct {
	core *core

	mu     sync.Mutex
	leases []*Lease
	closed bool

	loss   *time.Timer // runs expire; nil before the first lease
	lossAt time.Time   // when it fires; zero if it is not armed

	renewing bool          // the renewal goroutine has been started
	renewAt  time.Time     // when it wakes; zero if it waits for a lease
	rested   time.Duration // the sum of the suspends when the timers were set
	flights  map[lane]int  // under way
	wake     chan struct{}
	stop     chan struct{}
	stopped  chan struct{}
}

// lossCheckInterval is the longest pause of the loss timer while leases are held. Timers stand still while the machine
// is suspended, so a lease that expired meanwhile is noticed at most this long after the machine resumes.
const lossCheckInterval = time.Second

func newRenewer(c *core) *renewer {
	return &renewer{core: c, flights: map[lane]int{}, wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{})}
}

// add adds a new lease, unless the client is closed.
func (r *renewer) add(l *Lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	l.index = len(r.leases)
	r.leases = append(r.leases, l)
	if !r.renewing {
		r.renewing = true
		go r.renewals()
	}
	r.watch(l)
	return true
}

// watch makes sure that both the timer and the renewal goroutine wake in time for l. r.mu is held.
func (r *renewer) watch(l *Lease) {
	if r.lossAt.IsZero() || l.deadline.Before(r.lossAt) {
		r.armLoss(l.deadline, r.core.clock.latest())
	}
	if r.renewAt.IsZero() || l.renewAt.Before(r.renewAt) {
		r.hurry(l.renewAt)
	}
	r.afterSuspend()
}

// afterSuspend sets both timers anew if there was a suspend since they were set: they have stood still, and would fire that much too late. r.mu is held.
func (r *renewer) afterSuspend() {
	rested := r.core.clock.known()
	if rested == r.rested {
		return
	}
	r.rested = rested
	if !r.lossAt.IsZero() {
		r.armLoss(r.lossAt, r.core.clock.latest())
	}
	if !r.renewAt.IsZero() {
		r.hurry(r.renewAt)
	}
}

// hurry makes the renewal goroutine wake at the time at. r.mu is held.
func (r *renewer) hurry(at time.Time) {
	r.renewAt = at
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// armLoss sets the timer for the earliest deadline. r.mu is held.
func (r *renewer) armLoss(at, now time.Time) {
	r.lossAt = at
	d := max(0, min(at.Sub(now), lossCheckInterval))
	if r.loss == nil {
		r.loss = time.AfterFunc(d, r.expire)
	} else {
		r.loss.Reset(d)
	}
}

// expire ends the leases whose deadline has passed.
func (r *renewer) expire() {
	r.mu.Lock()
	now := r.core.clock.latest()
	r.afterSuspend()
	if len(r.leases) > 0 && now.Before(r.lossAt) {
		r.armLoss(r.lossAt, now)
		r.mu.Unlock()
		return
	}
	var lost []*Lease
	var next time.Time
	for _, l := range r.leases {
		if !now.Before(l.deadline) {
			lost = append(lost, l)
		} else if next.IsZero() || l.deadline.Before(next) {
			next = l.deadline
		}
	}
	r.lossAt = time.Time{}
	if !next.IsZero() {
		r.armLoss(next, now)
	}
	causes := make([]error, len(lost))
	for i, l := range lost {
		causes[i] = l.overdue(now)
	}
	r.mu.Unlock()
	for i, l := range lost {
		r.lose(l, causes[i])
	}
}

// overdue returns why a lease ends at its deadline: it has reached AtMost, or it could not be renewed.
func (l *Lease) overdue(now time.Time) error {
	if l.whole() || !l.end.IsZero() && !now.Before(l.end.Add(-l.opts.Margin)) {
		return ErrOverran
	}
	return errUnconfirmed
}

// whole reports whether the store has confirmed l until AtMost, so that nothing is left to renew. r.mu is held.
func (l *Lease) whole() bool { return !l.end.IsZero() && l.renewAt.Equal(l.end) }

// remove removes l and reports whether it was there. r.mu is held.
func (r *renewer) remove(l *Lease, err error) bool {
	if l.index < 0 {
		return false
	}
	last := len(r.leases) - 1
	r.leases[l.index] = r.leases[last]
	r.leases[l.index].index = l.index
	r.leases[last] = nil
	r.leases = r.leases[:last]
	l.index, l.err = -1, err
	return true
}

// lose ends a lease that is lost, or no longer provably held. It reports whether that had not ended yet.
func (r *renewer) lose(l *Lease, cause error) bool {
	r.mu.Lock()
	kept := r.remove(l, cause)
	l.lost = l.lost || kept
	r.mu.Unlock()
	if !kept {
		return false
	}
	l.endContext(cause)
	r.core.waiters.released(l.waitKey)
	r.core.log.Warn("lease lost", "name", l.shown, "token", l.token, "holder", l.holder, "cause", cause)
	l.tellLost(cause)
	return true
}

// lostBefore reports whether l had been lost, and notes that it is lost now if lost is set.
func (r *renewer) lostBefore(l *Lease, lost bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := l.lost
	l.lost = before || lost
	return before
}

// tellLost emits EventLost. Only the call that set l.lost may call it.
func (l *Lease) tellLost(cause error) {
	l.core.observe(&l.ctx, Event{
		Kind: EventLost, Subject: l.subject, Token: l.token, Duration: l.core.clock.latest().Sub(l.since), Outcome: lossOutcome(cause), Err: cause,
	})
}

// drop ends a lease that its user, or Close, has finished with. It reports whether a release should be sent: once, and
// also for a lease that counted as lost here, because the store may still have it.
func (r *renewer) drop(l *Lease, end leaseEnd) bool {
	r.mu.Lock()
	if l.ended.cause != nil {
		r.mu.Unlock()
		return false
	}
	held := r.remove(l, end.cause)
	l.ended, l.err = end, end.cause
	r.mu.Unlock()
	if held {
		l.endContext(end.cause)
	}
	return true
}

// answer notes the answer to the call that has ended a lease.
func (r *renewer) answer(l *Lease, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.answered, l.answer = true, err
	if l.waiting != nil {
		close(l.waiting)
	}
}

// endedBefore returns how a lease was ended. answered is closed when the call that did so has its answer.
func (r *renewer) endedBefore(l *Lease) (end leaseEnd, answered <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.waiting == nil {
		l.waiting = make(chan struct{})
		if l.answered {
			close(l.waiting)
		}
	}
	return l.ended, l.waiting
}

// confirm moves the deadline of a lease that the store extended by ttl in a request sent at before.
func (r *renewer) confirm(l *Lease, before time.Time, ttl time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.index < 0 {
		return
	}
	l.unconfirmed = false
	if deadline := before.Add(ttl - l.margin(ttl)); deadline.After(l.deadline) {
		l.deadline = deadline
	}
	if renewAt := before.Add(min(ttl, l.opts.TTL) / 3); renewAt.After(l.renewAt) { // false if a later flight is under way
		l.renewAt = renewAt
	}
	if !l.end.IsZero() && !before.Add(ttl).Before(l.end) {
		l.renewAt = l.end
	}
	r.watch(l)
}

// renewals is the renewal goroutine: it starts flights.
func (r *renewer) renewals() {
	defer close(r.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		flights, wait := r.board()
		for _, f := range flights {
			r.core.work.Go(func() { r.fly(f) })
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-r.wake:
		case <-r.stop:
			return
		}
	}
}

// A flight is a request that renews leases, in its own goroutine. Flights do not wait for each other.
type flight struct {
	lane   lane
	leases []*Lease
}

// A lane identifies leases that can share a flight: their TTLs differ by less than a factor of two, because the
// shortest one bounds the request. Leases that the previous flight did not confirm have their own lanes, because
// whatever delayed that flight may delay the next one too.
type lane struct {
	ttl   int // log2 of the leases' TTLs
	again bool
}

// maxRenewals is how many flights of a lane may be under way.
const maxRenewals = 4

// early is how long before its time a lease may be renewed together with others.
func (l *Lease) early() time.Duration {
	if l.flying > 0 {
		return 0
	}
	return l.opts.TTL / 12
}

// A departure is the set of leases to renew in a lane.
type departure struct {
	lane   lane
	leases []*Lease
	first  time.Time // when the first of them must
}

// board returns flights for the leases to renew now, together with those that will be due soon, which saves requests.
// It also returns how long to wait until more are due. A lease whose renewal is under way is renewed in another flight
// if it becomes due again.
func (r *renewer) board() ([]flight, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rested = r.core.clock.known() // at most what now includes
	now := r.core.clock.latest()
	if !r.lossAt.IsZero() {
		r.armLoss(r.lossAt, now) // a suspend since the timer was set makes that instant earlier
	}
	if now.Before(r.renewAt) {
		return nil, r.renewAt.Sub(now)
	}
	due, next := r.departures(now)
	var flights []flight
	for _, d := range due {
		if now.Before(d.first) { // none of them is due yet
			next = soonest(next, d.first)
			continue
		}
		if len(d.leases) > batchLimit { // there may not be enough flights for all
			slices.SortFunc(d.leases, func(a, b *Lease) int { return a.renewAt.Compare(b.renewAt) })
		}
		for leases := range slices.Chunk(d.leases, batchLimit) {
			if r.flights[d.lane] == maxRenewals {
				break // until one of them lands
			}
			r.flights[d.lane]++
			for _, l := range leases {
				l.flying, l.unconfirmed = l.flying+1, true
				l.renewAt = now.Add(l.opts.TTL / 3)
				next = soonest(next, l.renewAt)
			}
			flights = append(flights, flight{d.lane, leases})
		}
	}
	r.renewAt = next
	if next.IsZero() {
		return flights, time.Hour
	}
	return flights, next.Sub(now)
}

// departures returns the leases that are due now or soon, and when the first of the others is due. r.mu is held.
func (r *renewer) departures(now time.Time) (due []*departure, next time.Time) {
	for _, l := range r.leases {
		if l.whole() || !now.Before(l.deadline) {
			continue // expire ends it
		}
		if now.Before(l.renewAt.Add(-l.early())) {
			next = soonest(next, l.renewAt)
			continue
		}
		lane := lane{ttl: bits.Len64(uint64(l.opts.TTL)), again: l.unconfirmed}
		i := slices.IndexFunc(due, func(d *departure) bool { return d.lane == lane })
		if i < 0 {
			i, due = len(due), append(due, &departure{lane: lane})
		}
		d := due[i]
		d.leases = append(d.leases, l)
		d.first = soonest(d.first, l.renewAt)
	}
	return due, next
}

// soonest returns the earlier of two instants; the zero time means none.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// fly renews the leases of a flight. It gives up when a reply would be too late to be useful: later flights have been
// sent by then.
func (r *renewer) fly(f flight) {
	before := r.core.clock.earliest()
	extensions := make([]store.Extension, len(f.leases))
	timeout := r.core.cfg.RequestTimeout
	for i, l := range f.leases {
		extensions[i] = l.extension(before, l.opts.TTL)
		timeout = min(timeout, max(l.opts.TTL-l.opts.Margin, 10*time.Millisecond))
	}
	bound := &limit{deadline: time.Now().Add(timeout)}
	errs, err := r.core.extends.do(bound, extensions)
	bound.over()
	r.land(f)
	for i, l := range f.leases {
		outcome := err
		if err == nil {
			outcome = errs[i]
		}
		switch {
		case outcome == nil:
			r.confirm(l, before, extensions[i].TTL)
		case errors.Is(outcome, ErrLost):
			r.lose(l, errNotLive)
		default:
			r.again(l)
		}
	}
}

// land ends a flight, so that another one can start in its lane.
func (r *renewer) land(f flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range f.leases {
		l.flying--
	}
	full := r.flights[f.lane] == maxRenewals
	if r.flights[f.lane]--; r.flights[f.lane] == 0 {
		delete(r.flights, f.lane)
	}
	if full {
		r.hurry(r.core.clock.latest())
	}
}

// again schedules the retry of a renewal that the store did not confirm, unless another one is under way.
func (r *renewer) again(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.index >= 0 && l.flying == 0 {
		l.renewAt = soonest(l.renewAt, r.core.clock.latest().Add(min(time.Second, l.opts.TTL/12)))
		r.watch(l)
	}
}

// interrupt ends the contexts of all functions under leases.
func (r *renewer) interrupt(cause error) {
	r.mu.Lock()
	leases := slices.Clone(r.leases)
	r.mu.Unlock()
	for _, l := range leases {
		if stop := l.stop.Load(); stop != nil {
			(*stop)(cause)
		}
	}
}

// close ends renewal and releases every lease under which nothing is done any more.
func (r *renewer) close() error {
	r.mu.Lock()
	r.closed = true
	leases := slices.Clone(r.leases)
	renewing := r.renewing
	if r.loss != nil {
		r.loss.Stop()
	}
	r.mu.Unlock()
	close(r.stop)
	if renewing {
		<-r.stopped
	}
	var errs []error
	var free []*Lease
	for _, l := range leases {
		if why := l.needed(); why != "" {
			if r.lose(l, ErrClosed) {
				errs = append(errs, fmt.Errorf("%q: %s; the lease ends with its TTL", l.shown, why))
			}
			continue
		}
		l.endContext(ErrClosed)
		free = append(free, l)
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.core.cfg.RequestTimeout*23/8) // Close has waited for functions, which makes 31/8, and is bounded by 4
	defer cancel()
	errs = append(errs, endLeases(ctx, r.core, free, errGivenBack, func(i int) store.Release { return store.Release{Retain: free[i].retain()} })...)
	return errors.Join(errs...)
}

// needed returns what is not over under l, or "".
func (l *Lease) needed() string {
	switch {
	case l.busy.Load() && l.subject.Kind == "":
		return "a change of controls has not been written"
	case l.busy.Load():
		return "its function has not returned"
	case l.subject.Kind == KindJob: // a release would hide from the next holder that a run was begun
		return "its run has not been recorded"
	}
	return ""
}
