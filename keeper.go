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

// A keeper keeps the live leases of a client. One goroutine sees to it that all are renewed, in batches. A timer, which no request can
// hold up, tells each holder when its lease has to count as lost.
type keeper struct {
	core *core

	mu     sync.Mutex
	leases []*Lease
	closed bool

	loss   *time.Timer   // runs expire; nil before the first lease
	lossAt time.Time     // when it fires; zero when it is not armed
	slept  time.Duration // the sum of the suspends when it was set

	renewing bool         // the renewal goroutine has been started
	renewAt  time.Time    // when it wakes; zero when it waits for a lease
	flights  map[lane]int // under way
	wake     chan struct{}
	stop     chan struct{}
	stopped  chan struct{}
}

// lookout is how often the loss timer looks, at least, while leases are held: timers stand still in a suspend, so a lease
// that ran out meanwhile is noticed this long after it, at most.
const lookout = time.Second

func newKeeper(c *core) *keeper {
	return &keeper{core: c, flights: map[lane]int{}, wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{})}
}

// add keeps a new lease, unless the client is closed.
func (k *keeper) add(l *Lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	l.index = len(k.leases)
	k.leases = append(k.leases, l)
	if !k.renewing {
		k.renewing = true
		go k.renewals()
	}
	k.watch(l)
	return true
}

// watch makes sure that both the timer and the renewal goroutine wake in time for l. k.mu is held.
func (k *keeper) watch(l *Lease) {
	switch {
	case k.lossAt.IsZero() || l.deadline.Before(k.lossAt):
		k.armLoss(l.deadline, k.core.clock.latest())
	case k.core.clock.known() != k.slept: // the timer has stood still
		k.armLoss(k.lossAt, k.core.clock.latest())
	}
	if k.renewAt.IsZero() || l.renewAt.Before(k.renewAt) {
		k.hurry(l.renewAt)
	}
}

