package storetest

import (
	"bytes"
	"fmt"

	"github.com/soloist-dev/soloist/store"
)

var stateLaws = []law{
	{name: "state-is-left", check: stateIsLeft,
		rule: "The state that a holder leaves, by extension or release, comes with the next grant and in List."},
	{name: "state-nil-leaves", check: stateNilLeaves,
		rule: "A nil state leaves the record's state as it is."},
	{name: "state-empty-clears", check: stateEmptyClears,
		rule: "An empty state clears the record's state."},
	{name: "state-survives-expiry", check: stateSurvivesExpiry,
		rule: "The state and mark that a holder left by extension outlive its lease."},
	{name: "state-round-trip", check: stateRoundTrip,
		rule: "A state of any bytes, up to 64 KiB, comes back as it was."},
	{name: "state-not-aliased", check: stateNotAliased,
		rule: "A store keeps none of the caller's slices and hands out none of its slices."},
}

func (s *subject) hasState(name, want string) {
	if r := s.record(name); string(r.State) != want {
		s.fail(fmt.Sprintf("state %.60q", r.State), "%.60q", want)
	}
}

// writes returns both ways to store a state with a lease. The second one ends the lease.
func (s *subject) writes() []func(lease, []byte) {
	return []func(lease, []byte){
		func(l lease, state []byte) {
			e := l.extension(hour)
			e.State = state
			s.extended(e)
		},
		func(l lease, state []byte) { s.released(l.leaving(0, state)) },
	}
}

func stateIsLeft(s *subject) {
	name := s.name()
	a := s.take(name, "a", hour)
	if len(a.State) > 0 {
		s.fail(fmt.Sprintf("state %q on the first grant", a.State), "none")
	}
	for i, write := range s.writes() {
		want := fmt.Sprintf("state %d", i)
		write(a, []byte(want))
		s.hasState(name, want)
	}
	if b := s.take(name, "b", hour); string(b.State) != "state 1" {
		s.fail(fmt.Sprintf("state %q in the grant", b.State), "%q", "state 1")
	}
}

func stateNilLeaves(s *subject) {
	l := s.take(s.name(), "a", hour)
	write := s.writes()
	write[0](l, []byte("state"))
	for _, w := range write {
		w(l, nil)
		s.hasState(l.name, "state")
	}
	if b := s.take(l.name, "b", hour); string(b.State) != "state" {
		s.fail(fmt.Sprintf("state %q in the grant", b.State), "%q", "state")
	}
}

func stateEmptyClears(s *subject) {
	l := s.take(s.name(), "a", hour)
	write := s.writes()
	for _, w := range write {
		write[0](l, []byte("state"))
		w(l, []byte{})
		s.hasState(l.name, "")
	}
	if b := s.take(l.name, "b", hour); len(b.State) > 0 {
		s.fail(fmt.Sprintf("state %q in the grant", b.State), "none")
	}
}

func stateSurvivesExpiry(s *subject) {
	name := s.name()
	s.released(s.take(name, "a", hour).ending())
	s.abandoned(name, "a")
	if b := s.take(name, "b", hour); b.Mark != 4 || string(b.State) != "left by the dead" {
		s.fail(fmt.Sprintf("mark %d, state %q in the grant", b.Mark, b.State), "mark 4, state %q", "left by the dead")
	}
}

func stateRoundTrip(s *subject) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, state := range [][]byte{
		every,
		{0},
		bytes.Repeat([]byte{0}, 100),
		bytes.Repeat([]byte{0xff}, 1000),
		[]byte("  trailing space, newline \r\n"),
		[]byte(`{"json": "with \u0000 and 'quotes' and \\x00"}`),
		bytes.Repeat(every, store.MaxState/len(every)),
	} {
		l := s.take(s.name(), "a", hour)
		for _, write := range s.writes() {
			write(l, state)
			s.hasState(l.name, string(state))
		}
		if b := s.take(l.name, "b", hour); !bytes.Equal(b.State, state) {
			s.fail(fmt.Sprintf("%d bytes %.40q in the grant", len(b.State), b.State), "%d bytes %.40q", len(state), state)
		}
		if r := s.done(marked(l.name, "c", -1)); !bytes.Equal(r.State, state) {
			s.fail(fmt.Sprintf("%d bytes %.40q in the refusal", len(r.State), r.State), "%d bytes %.40q", len(state), state)
		}
	}
}

func stateNotAliased(s *subject) {
	l := s.take(s.name(), "a", hour)
	for _, write := range s.writes() {
		given := []byte("state")
		write(l, given)
		given[0] = 'X'
		s.did("changed the slice that was given")
		s.hasState(l.name, "state")
	}
	s.record(l.name).State[0] = 'X'
	s.did("changed the slice that List gave")
	s.hasState(l.name, "state")
	s.done(marked(l.name, "b", -1)).State[0] = 'X'
	s.did("changed the slice of the refusal")
	s.hasState(l.name, "state")
	for range 2 { // the grant, and the same grant again
		b := s.take(l.name, "b", hour)
		if string(b.State) != "state" {
			s.fail(fmt.Sprintf("state %q in the grant", b.State), "%q", "state")
		}
		b.State[0] = 'X'
		s.did("changed the slice of the grant")
		s.hasState(l.name, "state")
	}
}
