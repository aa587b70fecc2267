package proof

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Linearizable looks for names whose operations cannot have happened one after the other, each between its call and its return,
// on a record that keeps the laws of package store. Outcomes that nobody was told may have taken effect at any time after the call, or
// never. A lease may end as soon as its TTL has passed, by clocks that differ from the history's by Rules.Drift, and must not be
// seen live long after that. Where the store could not be watched, its TTL is counted from some instant of the call: what a store decides at one
// instant others may see only when it has been written to a slow disk. It also returns how many names could not be checked within Rules.Steps.
func Linearizable(h History, r Rules) (found []Violation, unchecked int) {
	if r.Steps == 0 {
		r.Steps = 200_000
	}
	for _, e := range h.of(Swept) {
		r.sweeps = append(r.sweeps, Span{e.At, max(e.At, e.Until)})
	}
	names, groups := byName(h.explained())
	for _, name := range names {
		if witnessed(groups[name], r) {
			continue
		}
		switch ok, checked := linearizable(groups[name], r); {
		case !checked:
			unchecked++
		case !ok:
			v := Violation{Linearizability, name, "no order of these operations keeps the laws", nil}
			if len(found) < excerpts {
				v.Excerpt = shortest(groups[name], r)
			}
			found = append(found, v)
		}
	}
	return found, unchecked
}

// excerpts is of how many names the shortest part is looked for that shows a violation: it takes many searches, and a store that has lost its
// data breaks its promises for thousands of names.
const excerpts = 10

// unseen is the Seen of a grant or a refusal whose mark nobody was told.
const unseen = -1

// explained returns the operations. Where the store could be watched, an outcome that nobody was told is replaced by what the store
// did, at the instant at which it did it.
func (h History) explained() []*Event {
	watched := h.watched()
	operations := make([]*Event, 0, len(h))
	for i := range h {
		e := &h[i]
		switch {
		case e.Kind != Acquire && e.Kind != Extend && e.Kind != Release, e.Result == Failed, e.Result == Locked:
			continue
		case watched && e.Result == Unknown && e.Did == "":
			continue
		case watched && e.Result == Unknown:
			known := *e
			known.Result, known.Until, known.Token, known.Seen = e.Did, e.Took, e.DidToken, unseen
			e = &known
		}
		operations = append(operations, e)
	}
	return operations
}

// witnessed tries the order that is the most likely by far: that in which the operations took effect, or in which they returned where nobody could watch
// the store. If that order explains all results, no other one need be searched for; if not, another one may explain them. That each
// operation is between its call and its return is a part of each step.
func witnessed(operations []*Event, r Rules) bool {
	instant := func(e *Event) time.Duration {
		if e.Did != "" {
			return e.Took
		}
		return returned(e)
	}
	order := slices.Clone(operations)
	slices.SortStableFunc(order, func(a, b *Event) int { return cmp.Compare(instant(a), instant(b)) })
	s := record{has: contents{n: 1}}
	for _, e := range order {
		if !s.step(e, r) {
			return false
		}
	}
	return true
}

// linearizable searches for an order of the operations on one name.
func linearizable(events []*Event, r Rules) (ok, checked bool) {
	operations := make([]porcupine.Operation, len(events))
	for i, e := range events {
		operations[i] = porcupine.Operation{Input: e, Call: int64(e.At), Return: int64(returned(e))}
	}
	left := r.Steps
	model := porcupine.Model{
		Init: func() any { return record{has: contents{n: 1}} },
		Step: func(state, input, _ any) (bool, any) {
			if left--; left < 0 {
				return false, state
			}
			s := state.(record)
			ok := s.step(input.(*Event), r)
			return ok, s
		},
	}
	return porcupine.CheckOperations(model, operations), left >= 0
}

