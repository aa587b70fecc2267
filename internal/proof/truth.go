package proof

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A lease is what the store knew of one grant, where it could be watched.
type lease struct {
	grant    *Event
	from     time.Duration
	until    time.Duration // when it would end by itself
	released time.Duration // when it was released; Never if it was not
	linger   time.Duration // until when the name lingered then; 0 if it was not
	forced   bool
}

// end is when it was live no more.
func (l *lease) end() time.Duration { return min(l.until, l.released) }

// believable is until when its holder may believe in it. If a person took it away, its holder learns of that later.
func (l *lease) believable() time.Duration {
	if l.forced {
		return l.until
	}
	return l.end()
}

type leaseKey struct {
	name  string
	token int64
}

// facts are a history, in the order of the beginnings, with what several checkers need to know of it.
type facts struct {
	History
	watchable bool // it tells when operations took effect
	byToken   map[leaseKey]*lease
	byName    map[string][]*lease      // in the order of their beginnings
	marked    map[string]time.Duration // when a name had its first mark
}

func factsOf(h History) *facts {
	f := &facts{History: h.byBegin()}
	f.watchable = f.watched()
	f.byToken, f.byName = f.leases()
	f.marked = f.marks()
	return f
}

// marks returns when each name had its first mark, where the store could be watched.
func (h History) marks() map[string]time.Duration {
	first := map[string]time.Duration{}
	for i := range h {
		e := &h[i]
		if (e.Kind != Release && e.Kind != Extend) || e.Did != Okay || e.Mark <= 0 {
			continue
		}
		if before, some := first[e.Name]; !some || e.Took < before {
			first[e.Name] = e.Took
		}
	}
	return first
}

// leases makes the true leases of a history from what took effect, by name in the order of their beginnings.
func (h History) leases() (map[leaseKey]*lease, map[string][]*lease) {
	byToken, byName := map[leaseKey]*lease{}, map[string][]*lease{}
	effects := make([]*Event, 0, len(h))
	for i := range h {
		e := &h[i]
		if e.Did == Granted || e.Did == Okay {
			effects = append(effects, e)
		}
	}
	slices.SortStableFunc(effects, func(a, b *Event) int { return cmp.Compare(a.Took, b.Took) })
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
	for i := range h {
		if e := &h[i]; e.Kind == Forced {
			if l := byToken[leaseKey{e.Name, e.Token}]; l != nil {
				l.forced = true
			}
		}
	}
	return byToken, byName
}

// watched reports whether the history tells when operations took effect.
func (h History) watched() bool {
	return h.has(func(e *Event) bool { return e.Did != "" })
}

// within finds beliefs that were not covered by a live lease, where the store could be watched: even if nobody else had the name
// yet, somebody could have. The Name of a belief with a Limit of more than 1 is not a record's, so its lease is not looked for.
func (f *facts) within() []Violation {
	if !f.watchable {
		return nil
	}
	var found []Violation
	for i := range f.History {
		b := &f.History[i]
		if b.Kind != Belief || b.Limit > 1 || b.Until <= b.At {
			continue
		}
		l := f.byToken[leaseKey{b.Name, b.Token}]
		switch {
		case l == nil:
			found = append(found, Violation{BeliefInLease, b.Name, fmt.Sprintf("nothing was granted with token %d", b.Token), History{*b}})
		case l.grant.Holder != b.Holder:
			found = append(found, Violation{BeliefInLease, b.Name, fmt.Sprintf("token %d was granted to another", b.Token), History{*l.grant, *b}})
		case b.At < l.from, b.Until > l.believable():
			found = append(found, Violation{BeliefInLease, b.Name,
				fmt.Sprintf("believed in from %v to %v, and live from %v to %v", b.At, b.Until, l.from, l.believable()), History{*l.grant, *b}})
		}
	}
	return found
}

// covered finds beliefs that outlived every lease that the store can have counted, where it could not be watched: a lease ends at the latest its
// TTL after the answer to the last request that granted or extended it. Nobody else need have come. If the history is complete, there must be such a request.
func (f *facts) covered(drift float64, complete bool) []Violation {
	if f.watchable {
		return nil
	}
	type key struct {
		holder string
		token  int64
	}
	last := map[key]*Event{}
	ends := func(e *Event) time.Duration { return e.Until + time.Duration(float64(e.TTL)*(1+drift)) }
	for i := range f.History {
		e := &f.History[i]
		confirmed := e.Kind == Acquire && e.Result == Granted || e.Kind == Extend && e.Result == Okay
		if before, some := last[key{e.Holder, e.Token}]; confirmed && (!some || ends(e) > ends(before)) {
			last[key{e.Holder, e.Token}] = e
		}
	}
	var found []Violation
	for i := range f.History {
		b := &f.History[i]
		if b.Kind != Belief {
			continue
		}
		e, some := last[key{b.Holder, b.Token}]
		switch {
		case !some && complete:
			found = append(found, Violation{BeliefInLease, b.Name, fmt.Sprintf("its holder was granted nothing with token %d", b.Token), History{*b}})
		case some && b.Until > ends(e):
			found = append(found, Violation{BeliefInLease, b.Name,
				fmt.Sprintf("believed in until %v, and the lease had ended at %v at the latest", b.Until, ends(e)), History{*e, *b}})
		}
	}
	return found
}

