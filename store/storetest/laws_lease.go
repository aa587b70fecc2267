package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"
)

var leaseLaws = []law{
	{name: "exclusion", check: exclusion,
		rule: "A live lease refuses every other holder, and the *HeldError contains who has the name and for how long."},
	{name: "expiry-frees", check: expiryFrees,
		rule: "A lease that is neither extended nor released ends after its TTL, and another holder can take the name."},
	{name: "expiry-not-early", check: expiryNotEarly,
		rule: "A lease lives for its whole TTL."},
	{name: "expiry-abandons", check: expiryAbandons,
		rule: "A grant after an expiry reports how long ago the lease that expired was granted; a grant after a release does not."},
	{name: "reask-same-grant", check: reaskSameGrant,
		rule: "A holder that asks again for what it has gets the same token, with the mark and state of the record."},
	{name: "reask-keeps-deadline", check: reaskKeepsDeadline,
		rule: "Asking again neither prolongs nor shortens the lease."},
	{name: "reask-after-expiry", check: reaskAfterExpiry,
		rule: "Asking again after the lease has ended is a new grant with a greater token."},
	{name: "extend-prolongs", check: extendProlongs,
		rule: "An extension keeps the lease live until its TTL from then."},
	{name: "extend-never-shortens", check: extendNeverShortens,
		rule: "An extension with a TTL shorter than what is left leaves the end where it is."},
	{name: "release-frees", check: releaseFrees,
		rule: "A release without linger frees the name at once, for anybody."},
	{name: "release-again", check: releaseAgain,
		rule: "Repeating a release whose reply was lost returns nil and changes nothing while nobody else took the name."},
	{name: "release-again-after-successor", check: releaseAgainAfterSuccessor,
		rule: "Repeating a release after another holder took the name is ErrLost and leaves the successor alone."},
	{name: "release-again-higher-mark", check: releaseAgainHigherMark,
		rule: "Repeating a release with a mark higher than the record's is ErrLost: that mark was not recorded."},
}

func exclusion(s *subject) {
	name := s.name()
	l := s.take(name, "a", hour)
	r := s.held(claim(name, "b", hour))
	if r.Name != name || r.Holder != "a" || r.Token != l.Token {
		s.fail(fmt.Sprintf("a refusal about %q held by %q, token %d", r.Name, r.Holder, r.Token),
			"one about %q held by %q, token %d", name, "a", l.Token)
	}
	if r.Left < hour-minute || r.Left > hour+minute {
		s.fail(fmt.Sprintf("left %v", r.Left), "about %v", hour)
	}
	if r.State != nil {
		s.fail("a *HeldError with a state", "one without")
	}
	s.take(s.name(), "b", hour)
	s.held(claim(name, "c", hour))
}

func expiryFrees(s *subject) {
	name := s.name()
	a := s.take(name, "a", s.h.TTL)
	var b lease
	s.until("another holder gets the name after its TTL", func() bool {
		o, err := s.Acquire(s.ctx, []store.Claim{claim(name, "b", hour)})
		if err != nil || (o[0].Err != nil && !errors.Is(o[0].Err, store.ErrHeld)) {
			s.fail(fmt.Sprint(o, err), "a grant or a *HeldError")
		}
		b = lease{o[0].Grant, name, "b"}
		return o[0].Err == nil
	})
	s.did("asked for %q as \"b\" until granted", name)
	if b.Token == a.Token {
		s.fail(fmt.Sprintf("token %d again", b.Token), "its own token")
	}
	s.extended(b.extension(hour))
}

func expiryNotEarly(s *subject) {
	s.timely(func(name string, ttl time.Duration) bool {
		start := time.Now()
		s.take(name, "a", ttl)
		judged := false
		for {
			time.Sleep(ttl / 16)
			o := s.acquire(claim(name, "b", hour))
			passed := time.Since(start)
			if passed >= ttl-ttl/10 { // a tenth for the resolution of clocks
				return judged
			}
			if o.Err == nil {
				s.fail(fmt.Sprintf("granted to another after %v", passed), "refused for %v", ttl)
			}
			judged = passed >= ttl/2
		}
	})
}

func expiryAbandons(s *subject) {
	name := s.name()
	first := s.take(name, "a", hour)
	if first.ExpiredAge != 0 {
		s.fail(fmt.Sprintf("ExpiredAge %v on the first grant", first.ExpiredAge), "0")
	}
	s.released(first.ending())
	start := time.Now()
	s.abandoned(name, "a")
	b := s.take(name, "b", hour)
	s.abandonedSince(start, b)
	if again := s.take(name, "b", hour); again.ExpiredAge != 0 {
		s.fail(fmt.Sprintf("ExpiredAge %v on asking again", again.ExpiredAge), "0")
	}
	s.released(b.ending())
	if c := s.take(name, "c", hour); c.ExpiredAge != 0 {
		s.fail(fmt.Sprintf("ExpiredAge %v on a grant after a release", c.ExpiredAge), "0")
	}
}

// abandonedSince checks the ExpiredAge of a grant after an abandoned lease that began after start.
func (s *subject) abandonedSince(start time.Time, l lease) {
	if most := time.Since(start) * 11 / 10; l.ExpiredAge < s.h.TTL*9/10 || l.ExpiredAge > most+time.Second {
		s.fail(fmt.Sprintf("ExpiredAge %v", l.ExpiredAge), "between the TTL of %v and %v ago", s.h.TTL, most)
	}
}

