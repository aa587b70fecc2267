package sim

import (
	"context"
	"errors"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
)

// A standing is a holder's place in the store's line, and what stands in it when the one that asked for it has gone.
type standing struct {
	replica      *replica
	name, holder string
	event        int           // of the claim
	over         chan struct{} // closed when the name was granted, or nothing more will come
	tick         chan error    // receives refusals
	out          store.Outcome
	at           time.Duration // of the grant
	leave        context.CancelFunc
	forsaken     bool // its holder has left, and the store was not told
}

// stand returns the place of a claim's holder, which is made unless there is one. at is the event of the claim if it is made.
func (w *world) stand(n *network, claim store.Claim, at int) *standing {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.places[claim.Holder]; s != nil {
		if s.event != at {
			w.events[at].Kind = "" // the claim is that of the place
		}
		return s
	}
	ctx, leave := context.WithCancel(context.Background())
	s := &standing{replica: n.replica, name: claim.Name, holder: claim.Holder, event: at, over: make(chan struct{}), tick: make(chan error, 1), leave: leave}
	w.places[claim.Holder] = s
	claim.TTL = n.replica.toStore(claim.TTL, time.Since(w.begin))
	w.events[at].TTL = claim.TTL
	mem := n.mem.Load()
	go func() {
		defer leave()
		for {
			arrived := w.now()
			grant, after, err := mem.Queue(ctx, claim)
			if errors.Is(err, store.ErrHeld) && w.now() < w.plan.Trouble+w.plan.Tail {
				select {
				case s.tick <- err:
				default:
				}
				continue
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			s.out, s.at = store.Outcome{Grant: grant, Err: err}, arrived+after
			if w.places[claim.Holder] == s {
				delete(w.places, claim.Holder)
			}
			if e := &w.events[at]; err == nil || errors.Is(err, store.ErrHeld) {
				e.Took = max(s.at, arrived) // the lease that the holder has is told again when it asks
				didOutcome(e, &s.out)
			}
			close(s.over)
			return
		}
	}()
	return s
}

// standAgain is stand by a request that has been on its way for long. The connection of one who has died is closed; and of one who has
// left, it is taken to have been answered. (Each that was not would keep the name for a TTL.)
func (w *world) standAgain(n *network, claim store.Claim, at int, life int64) {
	w.mu.Lock()
	gone := w.gone[claim.Holder]
	w.mu.Unlock()
	if !gone && !n.replica.gone(int(life)) {
		w.stand(n, claim, at)
	}
}

// Queue is as in store.Queuer.
func (n *network) Queue(ctx context.Context, claim store.Claim) (store.Grant, time.Duration, error) {
	w, r := n.replica.world, n.replica
	none := func(err error) (store.Grant, time.Duration, error) {
		if r.dead() {
			err = store.ErrClosed
		}
		return store.Grant{}, 0, err
	}
	if !w.plan.Lines {
		return none(errors.ErrUnsupported)
	}
	if r.dead() {
		return none(store.ErrClosed)
	}
	if _, bounded := ctx.Deadline(); !bounded {
		w.violated("bounded requests", r.name(), "a request without a deadline, at %v", w.now())
	}
	at := -1
	stand := func() *standing {
		if at < 0 {
			at = w.add(n.noted(claim))
		}
		return w.stand(n, claim, at)
	}
	f := n.next(stream{'q', claim.Name})
	troubled := false // by a cut that may be over when the call is
	defer func(sent time.Duration) {
		if f.kind != "" || troubled || n.cut() != nil {
			r.unwell(sent, claim.Name)
		}
	}(w.now())
	if f.crash != nil && w.fault(f.key, "crash", r.name()) {
		if f.crash.Effect {
			stand()
		}
		r.crash(f.crash.Again)
		return none(store.ErrClosed)
	}
	if cut := n.cut(); cut != nil {
		if troubled = true; cut.Frozen {
			time.Sleep(cut.To - w.now())
		} else {
			<-ctx.Done()
		}
		return none(store.AsUnknown(errOnTheWay))
	}
	if f.kind != "" && !w.fault(f.key, f.kind, r.name()) {
		f.kind = ""
	}
	switch f.kind {
	case "refused":
		return none(errRefused)
	case "request lost":
		rest(ctx, 20*f.out)
		return none(store.AsUnknown(errOnTheWay))
	case "late":
		late := w.add(n.noted(claim))
		life := r.life.Load()
		time.AfterFunc(f.later, func() { w.standAgain(n, claim, late, life) })
		rest(ctx, min(f.later, 20*f.back))
		return none(store.AsUnknown(errOnTheWay))
	case "repeated":
		again := w.add(n.noted(claim))
		life := r.life.Load()
		time.AfterFunc(f.later, func() { w.standAgain(n, claim, again, life) })
	}
	at = w.add(n.noted(claim))
	rest(ctx, f.out)
	arrived := w.now()
	s := stand()
	if f.kind == "reply lost" {
		rest(ctx, 20*f.back)
		return none(store.AsUnknown(errOnTheWay))
	}
	// missed is the end of a call whose answer has not come: one that would have been the first is missed, later ones are not.
	missed := func() (store.Grant, time.Duration, error) {
		<-ctx.Done()
		time.Sleep(time.Microsecond) // for what happens at this instant
		select {
		case <-s.over:
			if s.at <= arrived {
				return none(store.AsUnknown(ctx.Err()))
			}
		default:
		}
		if r.dead() {
			return none(store.ErrClosed)
		}
		return store.Grant{}, 0, &store.HeldError{Record: store.Record{Name: claim.Name}}
	}
	for {
		select {
		case <-s.over:
		case err := <-s.tick:
			if n.cut() == nil {
				rest(ctx, f.back)
				return store.Grant{}, 0, err
			}
			continue
		case <-ctx.Done():
			return missed()
		}
		break
	}
	told := w.now()
	time.Sleep(f.back)
	switch cut := n.cut(); {
	case cut != nil && cut.Frozen:
		troubled = true
		time.Sleep(cut.To - w.now())
	case cut != nil: // the news is lost
		troubled = true
		return missed()
	case (f.kind == "part" || f.kind == "fade") && told-arrived > f.out: // of what is told later, this is lost
		return missed()
	}
	if r.dead() {
		return none(store.ErrClosed)
	}
	if s.out.Err != nil {
		return none(s.out.Err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e := &w.events[s.event]
	e.Until = time.Since(w.begin)
	toldOutcome(e, &s.out)
	return s.out.Grant, time.Duration(float64(s.at-arrived) / r.rate()), nil
}

// left ends a place that has had no effect. w.mu is held.
func (w *world) left(s *standing) {
	delete(w.places, s.holder)
	w.events[s.event].Result, w.events[s.event].Until = proof.Failed, time.Since(w.begin)
	s.leave()
}

// forsake notes that the store is not told that a holder leaves.
func (w *world) forsake(holder string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.places[holder]; s != nil {
		s.forsaken = true
	}
}

// forsaken returns how long the places in the line for a name that nobody is in keep it at most: a lease each.
func (w *world) forsaken(name string) (d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.places {
		if s.forsaken && s.name == name {
			d += w.events[s.event].TTL
		}
	}
	return d
}

// vacate gives up the places of a replica that has died, as a store does that finds nobody to tell.
func (w *world) vacate(r *replica) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.places {
		if s.replica != r {
			continue
		}
		if left, _ := r.network.mem.Load().Leave(context.Background(), s.name, s.holder); left {
			w.left(s)
		}
	}
}

// noted is the event of a claim that waits in the queue.
func (n *network) noted(claim store.Claim) proof.Event {
	e := proof.Event{At: n.replica.world.now(), Until: proof.Never, Replica: n.replica.name(), Result: proof.Unknown}
	noteClaim(&e, &claim)
	return e
}

// Leave is as in store.Queuer.
func (n *network) Leave(ctx context.Context, name, holder string) (bool, error) {
	w, r := n.replica.world, n.replica
	leave := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.gone[holder] = true
		left, _ := n.mem.Load().Leave(context.Background(), name, holder)
		if s := w.places[holder]; left && s != nil {
			w.left(s)
		}
		return left
	}
	f := n.next(stream{'v', name})
	if r.dead() {
		return false, store.ErrClosed
	}
	if n.cut() != nil {
		w.forsake(holder)
		<-ctx.Done()
		return false, store.AsUnknown(errOnTheWay)
	}
	if f.kind == "" || !w.fault(f.key, f.kind, r.name()) {
		rest(ctx, f.out)
		return leave(), nil
	}
	switch f.kind {
	case "refused":
		w.forsake(holder)
		return false, errRefused
	case "reply lost":
		leave()
	case "late":
		time.AfterFunc(f.later, func() { leave() })
	default:
		w.forsake(holder)
	}
	return false, store.AsUnknown(errOnTheWay)
}