// told finds holders who went on although the store had told them that their lease is lost; and, where the store could be watched,
// calls of the client that told their user what was not so.
func (f *facts) told(clockless bool) []Violation {
	found := f.believedAfterLoss()
	if !f.watchable {
		return found
	}
	bad := func(e *Event, text string, more ...Event) {
		found = append(found, Violation{ToldTruth, e.Name, text, append(History{*e}, more...)})
	}
	for i := range f.History {
		e := &f.History[i]
		if e.Kind != Take && e.Kind != Give {
			continue
		}
		l := f.byToken[leaseKey{e.Name, e.Token}]
		switch e.Result {
		case Granted:
			if l == nil || l.grant.Holder != e.Holder || l.from > e.Until || l.from < e.At {
				bad(e, "told of a grant that the store did not make")
			} else if next := l.next(f.byName[e.Name]); l.released != Never && !l.forced && next != nil && next.from < l.grant.At+e.Linger-time.Microsecond {
				bad(e, fmt.Sprintf("the name was to stay taken for %v, and was granted at %v", e.Linger, next.from), *l.grant, *next.grant)
			}
		case Held:
			if !refusable(e, f.byName[e.Name], clockless) {
				bad(e, "told that it is held, while nobody else had it")
			}
		case Done:
			if marked, some := f.marked[e.Name]; !some || marked > e.Until {
				bad(e, "told that it is done, while nobody had recorded that")
			}
		case Okay:
			if l == nil || l.released > e.Until {
				bad(e, "told that the lease was released, which it was not")
			}
		case Lost:
			switch {
			case l == nil || l.forced:
			case l.end() > e.Until:
				bad(e, fmt.Sprintf("told that the lease was lost, which is live until %v", l.end()), *l.grant)
			case l.released >= e.At && l.released <= e.Until:
				bad(e, "told that the lease was lost, although it was released just then", *l.grant)
			}
		}
	}
	return found
}

// believedAfterLoss finds holders who went on believing after the store had told them that their lease is lost. It needs no watching. A release is
// not asked for by its holder alone: who takes it away twice is told that it is lost.
func (f *facts) believedAfterLoss() []Violation {
	type held struct {
		leaseKey
		holder string
	}
	lost := map[held]*Event{}
	for i := range f.History {
		if e := &f.History[i]; e.Kind == Extend && e.Result == Lost {
			key := held{leaseKey{e.Name, e.Token}, e.Holder}
			if first, ok := lost[key]; !ok || e.Until < first.Until {
				lost[key] = e
			}
		}
	}
	var found []Violation
	for i := range f.History {
		b := &f.History[i]
		if b.Kind != Belief {
			continue
		}
		if told, ok := lost[held{leaseKey{b.Name, b.Token}, b.Holder}]; ok && b.Until > told.Until {
			found = append(found, Violation{ToldTruth, b.Name, fmt.Sprintf("believed in until %v, although it was told at %v that it is lost", b.Until, told.Until), History{*told, *b}})
		}
	}
	return found
}

// next is the lease after l.
func (l *lease) next(leases []*lease) *lease {
	if i := slices.Index(leases, l); i+1 < len(leases) {
		return leases[i+1]
	}
	return nil
}

// Idle finds leases that came late although somebody waited for them, where the store could be watched: from an instant on, at
// which all was well, nobody who waits for a free name may wait for longer than bound.
func Idle(h History, from, bound time.Duration) []Violation {
	byToken, byName := h.leases()
	var found []Violation
	for i := range h {
		e := &h[i]
		if e.Kind != Take || e.Result != Granted {
			continue
		}
		l := byToken[leaseKey{e.Name, e.Token}]
		if l == nil {
			continue
		}
		free := max(e.At, from)
		leases := byName[e.Name]
		if i := slices.Index(leases, l); i > 0 {
			free = max(free, leases[i-1].end(), leases[i-1].linger)
		}
		if l.from-free > bound {
			found = append(found, Violation{HandOver, e.Name, fmt.Sprintf("free from %v on, waited for, and granted at %v only", free, l.from), History{*l.grant, *e}})
		}
	}
	return found
}

// refusable reports whether somebody but the caller had the name at an instant of the call, or that it lingered. Where there is no clock, who sees a lease or a linger
// for the first time takes it to begin.
func refusable(e *Event, leases []*lease, clockless bool) bool {
	for _, l := range leases {
		end := max(l.end(), l.linger)
		if clockless && (l.released == Never || end > l.released) {
			end = Never
		}
		if l.from > e.Until || end <= e.At {
			continue
		}
		// A claim of this replica that was sent during the call, for this name, is the call's own, unless it took effect once more when its lease was over.
		again := slices.ContainsFunc(leases, func(o *lease) bool { return o.grant.Holder == l.grant.Holder && o.from < l.from })
		if again || l.grant.Replica != e.Replica || l.grant.At < e.At || l.linger > l.released {
			return true
		}
	}
	return false
}
