package storetest

import (
	"errors"
	"fmt"

	"github.com/soloist-dev/soloist/store"
)

var tokenLaws = []law{
	{name: "token-positive", check: tokenPositive,
		rule: "Every token is greater than 0."},
	{name: "token-over-release", check: tokenOverRelease,
		rule: "Tokens of a name grow from grant to grant over releases."},
	{name: "token-over-expiry", check: tokenOverExpiry,
		rule: "Tokens of a name grow from grant to grant over expiries."},
	{name: "token-over-sweep", needs: []need{sweeps}, check: tokenOverSweep,
		rule: "Tokens of a name go on growing after its record was forgotten."},
	{name: "token-over-reopening", needs: []need{reopening}, check: tokenOverReopening,
		rule: "Tokens of a name go on growing when the store is closed and opened again."},
}

func tokenPositive(s *subject) {
	for range 3 {
		if l := s.take(s.name(), "a", hour); l.Token <= 0 {
			s.fail(fmt.Sprintf("token %d", l.Token), "one greater than 0")
		}
	}
}

// grown checks the token of a grant against that of an earlier one.
func (s *subject) grown(earlier, later lease) {
	if later.Token <= earlier.Token {
		s.fail(fmt.Sprintf("token %d", later.Token), "one greater than %d, the token of an earlier grant", earlier.Token)
	}
}

func tokenOverRelease(s *subject) {
	name := s.name()
	last := lease{}
	for i := range 20 {
		l := s.take(name, fmt.Sprintf("holder %d", i%3), hour)
		s.grown(last, l)
		s.released(l.ending())
		last = l
	}
}

func tokenOverExpiry(s *subject) {
	name := s.name()
	last := lease{}
	for _, holder := range []string{"a", "b", "b"} {
		l := s.take(name, holder, s.h.TTL)
		s.grown(last, l)
		s.free(name)
		last = l
	}
}

func tokenOverSweep(s *subject) {
	name, other := s.name(), s.name()
	last := lease{}
	for range 5 {
		l := s.take(name, "a", hour)
		s.grown(last, l)
		s.sweepAway(l)
		last = l
		// Another name is forgotten meanwhile, with a token that may be smaller or greater.
		s.sweepAway(s.take(other, "a", hour))
	}
}

// sweepAway releases a lease and makes the store forget its record.
func (s *subject) sweepAway(l lease) {
	r := l.ending()
	r.Retain = 0
	s.released(r)
	s.until(fmt.Sprintf("a sweep forgets %q", l.name), func() bool {
		s.sweep(100)
		_, there := s.look(l.name)
		return !there
	})
	s.did("swept until %q was forgotten", l.name)
}

// sweep makes the store forget what it may forget, if it can do that on request.
func (s *subject) sweep(limit int) int {
	sweeper, ok := store.As[store.Sweeper](s.Store)
	if !ok {
		return 0
	}
	n, err := sweeper.Sweep(s.ctx, limit)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		s.did("%sSweep, limit %d", s.label, limit)
		s.fail(err, "a sweep that ends well")
	}
	return n
}

func tokenOverReopening(s *subject) {
	name := s.name()
	last := lease{}
	for range 3 {
		l := s.take(name, "a", hour)
		s.grown(last, l)
		s.released(l.ending())
		last = l
		next := s.reopen()
		s.close()
		s = next
	}
	s.grown(last, s.take(name, "a", hour))
}
