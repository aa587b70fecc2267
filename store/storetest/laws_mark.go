package storetest

import (
	"fmt"
	"math"
)

var markLaws = []law{
	{name: "mark-refuses", check: markRefuses,
		rule: "A claim whose mark the record has reached is refused with a *DoneError; a greater mark, or 0, is not."},
	{name: "mark-only-grows", check: markOnlyGrows,
		rule: "Extensions and releases raise the mark of a record and never lower it."},
	{name: "mark-negative-reads", check: markNegativeReads,
		rule: "A negative mark is always refused with the record in the *DoneError, and makes no record where there is none."},
	{name: "mark-before-held", check: markBeforeHeld,
		rule: "Whether the mark refuses a claim is decided before whether the name is held."},
	{name: "mark-after-own-lease", check: markAfterOwnLease,
		rule: "A holder that already has the name gets its grant again, whatever the mark."},
}

func markRefuses(s *subject) {
	name := s.name()
	s.released(s.granted(marked(name, "a", 10)).leaving(10, []byte("state")))
	for _, mark := range []int64{10, 9, 1} {
		r := s.done(marked(name, "b", mark))
		if r.Name != name || r.Mark != 10 || string(r.State) != "state" || r.Holder != "" || !r.Free() {
			s.fail("a refusal with "+sketch(r), "the record: free, mark 10, state %q", "state")
		}
	}
	if l := s.granted(marked(name, "b", 11)); l.Mark != 10 {
		s.fail(fmt.Sprintf("mark %d in the grant", l.Mark), "10: claiming a mark does not set it")
	} else {
		s.released(l.ending())
	}
	s.take(name, "c", hour)
}

func markOnlyGrows(s *subject) {
	l := s.take(s.name(), "a", hour)
	for _, step := range []struct{ mark, want int64 }{{5, 5}, {3, 5}, {0, 5}, {6, 6}} {
		e := l.extension(hour)
		e.Mark = step.mark
		s.extended(e)
		s.hasMark(l.name, step.want)
	}
	want := int64(6)
	for _, mark := range []int64{4, 0, 9, math.MaxInt64, 1} {
		s.released(l.leaving(mark, nil))
		want = max(want, mark)
		s.hasMark(l.name, want)
		l = s.take(l.name, "a", hour)
		if l.Mark != want {
			s.fail(fmt.Sprintf("mark %d in the grant", l.Mark), "%d", want)
		}
	}
}

func (s *subject) hasMark(name string, want int64) {
	if r := s.record(name); r.Mark != want {
		s.fail(fmt.Sprintf("mark %d", r.Mark), "%d", want)
	}
}

func markNegativeReads(s *subject) {
	name := s.name()
	for _, mark := range []int64{-1, math.MinInt64} {
		if r := s.done(marked(name, "a", mark)); r.Name != name || r.Mark != 0 || r.Holder != "" || !r.Free() || r.Token != 0 {
			s.fail("a refusal with "+sketch(r), "an empty record of %q", name)
		}
	}
	if records := s.records(""); len(records) > 0 {
		s.fail(fmt.Sprintf("%d records", len(records)), "none: the claims were refused")
	}

	s.released(s.take(name, "a", hour).leaving(0, []byte("state")))
	if r := s.done(marked(name, "b", -1)); string(r.State) != "state" || !r.Free() {
		s.fail("a refusal with "+sketch(r), "the free record, with state %q", "state")
	}
	l := s.take(name, "a", hour)
	r := s.done(marked(name, "b", -1))
	if r.Holder != "a" || r.Token != l.Token || string(r.State) != "state" || r.Left < hour-minute || r.Left > hour+minute {
		s.fail("a refusal with "+sketch(r), "the lease of %q with token %d, about %v left, state %q", "a", l.Token, hour, "state")
	}
}

func markBeforeHeld(s *subject) {
	name := s.name()
	s.released(s.take(name, "a", hour).leaving(10, nil))
	a := s.take(name, "a", hour)
	if r := s.done(marked(name, "b", 10)); r.Holder != "a" || r.Mark != 10 {
		s.fail("a refusal with "+sketch(r), "the lease of %q and mark 10", "a")
	}
	s.held(marked(name, "b", 11))
	s.held(marked(name, "b", 0))

	r := a.leaving(20, nil)
	r.Linger = hour
	s.released(r)
	s.done(marked(name, "b", 20))
	s.held(marked(name, "b", 21))
}

func markAfterOwnLease(s *subject) {
	name := s.name()
	l := s.granted(marked(name, "a", 10))
	e := l.extension(hour)
	e.Mark = 10
	s.extended(e)
	for _, mark := range []int64{10, 1, -1} {
		if again := s.granted(marked(name, "a", mark)); again.Token != l.Token || again.Mark != 10 {
			s.fail(fmt.Sprintf("token %d, mark %d", again.Token, again.Mark), "token %d, mark 10", l.Token)
		}
	}
	s.released(l.ending())
	s.done(marked(name, "a", 10))
}
