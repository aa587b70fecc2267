package storetest

import (
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// The laws about records that must be kept call Sweep if the store has it. A store whose backend forgets by itself is
// checked in the same way.
var retainLaws = []law{
	{name: "retain-forever", check: retainForever,
		rule: "A release with Retain Forever, or almost, keeps the record, even one without mark and state."},
	{name: "retain-for-a-time", check: retainForATime,
		rule: "A release with a Retain keeps mark and state for that time."},
	{name: "retain-last-release-decides", check: retainLastReleaseDecides,
		rule: "The Retain of the last release takes the place of those before it."},
	{name: "sweep-forgets-released", needs: []need{sweeps}, check: sweepForgetsReleased,
		rule: "A sweep forgets a released record, with its mark and state, once its Retain is over, and returns how many it forgot."},
	{name: "sweep-keeps-taken", needs: []need{sweeps}, check: sweepKeepsTaken,
		rule: "A sweep never forgets a name that is live or lingers, whatever its Retain."},
	{name: "sweep-keeps-abandoned", needs: []need{sweeps}, check: sweepKeepsAbandoned,
		rule: "A sweep never forgets a record whose last grant was not released, and the next grant reports that it expired."},
	{name: "sweep-limit", needs: []need{sweeps}, check: sweepLimit,
		rule: "A sweep forgets at most as many records as it is asked to."},
}

func (l lease) retaining(retain time.Duration, mark int64, state string) store.Release {
	r := l.leaving(mark, []byte(state))
	r.Retain = retain
	return r
}

// kept sweeps and checks that the record of a name still exists, unchanged.
func (s *subject) kept(before store.Record) {
	s.sweep(1000)
	s.did("swept, if the store can")
	s.same(before, s.record(before.Name))
}

func retainForever(s *subject) {
	plain, full, almost := s.name(), s.name(), s.name()
	s.released(s.take(plain, "a", hour).ending())
	s.released(s.take(full, "a", hour).retaining(store.Forever, 5, "state"))
	s.released(s.take(almost, "a", hour).retaining(store.Forever-1, 5, "state")) // an instant that numbers may not reach
	one, two, three, four := s.record(plain), s.record(full), s.record(almost), s.retainedInTime(store.Forever)
	time.Sleep(2 * s.h.TTL)
	s.kept(one)
	s.kept(two)
	s.kept(three)
	s.kept(four)
}

// retainedInTime returns a record that was released within a short TTL: when the TTL is over, a store may check whether
// to forget it.
func (s *subject) retainedInTime(retain time.Duration) store.Record {
	name := s.name()
	s.until("a lease is released within its TTL", func() bool {
		return s.release(s.take(name, "a", s.h.TTL).retaining(retain, 5, "state")) == nil
	})
	return s.record(name)
}

func retainForATime(s *subject) {
	long := s.name()
	s.released(s.take(long, "a", hour).retaining(hour, 5, "state"))
	before, short := s.record(long), s.retainedInTime(hour)
	s.timely(func(name string, retain time.Duration) bool {
		l := s.take(name, "a", hour)
		start := time.Now()
		s.released(l.retaining(retain, 5, "state"))
		for {
			time.Sleep(retain / 4)
			s.sweep(1000)
			r, there := s.look(name)
			switch passed := time.Since(start); {
			case passed >= retain-retain/10:
				return false
			case !there || r.Mark != 5 || string(r.State) != "state":
				s.fail(fmt.Sprintf("after %v, a record: %t, %s", passed, there, sketch(r)), "mark 5 and state %q for %v", "state", retain)
			case passed >= retain/2:
				return true
			}
		}
	})
	s.kept(before)
	time.Sleep(2 * s.h.TTL)
	s.kept(short)
}

func retainLastReleaseDecides(s *subject) {
	name := s.name()
	s.released(s.take(name, "a", hour).retaining(0, 0, ""))
	s.released(s.take(name, "b", hour).retaining(hour, 5, "state"))
	s.kept(s.record(name))
	s.released(s.take(name, "c", hour).retaining(0, 0, ""))
	passed := s.retainedInTime(store.Forever)
	time.Sleep(2 * s.h.TTL)
	s.kept(passed) // also after a sweep that has checked it
	s.released(s.take(passed.Name, "b", hour).retaining(0, 0, ""))
	if sweeps(s.h, s.Store) == "" {
		s.forgotten(name, passed.Name)
	}
}

// forgotten sweeps until a name is forgotten.
func (s *subject) forgotten(names ...string) {
	for _, name := range names {
		s.until(fmt.Sprintf("a sweep forgets %q", name), func() bool {
			s.sweep(1000)
			_, there := s.look(name)
			return !there
		})
	}
}

func sweepForgetsReleased(s *subject) {
	bare, full, later := s.name(), s.name(), s.name()
	s.released(s.take(bare, "a", hour).retaining(0, 0, ""))
	s.released(s.take(full, "a", hour).retaining(0, 5, "state"))
	s.released(s.take(later, "a", hour).retaining(s.h.TTL, 5, "state"))
	n := 0
	s.until("sweeps forget all three", func() bool {
		n += s.sweep(1000)
		return len(s.records("")) == 0
	})
	if n != 3 {
		s.fail(fmt.Sprintf("sweeps that said they forgot %d", n), "3")
	}
	if l := s.granted(marked(full, "b", 1)); l.Mark != 0 || len(l.State) > 0 {
		s.fail(answer(store.Outcome{Grant: l.Grant}), "a grant that knows of nothing before it")
	}
}

func sweepKeepsTaken(s *subject) {
	live, lingers, again := s.name(), s.name(), s.name()
	l := s.take(live, "a", hour)
	r := s.take(lingers, "a", hour).retaining(0, 5, "state")
	r.Linger = hour
	s.released(r)
	s.released(s.take(again, "a", hour).retaining(0, 0, ""))
	s.take(again, "b", hour)
	if n := s.sweep(1000); n != 0 {
		s.fail(fmt.Sprintf("a sweep that said it forgot %d", n), "0: one name lingers and the others are live")
	}
	s.held(claim(live, "c", hour))
	s.held(claim(lingers, "c", hour))
	s.held(claim(again, "c", hour))
	s.extended(l.extension(hour))
	s.hasMark(lingers, 5)
}

func sweepKeepsAbandoned(s *subject) {
	bare, withMark, withState, onceReleased := s.name(), s.name(), s.name(), s.name()
	s.released(s.take(onceReleased, "a", hour).retaining(0, 0, ""))
	start := time.Now()
	s.take(bare, "a", s.h.TTL)
	for _, left := range []store.Extension{{Name: withMark, Mark: 5}, {Name: withState, State: []byte("state")}, {Name: onceReleased, Mark: 5}} {
		s.until("a lease is extended within its TTL", func() bool {
			e := s.take(left.Name, "a", s.h.TTL).extension(s.h.TTL)
			e.Mark, e.State = left.Mark, left.State
			return s.extend(e) == nil
		})
	}
	var abandoned []store.Record
	for _, name := range []string{bare, withMark, withState, onceReleased} {
		s.free(name)
		abandoned = append(abandoned, s.record(name))
	}
	time.Sleep(s.h.TTL)
	for _, record := range abandoned {
		s.kept(record)
	}
	if n := s.sweep(1000); n != 0 {
		s.fail(fmt.Sprintf("a sweep that said it forgot %d", n), "0")
	}
	s.abandonedSince(start, s.take(bare, "b", hour))
}

func sweepLimit(s *subject) {
	for range 10 {
		s.released(s.take(s.name(), "a", hour).retaining(0, 0, ""))
	}
	limit := 0
	s.until("sweeps forget them all", func() bool {
		limit = limit%3 + 1 // one of them is less than what a store looks at in one step
		before := len(s.records(""))
		n := s.sweep(limit)
		after := len(s.records(""))
		if n > limit || before-after != n {
			s.fail(fmt.Sprintf("a sweep that said %d and left %d of %d records", n, after, before), "at most %d forgotten, as said", limit)
		}
		return after == 0
	})
}
