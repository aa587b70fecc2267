package storetest

import (
	"errors"
	"fmt"
	"math"
	"time"

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
	{name: "token-time", needs: []need{timed}, check: tokenTime,
		rule: "A token is at least the time of its grant in microseconds since 1970, however the name was granted."},
	{name: "token-above", needs: []need{raises}, check: tokenAbove,
		rule: "The token of a new grant is greater than the claim's Above, and later tokens are greater than that token."},
	{name: "token-above-sweep", needs: []need{raises, sweeps}, check: tokenAboveSweep,
		rule: "Tokens of a name go on growing after a record whose token was raised was forgotten, whatever is forgotten with it and after it."},
	{name: "token-above-again", needs: []need{raises}, check: tokenAboveAgain,
		rule: "Above does not change a grant that the holder already has."},
	{name: "token-above-batch", needs: []need{raises}, check: tokenAboveBatch,
		rule: "Each claim of a batch has its own Above."},
	{name: "token-above-all", needs: []need{raises}, check: tokenAboveAll,
		rule: "A claim above the greatest number is ErrTokens, and changes nothing."},
	{name: "token-greatest", needs: []need{raises, sweeps}, check: tokenGreatest,
		rule: "A record that has the greatest token harms its own name only, whatever may be forgotten of it: other names are granted, chosen and forgotten still."},
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

// sweepAway releases leases and makes the store forget their records.
func (s *subject) sweepAway(leases ...lease) {
	for _, l := range leases {
		r := l.ending()
		r.Retain = 0
		s.released(r)
	}
	for _, l := range leases {
		s.forgotten(l.name)
		s.did("swept until %q was forgotten", l.name)
	}
}

// sweep makes the store forget what it may forget, if it can do that on request.
func (s *subject) sweep(limit int) int {
	sweeper, ok := store.As[store.Sweeper](s.Store)
	if !ok {
		return 0
	}
	s.caughtUp()
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

func tokenTime(s *subject) {
	now := func() int64 {
		time.Sleep(time.Millisecond) // so that a token that is counted on is behind
		return time.Now().UnixMicro()
	}
	timely := func(from int64, l lease) lease {
		if l.Token < from {
			s.fail(fmt.Sprintf("token %d", l.Token), "one that is not less than %d, the time before the request", from)
		}
		return l
	}
	name := s.name()
	from := now()
	made := timely(from, s.take(name, "a", hour))
	s.released(made.ending())

	from = now()
	timely(from, s.take(name, "b", s.h.TTL))
	s.free(name)
	from = now()
	expired := timely(from, s.take(name, "c", hour))

	if sweeps(s.h, s.Store) == "" {
		s.sweepAway(expired)
		from = now()
		expired = timely(from, s.take(name, "d", hour))
	}
	if queues(s.h, s.Store) == "" {
		s.stands(name, "e")
		waiting := s.waits(claim(name, "e", hour))
		from = now()
		s.released(expired.ending())
		handed, _ := s.served(waiting, name, "e")
		timely(from, handed)
	}
	if chooses(s.h, s.Store) == "" {
		other := s.name()
		for range 2 {
			from = now()
			s.released(timely(from, s.chosen([]string{other}, "f", 0)).ending())
		}
	}
}

// ahead is a token that no clock has reached yet, and that every store can keep.
const ahead = int64(1) << 52

func above(name, holder string, token int64) store.Claim {
	c := claim(name, holder, hour)
	c.Above = token
	return c
}

func tokenAbove(s *subject) {
	for _, known := range []bool{false, true} {
		name := s.name()
		if known {
			s.released(s.take(name, "before", hour).leaving(3, []byte("left")))
		}
		first := s.granted(above(name, "a", ahead))
		s.grown(lease{Grant: store.Grant{Token: ahead}}, first)
		if known && (first.Mark != 3 || string(first.State) != "left") {
			s.fail(answer(store.Outcome{Grant: first.Grant}), "mark 3, state \"left\"")
		}
		s.released(first.ending())
		second := s.granted(above(name, "b", 5))
		s.grown(first, second)
		s.released(second.ending())
		s.grown(second, s.take(name, "c", hour))
	}
}

func tokenAboveSweep(s *subject) {
	name := s.name()
	first := s.granted(above(name, "a", ahead))
	s.sweepAway(first)
	s.grown(first, s.take(name, "b", hour))

	for _, together := range []bool{true, false} {
		for high := range 2 { // in the order of the names, too
			names := []string{s.name(), s.name()}
			low := s.take(names[1-high], "a", hour)
			raised := s.granted(above(names[high], "a", low.Token+1000))
			if together {
				s.sweepAway(low, raised)
			} else {
				s.sweepAway(raised)
				s.sweepAway(low)
			}
			s.grown(raised, s.take(raised.name, "b", hour))
		}
	}
}

func tokenAboveAgain(s *subject) {
	name := s.name()
	first := s.take(name, "a", hour)
	if again := s.granted(above(name, "a", ahead)); again.Token != first.Token {
		s.fail(fmt.Sprintf("token %d", again.Token), "token %d, that of the grant", first.Token)
	}
	s.held(above(name, "b", ahead))
	s.extended(first.extension(hour))
	s.released(first.ending())
}

func tokenAboveBatch(s *subject) {
	known := s.name()
	s.released(s.take(known, "before", hour).ending())
	claims := []store.Claim{above(s.name(), "a", ahead), above(known, "a", ahead+100), claim(s.name(), "a", hour), above(s.name(), "a", ahead+50)}
	s.did("Acquire 4 names, each above another token")
	out, err := s.Acquire(s.ctx, claims)
	if err != nil || len(out) != len(claims) {
		s.fail(fmt.Sprintf("%d outcomes, error %s", len(out), tell(err)), "%d outcomes, error nil", len(claims))
	}
	for i, c := range claims {
		if out[i].Err != nil || out[i].Grant.Token <= c.Above {
			s.fail(answer(out[i]), "a grant of the name %d with a token greater than %d", i, c.Above)
		}
	}
}

func tokenAboveAll(s *subject) {
	for _, known := range []bool{false, true} {
		name := s.name()
		if known {
			s.released(s.take(name, "before", hour).ending())
		}
		if out := s.acquire(above(name, "a", math.MaxInt64)); !errors.Is(out.Err, store.ErrTokens) {
			s.fail(answer(out), "ErrTokens")
		}
		s.take(name, "b", hour)
	}
}

func tokenGreatest(s *subject) {
	// The greatest that the store gives: one that counts in numbers of double precision has fewer, and a store of two asks the second for one more than the first.
	var spoiled lease
	for _, most := range []int64{math.MaxInt64, math.MaxInt64 - 1, 1<<53 - 1, 1<<53 - 2} {
		c := above(s.name(), "a", most-1)
		if out := s.acquire(c); out.Err == nil {
			spoiled = lease{out.Grant, c.Name, c.Holder}
			break
		} else if !errors.Is(out.Err, store.ErrTokens) {
			s.fail(answer(out), "a grant, or ErrTokens")
		}
	}
	s.grown(lease{Grant: store.Grant{Token: 1<<53 - 3}}, spoiled)
	s.released(spoiled.retaining(0, 0, ""))
	for range 2 {
		s.sweepAway(s.take(s.name(), "a", hour))
	}
	handles := []*subject{s}
	if s.h.Reopen != nil {
		handles = append(handles, s.reopen()) // which has not seen the name
	}
	for _, h := range handles {
		if out := h.acquire(claim(spoiled.name, "b", hour)); !errors.Is(out.Err, store.ErrTokens) {
			s.fail(answer(out), "ErrTokens: no token of %q is greater", spoiled.name)
		}
	}
	if c, ok := store.As[store.Chooser](s.Store); ok {
		other := s.name()
		for _, holder := range []string{"b", "c"} {
			i, grant, err := c.Choose(s.ctx, []string{spoiled.name, other}, claim("", holder, hour))
			s.did("%sChoose of %q, which has no tokens left, and %q for %q: %d, %s", s.label, spoiled.name, other, holder, i, answer(store.Outcome{Grant: grant, Err: err}))
			switch {
			case errors.Is(err, errors.ErrUnsupported):
				return
			case holder == "b" && (err != nil || i != 1):
				s.fail(fmt.Sprintf("index %d, error %s", i, tell(err)), "a grant of %q", other)
			case holder == "c" && !errors.Is(err, store.ErrHeld):
				s.fail(fmt.Sprintf("index %d, error %s", i, tell(err)), "ErrHeld: %q will be free", other)
			}
		}
		if _, _, err := c.Choose(s.ctx, []string{spoiled.name}, claim("", "d", hour)); !errors.Is(err, store.ErrTokens) {
			s.fail(tell(err), "ErrTokens: there is no other name")
		}
	}
}
