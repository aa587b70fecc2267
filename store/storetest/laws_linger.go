package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"
)

var lingerLaws = []law{
	{name: "linger-holds", check: lingerHolds,
		rule: "A name that lingers is held by nobody, and refuses everybody, also the holder that released it."},
	{name: "linger-ends", check: lingerEnds,
		rule: "A linger lasts for its time from the release, however long the lease would have lived, and then the name is free."},
}

func lingerHolds(s *subject) {
	for _, ttl := range []time.Duration{3 * hour, hour / 2} {
		name := s.name()
		l := s.take(name, "a", ttl)
		r := l.ending()
		r.Linger = hour
		s.released(r)
		for _, holder := range []string{"b", "a"} {
			record := s.held(claim(name, holder, hour))
			if record.Holder != "" || record.Token != l.Token {
				s.fail("a refusal with "+sketch(record), "holder %q and token %d", "", l.Token)
			}
			if record.Left < hour-minute || record.Left > hour+minute {
				s.fail(fmt.Sprintf("left %v", record.Left), "about %v", hour)
			}
		}
		if record := s.record(name); record.Holder != "" || record.Free() {
			s.fail("a record with "+sketch(record), "one that is taken, by nobody")
		}
	}
}

func lingerEnds(s *subject) {
	long := s.take(s.name(), "a", hour).ending() // one that lasts longer prolongs no other
	long.Linger = hour
	s.released(long)
	s.timely(func(name string, linger time.Duration) bool {
		r := s.take(name, "a", hour).ending()
		r.Linger = linger
		start := time.Now()
		s.released(r)
		judged, granted := false, false
		s.until("the name is free after its linger", func() bool {
			o := s.acquire(claim(name, "b", hour))
			passed := time.Since(start)
			granted = o.Err == nil
			switch early := passed < linger-linger/10; {
			case granted && early:
				s.fail(fmt.Sprintf("granted to another after %v", passed), "refused for %v", linger)
			case !granted && !errors.Is(o.Err, store.ErrHeld):
				s.fail(o.Err, "a grant or a *HeldError")
			case early && passed >= linger/2:
				judged = true
			}
			return granted
		})
		return judged
	})
}
