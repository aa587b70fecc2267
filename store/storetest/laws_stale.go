package storetest

import (
	"bytes"
	"fmt"
	"time"
)

var staleLaws = []law{
	{name: "stale-after-expiry", check: staleAfterExpiry,
		rule: "After its lease expired a holder can neither extend nor release it, even if nobody has taken the name."},
	{name: "stale-never-revives", check: staleNeverRevives,
		rule: "An extension of a lease that has ended does not bring it back."},
	{name: "stale-after-successor", check: staleAfterSuccessor,
		rule: "A stale holder can neither prolong, nor free, nor write over the lease of its successor."},
	{name: "stale-after-release", check: staleAfterRelease,
		rule: "An extension after the release is ErrLost and does not take the name again."},
	{name: "stale-holder-and-token", check: staleHolderAndToken,
		rule: "A verb names its lease by holder and token: when one of them is another's, it is ErrLost and changes nothing."},
	{name: "stale-no-record", check: staleNoRecord,
		rule: "A verb on a name that nobody has ever taken is ErrLost and makes no record."},
}

func staleAfterExpiry(s *subject) {
	s.refusesStale(s.abandoned(s.name(), "a"))
}

// refusesStale checks that neither verb works on a lease, whatever its arguments, and that the record stays unchanged.
func (s *subject) refusesStale(l lease) {
	before, there := s.look(l.name)
	for _, state := range [][]byte{nil, []byte("stale"), {}} {
		e := l.extension(hour)
		e.Mark, e.State = 7, state
		s.lost(s.extend(e))
		r := l.leaving(7, state)
		r.Linger = hour
		s.lost(s.release(r))
	}
	after, still := s.look(l.name)
	if there != still {
		s.fail(fmt.Sprintf("a record: %t", still), "as before: %t", there)
	}
	s.same(before, after)
	if after.Left > before.Left {
		s.fail(fmt.Sprintf("left %v", after.Left), "no more than before: %v", before.Left)
	}
	if before.Left > minute && after.Left < before.Left-minute {
		s.fail(fmt.Sprintf("left %v", after.Left), "about as before: %v", before.Left)
	}
}

func staleNeverRevives(s *subject) {
	name := s.name()
	l := s.abandoned(name, "a")
	s.lost(s.extend(l.extension(hour)))
	if r := s.record(name); !r.Free() {
		s.fail("a record with "+sketch(r), "a free one")
	}
	if b := s.take(name, "b", hour); b.Token <= l.Token {
		s.fail(fmt.Sprintf("token %d", b.Token), "one greater than %d", l.Token)
	}
}

func staleAfterSuccessor(s *subject) {
	name := s.name()
	a := s.take(name, "a", s.h.TTL)
	s.free(name)
	b := s.take(name, "b", hour)
	s.refusesStale(a)
	e := b.extension(hour)
	e.Mark, e.State = 2, []byte("b's")
	s.extended(e)
	s.refusesStale(a)
	s.released(b.ending())
	s.refusesStale(a)
	if c := s.take(name, "c", hour); c.Mark != 2 || !bytes.Equal(c.State, e.State) {
		s.fail(fmt.Sprintf("mark %d, state %q", c.Mark, c.State), "mark 2, state %q: what b left", e.State)
	}
	s.refusesStale(b)
}

func staleAfterRelease(s *subject) {
	for _, linger := range []time.Duration{0, hour} {
		l := s.take(s.name(), "a", hour)
		r := l.ending()
		r.Linger = linger
		s.released(r)
		before := s.record(l.name)
		e := l.extension(2 * hour)
		e.Mark, e.State = 7, []byte("late")
		s.lost(s.extend(e))
		after := s.record(l.name)
		s.same(before, after)
		if after.Left > before.Left {
			s.fail(fmt.Sprintf("left %v", after.Left), "no more than before: %v", before.Left)
		}
	}
}

func staleHolderAndToken(s *subject) {
	name := s.name()
	old := s.take(name, "a", hour)
	s.released(old.ending())
	l := s.take(name, "a", hour)
	for _, wrong := range []struct {
		holder string
		token  int64
	}{{"b", l.Token}, {"A", l.Token}, {"a", l.Token + 1}, {"a", old.Token}, {"b", l.Token + 1}} {
		bent := l
		bent.holder, bent.Token = wrong.holder, wrong.token
		s.refusesStale(bent)
	}
	s.extended(l.extension(hour))
	s.released(l.ending())
}

func staleNoRecord(s *subject) {
	l := lease{name: s.name(), holder: "a"}
	l.Token = 1
	s.refusesStale(l)
	if records := s.records(""); len(records) > 0 {
		s.fail(fmt.Sprintf("%d records", len(records)), "none: nothing has been granted")
	}
}