func reaskSameGrant(s *subject) {
	name := s.name()
	s.released(s.take(name, "a", hour).leaving(3, []byte("left by a")))
	first := s.take(name, "b", hour)
	s.granted(claim(name, "b", hour))
	for range 2 {
		again := s.take(name, "b", hour)
		if again.Token != first.Token || again.Mark != 3 || string(again.State) != "left by a" {
			s.fail(answer(store.Outcome{Grant: again.Grant}), "token %d, mark 3, state %q", first.Token, "left by a")
		}
	}
	s.released(first.ending())
}

func reaskKeepsDeadline(s *subject) {
	name := s.name()
	s.take(name, "a", hour)
	for _, ttl := range []time.Duration{10 * hour, s.h.TTL} {
		s.take(name, "a", ttl)
		if left := s.record(name).Left; left < hour-minute || left > hour+minute {
			s.fail(fmt.Sprintf("left %v", left), "about %v, as the first answer put it", hour)
		}
	}
	name = s.name()
	first := s.take(name, "a", s.h.TTL)
	s.until("a holder that only asks again has its lease end, and gets another token", func() bool {
		again := s.take(name, "a", s.h.TTL)
		return again.Token != first.Token
	})
}

func reaskAfterExpiry(s *subject) {
	name := s.name()
	first := s.take(name, "a", s.h.TTL)
	s.free(name)
	again := s.take(name, "a", hour)
	if again.Token <= first.Token {
		s.fail(fmt.Sprintf("token %d", again.Token), "one greater than %d", first.Token)
	}
	s.held(claim(name, "b", hour))
	s.lost(s.extend(first.extension(hour)))
	s.extended(again.extension(hour))
}

func extendProlongs(s *subject) {
	s.timely(func(name string, ttl time.Duration) bool {
		start := time.Now()
		l := s.take(name, "a", ttl)
		err := s.extend(l.extension(hour))
		if time.Since(start) >= ttl/2 {
			return false
		}
		if err != nil {
			s.fail(err, "nil: the lease is live")
		}
		time.Sleep(ttl + ttl/2)
		s.did("waited for %v", ttl+ttl/2)
		if left := s.held(claim(name, "b", hour)).Left; left < hour-minute || left > hour+minute {
			s.fail(fmt.Sprintf("left %v", left), "about %v", hour)
		}
		s.extended(l.extension(hour))
		return true
	})
}

func extendNeverShortens(s *subject) {
	name := s.name()
	l := s.take(name, "a", hour)
	s.extended(l.extension(store.MinTTL))
	s.extended(l.extension(s.h.TTL))
	if left := s.record(name).Left; left < hour-minute || left > hour+minute {
		s.fail(fmt.Sprintf("left %v", left), "about %v, as before", hour)
	}
	s.extended(l.extension(2 * hour))
	s.extended(l.extension(hour))
	if left := s.record(name).Left; left < 2*hour-minute || left > 2*hour+minute {
		s.fail(fmt.Sprintf("left %v", left), "about %v, as the longer extension put it", 2*hour)
	}
}

func releaseFrees(s *subject) {
	name := s.name()
	a := s.take(name, "a", hour)
	s.released(a.ending())
	if r := s.record(name); !r.Free() || r.Holder != "" || r.Token != a.Token {
		s.fail("a record with "+sketch(r), "a free one, of nobody, with token %d", a.Token)
	}
	b := s.take(name, "b", hour)
	s.held(claim(name, "a", hour))
	s.released(b.ending())
	s.take(name, "b", hour)
}

func releaseAgain(s *subject) {
	for _, linger := range []time.Duration{0, hour} {
		name := s.name()
		first := s.take(name, "a", hour).leaving(5, []byte("first"))
		first.Linger = linger
		s.released(first)
		before := s.record(name)

		again := first
		s.released(again)
		again.Mark, again.State = 2, []byte("second")
		for _, other := range []time.Duration{2 * hour, 0} {
			again.Linger = other
			s.released(again)
		}
		after := s.record(name)
		s.same(before, after)
		if after.Left > before.Left+minute || after.Left < before.Left-minute {
			s.fail(fmt.Sprintf("left %v", after.Left), "about %v, as the first release put it", before.Left)
		}
	}
}

func releaseAgainAfterSuccessor(s *subject) {
	name := s.name()
	a := s.take(name, "a", hour)
	s.released(a.ending())
	b := s.take(name, "b", hour)
	s.lost(s.release(a.ending()))
	s.held(claim(name, "c", hour))
	s.released(b.ending())
	s.lost(s.release(a.ending()))
}

func releaseAgainHigherMark(s *subject) {
	for _, linger := range []time.Duration{0, hour} {
		name := s.name()
		l := s.take(name, "a", hour)
		first := l.leaving(5, []byte("first"))
		first.Linger = linger
		s.released(first)
		before := s.record(name)
		s.lost(s.release(l.leaving(6, []byte("second"))))
		s.same(before, s.record(name))
		s.released(l.leaving(5, nil))
	}
}