// shortest cuts a history that is not linearizable at the first answer that cannot be explained. It returns the last events before that
// answer, and all that were under way at the same time as it, however long ago they began: one of those may explain it.
func shortest(operations []*Event, r Rules) History {
	h := copies(operations)
	slices.SortStableFunc(h, func(a, b Event) int { return cmp.Compare(returned(&a), returned(&b)) })
	bad := func(n int) bool {
		var cut []*Event
		for i := range h[:n] {
			cut = append(cut, &h[i])
		}
		for _, e := range h[n:] { // what had been asked by then may have taken effect
			if e.At < returned(&h[n-1]) {
				e.Result, e.Until = Unknown, Never
				cut = append(cut, &e)
			}
		}
		ok, checked := linearizable(cut, r)
		return checked && !ok
	}
	low, high := 0, len(h)
	for high-low > 1 {
		if middle := (low + high) / 2; bad(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	const most = 12
	cut, failing := h[:high].byBegin(), h[high-1]
	from := cut[max(0, len(cut)-most)].At
	return slices.DeleteFunc(h.byBegin(), func(e Event) bool {
		before := e.At >= from && returned(&e) <= returned(&failing)
		meanwhile := e.At <= returned(&failing) && returned(&e) >= failing.At
		return !before && !meanwhile
	})
}

func returned(e *Event) time.Duration {
	if e.Result == Unknown || e.Until == 0 {
		return Never
	}
	return e.Until
}

// A record is the model: what a store that keeps the laws remembers of one name. Because an operation takes effect at some
// instant between call and return, instants are known within bounds.
type record struct {
	now    time.Duration // the last operation took effect at this instant or later
	token  int64         // of the last grant; 0 if there was none; while open that of one before it
	open   bool          // the token of the last grant was not told
	top    int64         // the greatest token so far: the next grant has a greater one
	holder string
	live   bool          // the last grant has not been released
	soon   time.Duration // the lease or linger ends at this instant or later
	late   time.Duration // and at this one or sooner
	has    contents
	keep   time.Duration // the mark and the state are remembered until this instant at least
}

// sweep lets the record be forgotten by a sweep until an instant, if it need not be kept until then, and its last grant was released. The token is
// not forgotten. A sweep without an answer may take effect at any time, but an operation sees only what took effect before it.
func (s *record) sweep(sweeps []Span, to time.Duration) {
	if s.live || s.keep == Never || s.has.maybe(content.none) {
		return
	}
	may := max(s.keep, s.soon)
	for _, w := range sweeps {
		if w.From <= to && min(w.To, to) >= may {
			s.has.add(content{since: max(w.From, may)})
		}
	}
}

// step takes one operation and reports whether the record can have answered so.
func (s *record) step(e *Event, r Rules) bool {
	from, to := max(s.now, e.At), returned(e)
	if from > to {
		return false
	}
	s.now = from
	s.has.until(to)
	s.sweep(r.sweeps, to)
	answers := s.decide(e, to, r)
	s.now = max(s.now, s.has.since())
	s.has.passed(s.now)
	return answers
}

// decide is step within known instants.
func (s *record) decide(e *Event, to time.Duration, r Rules) bool {
	ttl := func(d time.Duration, factor float64) time.Duration { return time.Duration(float64(d) * factor) }
	decided := s.now
	// A store may read its clock as soon as a request has arrived, decide later, when a row's lock is free, and show others the effect when it has
	// been written to a slow disk. Where the store was watched it is known when it decided, and it must count from there.
	if e.Did == "" {
		decided = e.At
	}
	ends := func(d time.Duration) (soon, late time.Duration) {
		soon = decided + ttl(d, 1-r.Drift)
		if late = Never; to < Never-2*d && (d == 0 || !r.Clockless) {
			late = to + ttl(d, 1+r.Drift)
		}
		return soon, late
	}
	switch e.Kind {
	case Acquire:
		return s.acquire(e, to, r, ends)
	case Extend:
		return s.extend(e, to, decided, r, ends)
	case Release:
		return s.release(e, to, decided, r, ends)
	}
	return true
}

// taken reports whether the name may be had by somebody now.
func (s *record) taken() bool { return s.takenAt(s.now) }

// takenAt reports whether the name could be had by somebody at an instant, since which nobody else was granted it.
func (s *record) takenAt(at time.Duration) bool { return at <= s.late && s.late > 0 }

// waits lets the lease or linger end before the operation, if that can be.
func (s *record) waits(to time.Duration) bool {
	if to < s.soon {
		return false
	}
	s.now = max(s.now, s.soon)
	return true
}

func (s *record) acquire(e *Event, to time.Duration, r Rules, ends func(time.Duration) (soon, late time.Duration)) bool {
	mine := s.live && s.holder == e.Holder && s.taken()
	refuses := func(c content) bool { return e.Mark != 0 && c.mark >= e.Mark }
	lets := func(c content) bool { return !refuses(c) }
	switch e.Result { // a repeated claim that nobody was told of may have waited until the lease ended, and be a new grant
	case Held:
		if !s.taken() || mine && to < s.soon || !s.has.only(lets) {
			return false
		}
		return e.Token == 0 || s.learn(e.Token, r)
	case Done: // who holds the name is told so, whatever the mark; a negative mark only looks
		if mine && to < s.soon && e.Mark > 0 {
			return false
		}
		return s.has.only(func(c content) bool {
			return refuses(c) && (e.Seen == unseen || e.Seen == c.mark && e.State == c.state)
		})
	case Granted:
		if e.Seen != unseen && !s.has.only(func(c content) bool { return e.Seen == c.mark && e.State == c.state }) {
			return false
		}
		if mine && s.may(e.Token) {
			s.known(e.Token)
			return true
		}
	}
	if !s.has.maybe(lets) || !s.waits(to) {
		return e.Result == Unknown
	}
	if e.Result == Granted {
		if e.Token <= s.top {
			return false
		}
		s.known(e.Token)
	} else {
		s.open = true
	}
	s.has.only(lets)
	s.holder, s.live = e.Holder, true
	s.soon, s.late = ends(e.TTL)
	return true
}

// A content is what a record remembers beside its token.
type content struct {
	mark  int64
	state uint64
	since time.Duration // it cannot be there before this instant, at which it may have been forgotten
}

func (c content) none() bool { return c.mark == 0 && c.state == 0 }

// contents are those that the record may have: nobody need have been told whether it has been forgotten, and what was written since then.
type contents struct {
	all [4]content
	n   int
}

func (c *contents) maybe(such func(content) bool) bool { return slices.ContainsFunc(c.all[:c.n], such) }

// only leaves the contents that are such. If none is, it reports false and leaves all.
func (c *contents) only(such func(content) bool) bool {
	if !c.maybe(such) {
		return false
	}
	some := contents{}
	for _, one := range c.all[:c.n] {
		if such(one) {
			some.add(one)
		}
	}
	*c = some
	return true
}

// until leaves those that can be there at an instant, which is not before since.
func (c *contents) until(at time.Duration) {
	c.only(func(one content) bool { return one.since <= at })
}

// since is the first instant at which one of them can be there.
func (c *contents) since() time.Duration {
	first := Never
	for _, one := range c.all[:c.n] {
		first = min(first, one.since)
	}
	return first
}

// passed forgets since when those can be there that can by now: it makes no difference any more, and the fewer states there are, the sooner an order is found.
func (c *contents) passed(now time.Duration) {
	for i := range c.all[:c.n] {
		if one := &c.all[i]; one.since <= now {
			one.since = 0
		}
	}
}

// add adds one. More than there is room for, which would take as many sweeps that nobody was told of, replace the last.
func (c *contents) add(one content) {
	for i := range c.n {
		if same := &c.all[i]; same.mark == one.mark && same.state == one.state {
			same.since = min(same.since, one.since)
			return
		}
	}
	c.n = min(c.n+1, len(c.all))
	c.all[c.n-1] = one
}

// write takes over the mark and the state that a write leaves.
func (c *contents) write(e *Event) {
	written := contents{}
	for _, one := range c.all[:c.n] {
		one.mark = max(one.mark, e.Mark)
		switch e.State {
		case 0:
		case cleared:
			one.state = 0
		default:
			one.state = e.State
		}
		written.add(one)
	}
	*c = written
}

// known sets the token of the last grant.
func (s *record) known(token int64) {
	s.token, s.open, s.top = token, false, max(s.top, token)
}

// learn takes over a token that a refusal tells. Where there is no clock, the token of a new record is raised above those that were forgotten before it
// is granted, and a refusal may tell any lower one.
func (s *record) learn(token int64, r Rules) bool {
	if r.Clockless {
		return s.open || token <= s.top
	}
	if !s.may(token) {
		return false
	}
	s.known(token)
	return true
}

// may reports whether the last grant can have a token.
func (s *record) may(token int64) bool {
	if s.open {
		return token > s.top
	}
	return s.token == token
}

// matches reports whether an operation may mean the last grant, and whether it must. Where there is no clock, a token that was not told may be any
// (its holder may have seen it before it was raised), and the operation may as well mean an earlier grant of the same holder.
func (s *record) matches(e *Event, r Rules) (may, must bool) {
	switch {
	case s.holder != e.Holder:
		return false, false
	case s.open && r.Clockless:
		return true, false
	}
	return s.may(e.Token), s.may(e.Token)
}

func (s *record) extend(e *Event, to, decided time.Duration, r Rules, ends func(time.Duration) (soon, late time.Duration)) bool {
	may, must := s.matches(e, r)
	switch {
	case e.Result == Lost:
		return !must || !s.live || s.waits(to)
	case !may || !s.live || !s.takenAt(decided):
		return e.Result == Unknown
	}
	s.known(e.Token)
	soon, late := ends(e.TTL)
	s.soon, s.late = max(s.soon, soon), max(s.late, late)
	s.has.write(e)
	return true
}

func (s *record) release(e *Event, to, decided time.Duration, r Rules, ends func(time.Duration) (soon, late time.Duration)) bool {
	may, must := s.matches(e, r)
	done := func(c content) bool { return c.mark >= e.Mark }
	again := must && !s.live && s.has.maybe(done)
	switch {
	case e.Result == Lost && again: // a record that leaves nothing to remember may have been forgotten
		return s.has.only(content.none)
	case e.Result == Lost:
		return !must || !s.live || s.waits(to)
	case again:
		return s.has.only(done)
	case !may || !s.live || !s.takenAt(decided):
		return e.Result == Unknown
	}
	s.known(e.Token)
	s.live = false
	s.has.write(e)
	if s.keep = Never; e.Retain < Never-s.now {
		s.keep = s.now + e.Retain
	}
	s.soon, s.late = ends(e.Linger)
	return true
}