// hurry makes the renewal goroutine look at the time at. k.mu is held.
func (k *keeper) hurry(at time.Time) {
	k.renewAt = at
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// armLoss sets the timer for the earliest deadline. k.mu is held.
func (k *keeper) armLoss(at, now time.Time) {
	k.lossAt, k.slept = at, k.core.clock.known()
	d := max(0, min(at.Sub(now), lookout))
	if k.loss == nil {
		k.loss = time.AfterFunc(d, k.expire)
	} else {
		k.loss.Reset(d)
	}
}

// expire loses the leases whose deadline has passed.
func (k *keeper) expire() {
	k.mu.Lock()
	now := k.core.clock.latest()
	if len(k.leases) > 0 && now.Before(k.lossAt) {
		k.armLoss(k.lossAt, now)
		k.mu.Unlock()
		return
	}
	var lost []*Lease
	var next time.Time
	for _, l := range k.leases {
		if !now.Before(l.deadline) {
			lost = append(lost, l)
		} else if next.IsZero() || l.deadline.Before(next) {
			next = l.deadline
		}
	}
	k.lossAt = time.Time{}
	if !next.IsZero() {
		k.armLoss(next, now)
	}
	causes := make([]error, len(lost))
	for i, l := range lost {
		causes[i] = l.overdue(now)
	}
	k.mu.Unlock()
	for i, l := range lost {
		k.lose(l, causes[i])
	}
}

// overdue says why a lease ends at its deadline: AtMost has been reached, if nothing was left to renew, or it could not be renewed.
func (l *Lease) overdue(now time.Time) error {
	if !l.end.IsZero() && (l.renewAt.Equal(l.end) || !now.Before(l.end.Add(-l.opts.Margin))) {
		return ErrOverran
	}
	return ErrLost
}

// remove stops keeping l and says whether it was kept. k.mu is held.
func (k *keeper) remove(l *Lease, err error) bool {
	if l.index < 0 {
		return false
	}
	last := len(k.leases) - 1
	k.leases[l.index] = k.leases[last]
	k.leases[l.index].index = l.index
	k.leases[last] = nil
	k.leases = k.leases[:last]
	l.index, l.err = -1, err
	return true
}

// lose ends a lease that is not ours any more.
func (k *keeper) lose(l *Lease, cause error) {
	k.mu.Lock()
	kept := k.remove(l, cause)
	k.mu.Unlock()
	if !kept {
		return
	}
	l.cancel(cause)
	k.core.queues.released(l.queue)
	k.core.log.Warn("lease lost", "name", l.shown, "token", l.token, "holder", l.holder, "cause", cause)
	k.tellLost(l, cause)
}

// tellLost tells Config.Observe that a lease is lost, once.
func (k *keeper) tellLost(l *Lease, cause error) {
	k.mu.Lock()
	told := l.lost
	l.lost = true
	k.mu.Unlock()
	if !told {
		k.core.observe(Event{Kind: EventLost, Name: l.of, Token: l.token, Duration: k.core.clock.latest().Sub(l.since), Err: cause})
	}
}

// drop ends a lease that its user is done with, and says whether the store should be told: it is told once, and also of a
// lease that counted as lost here, for the store may still have it.
func (k *keeper) drop(l *Lease, cause error) bool {
	k.mu.Lock()
	if !k.remove(l, cause) {
		again := l.err != cause
		if again {
			l.err = cause
		}
		k.mu.Unlock()
		return again
	}
	k.mu.Unlock()
	l.cancel(cause)
	return true
}

// confirm moves the deadline of a lease that the store has extended by ttl, when asked at before.
func (k *keeper) confirm(l *Lease, before time.Time, ttl time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index < 0 {
		return
	}
	l.unconfirmed = false
	if deadline := before.Add(ttl - l.margin(ttl)); deadline.After(l.deadline) {
		l.deadline = deadline
	}
	if renewAt := before.Add(min(ttl, l.opts.TTL) / 3); renewAt.After(l.renewAt) { // not so when a later flight is under way
		l.renewAt = renewAt
	}
	if !l.end.IsZero() && !before.Add(ttl).Before(l.end) {
		l.renewAt = l.end // nothing is left to renew
	}
	k.watch(l)
}

// renewals is the renewal goroutine: it starts flights.
func (k *keeper) renewals() {
	defer close(k.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		flights, wait := k.board()
		for _, f := range flights {
			k.core.work.Go(func() { k.fly(f) })
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-k.wake:
		case <-k.stop:
			return
		}
	}
}

// A flight is a request that renews leases, in a goroutine of its own while it is under way. Flights do not wait for each other.
type flight struct {
	lane   lane
	leases []*Lease
}

// A lane is what may fly together: leases whose TTLs differ by less than a factor of two, because the shortest bounds the request; and
// those that the flight before has not confirmed apart from the others, because what held that up may hold up the next one too.
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

// A departure is what is to fly in a lane.
type departure struct {
	leases []*Lease
	first  time.Time // when the first of them must
}

// board makes flights of the leases to renew now, together with those that will be due soon, for the sake of fewer requests. It
// answers how long until there are more. A lease that is under way is asked for again, beside, when its time has come once more.
func (k *keeper) board() ([]flight, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.core.clock.latest()
	if !k.lossAt.IsZero() {
		k.armLoss(k.lossAt, now) // a suspend since the timer was set has brought that instant nearer
	}
	if !k.renewAt.IsZero() && now.Before(k.renewAt) {
		return nil, k.renewAt.Sub(now)
	}
	due, next := k.departures(now)
	var flights []flight
	for lane, d := range due {
		if now.Before(d.first) { // nobody needs it yet
			next = soonest(next, d.first)
			continue
		}
		if len(d.leases) > batchLimit { // there may be no room for all
			slices.SortFunc(d.leases, func(a, b *Lease) int { return a.renewAt.Compare(b.renewAt) })
		}
		for leases := range slices.Chunk(d.leases, batchLimit) {
			if k.flights[lane] == maxRenewals {
				break // until one of them lands
			}
			k.flights[lane]++
			for _, l := range leases {
				l.flying, l.unconfirmed = l.flying+1, true
				l.renewAt = now.Add(l.opts.TTL / 3)
				next = soonest(next, l.renewAt)
			}
			flights = append(flights, flight{lane, leases})
		}
	}
	k.renewAt = next
	if next.IsZero() {
		return flights, time.Hour
	}
	return flights, next.Sub(now)
}

// departures finds what is due now, or almost, and when the first of the others will be. k.mu is held.
func (k *keeper) departures(now time.Time) (due map[lane]*departure, next time.Time) {
	due = map[lane]*departure{}
	for _, l := range k.leases {
		if now.Before(l.renewAt.Add(-l.early())) {
			next = soonest(next, l.renewAt)
			continue
		}
		lane := lane{ttl: bits.Len64(uint64(l.opts.TTL)), again: l.unconfirmed}
		d := due[lane]
		if d == nil {
			d = &departure{}
			due[lane] = d
		}
		d.leases = append(d.leases, l)
		d.first = soonest(d.first, l.renewAt)
	}
	return due, next
}

// soonest is the earlier of two instants, of which the zero time is none.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// fly renews the leases of a flight. It ends when its answer would be of no use any more: later flights have asked again by then.
func (k *keeper) fly(f flight) {
	before := k.core.clock.earliest()
	extensions := make([]store.Extension, len(f.leases))
	timeout := k.core.cfg.RequestTimeout
	for i, l := range f.leases {
		extensions[i] = l.extension(before, l.opts.TTL)
		timeout = min(timeout, max(l.opts.TTL-l.opts.Margin, 10*time.Millisecond))
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	errs, err := k.core.extends.do(ctx, extensions)
	cancel()
	k.land(f)
	for i, l := range f.leases {
		outcome := err
		if err == nil {
			outcome = errs[i]
		}
		switch {
		case outcome == nil:
			k.confirm(l, before, extensions[i].TTL)
		case errors.Is(outcome, ErrLost):
			k.lose(l, ErrLost)
		default:
			k.again(l)
		}
	}
}

// land ends a flight. What has waited for a place in its lane can leave.
func (k *keeper) land(f flight) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range f.leases {
		l.flying--
	}
	full := k.flights[f.lane] == maxRenewals
	if k.flights[f.lane]--; k.flights[f.lane] == 0 {
		delete(k.flights, f.lane)
	}
	if full {
		k.hurry(k.core.clock.latest())
	}
}

// again puts off a renewal that the store did not confirm, unless another is under way.
func (k *keeper) again(l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index >= 0 && l.flying == 0 {
		l.renewAt = soonest(l.renewAt, k.core.clock.latest().Add(min(time.Second, l.opts.TTL/12)))
		k.watch(l)
	}
}

// cancelAll ends the contexts of all leases; they stay kept.
func (k *keeper) cancelAll(cause error) {
	k.mu.Lock()
	leases := slices.Clone(k.leases)
	k.mu.Unlock()
	for _, l := range leases {
		l.cancel(cause)
	}
}

// close ends renewal and gives back every lease whose function, if it has one, has returned.
func (k *keeper) close() error {
	k.mu.Lock()
	k.closed = true
	leases := slices.Clone(k.leases)
	renewing := k.renewing
	if k.loss != nil {
		k.loss.Stop()
	}
	k.mu.Unlock()
	close(k.stop)
	if renewing {
		<-k.stopped
	}
	var errs []error
	var free []*Lease
	for _, l := range leases {
		if l.busy.Load() {
			k.lose(l, ErrClosed)
			errs = append(errs, fmt.Errorf("%q: its function has not returned; the lease ends with its TTL", l.shown))
			continue
		}
		l.cancel(ErrClosed)
		free = append(free, l)
	}
	errs = append(errs, finishAll(k.core, free, func(i int) store.Release { return store.Release{Retain: free[i].retain()} })...)
	return errors.Join(errs...)
}
