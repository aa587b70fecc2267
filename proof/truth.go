package proof

import (
	"fmt"
	"slices"
	"time"
)

// A lease is what the store knew of one grant, where it could be watched.
type lease struct {
	grant    Event
	from     time.Duration
	until    time.Duration // when it would end by itself
	released time.Duration // when it was released; Never if it was not
	linger   time.Duration // until when the name lingered then
	forced   bool
}

// end is when it was live no more.
func (l *lease) end() time.Duration { return min(l.until, l.released) }

type leaseKey struct {
	name  string
	token int64
}

// leases makes the true leases of a history from what took effect, by name in the order of their beginnings.
func (h History) leases() (map[leaseKey]*lease, map[string][]*lease) {
	byToken, byName := map[leaseKey]*lease{}, map[string][]*lease{}
	var effects History
	for _, e := range h {
		if (e.Kind == Acquire || e.Kind == Extend || e.Kind == Release) && (e.Did == Granted || e.Did == Okay) {
			effects = append(effects, e)
		}
	}
	slices.SortStableFunc(effects, func(a, b Event) int { return compare(a.Took, b.Took) })
	for _, e := range effects {
		switch e.Kind {
		case Acquire:
			key := leaseKey{e.Name, e.DidToken}
			if byToken[key] == nil { // else asked again
				l := &lease{grant: e, from: e.Took, until: e.Took + e.TTL, released: Never}
				byToken[key] = l
				byName[e.Name] = append(byName[e.Name], l)
			}
		case Extend:
			if l := byToken[leaseKey{e.Name, e.Token}]; l != nil {
				l.until = max(l.until, e.Took+e.TTL)
			}
		case Release:
			if l := byToken[leaseKey{e.Name, e.Token}]; l != nil && l.released == Never {
				l.released, l.linger = e.Took, e.Took+e.Linger
			}
		}
	}
	for _, e := range h {
		if e.Kind == Forced {
			if l := byToken[leaseKey{e.Name, e.Token}]; l != nil {
				l.forced = true
			}
		}
	}
	return byToken, byName
}

// watched says that the history tells when operations took effect.
func (h History) watched() bool {
	return slices.ContainsFunc(h, func(e Event) bool { return e.Did != "" })
}

// Within finds beliefs that were not covered by a live lease, where the store could be watched: even if nobody else had the name
// yet, somebody could have. The Name of a belief with a Limit of more than 1 is not a record's, so its lease is not looked for.
func Within(h History) []Violation {
	if !h.watched() {
		return nil
	}
	byToken, _ := h.leases()
	var found []Violation
	for _, b := range h {
		if b.Kind != Belief || b.Limit > 1 || b.Until <= b.At {
			continue
		}
		l := byToken[leaseKey{b.Name, b.Token}]
		switch {
		case l == nil:
			found = append(found, Violation{BeliefInLease, b.Name, fmt.Sprintf("nothing was granted with token %d", b.Token), History{b}})
		case l.grant.Holder != b.Holder:
			found = append(found, Violation{BeliefInLease, b.Name, fmt.Sprintf("token %d was granted to another", b.Token), History{l.grant, b}})
		case b.At < l.from, b.Until > l.end() && !l.forced:
			found = append(found, Violation{BeliefInLease, b.Name,
				fmt.Sprintf("believed in from %v to %v, and live from %v to %v", b.At, b.Until, l.from, l.end()), History{l.grant, b}})
		}
	}
	return found
}

// Told finds calls of the client that told their user what was not so, where the store could be watched.
func Told(h History) []Violation {
	if !h.watched() {
		return nil
	}
	byToken, byName := h.leases()
	var found []Violation
	bad := func(e Event, text string, more ...Event) {
		found = append(found, Violation{ToldTruth, e.Name, text, append(History{e}, more...)})
	}
	for _, e := range h {
		l := byToken[leaseKey{e.Name, e.Token}]
		switch {
		case e.Kind == Take && e.Result == Granted:
			if l == nil || l.grant.Holder != e.Holder || l.from > e.Until || l.from < e.At {
				bad(e, "told of a grant that the store did not make")
			}
		case e.Kind == Take && e.Result == Held:
			if !refusable(e, byName[e.Name], h) {
				bad(e, "told that it is held, while nobody else had it")
			}
		case e.Kind == Give && e.Result == Okay:
			if l == nil || l.released > e.Until {
				bad(e, "told that the lease was released, which it was not")
			}
		case e.Kind == Give && e.Result == Lost:
			if l != nil && l.released >= e.At && l.released <= e.Until && !l.forced && !h.forgot(l, byName[e.Name], e.Until) {
				bad(e, "told that the lease was lost, although it was released just then", l.grant)
			}
		}
	}
	return found
}

// forgot says that the store could not know any more at an instant that a lease had been released: somebody else had the name by
// then, or its record had been swept.
func (h History) forgot(l *lease, leases []*lease, at time.Duration) bool {
	return slices.ContainsFunc(leases, func(o *lease) bool { return o.from > l.from && o.from <= at }) ||
		slices.ContainsFunc(h, func(e Event) bool { return e.Kind == Swept && e.At >= l.released && e.At <= at })
}

// refusable says that somebody but the caller had the name at an instant of the call, or that it lingered.
func refusable(e Event, leases []*lease, h History) bool {
	for _, l := range leases {
		end := l.end()
		if l.released != Never {
			end = max(end, l.linger)
		}
		if l.from > e.Until || end <= e.At {
			continue
		}
		// A claim of this replica that was sent during the call, for this name, is the call's own.
		if l.grant.Replica != e.Replica || l.grant.At < e.At || l.grant.At > e.Until || l.released != Never && l.linger > l.released {
			return true
		}
	}
	return false
}
