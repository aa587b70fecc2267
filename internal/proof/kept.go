package proof

import (
	"fmt"
	"slices"
	"time"
)

// kept finds leases that were lost without a reason: for a TTL before that its replica had no trouble, as Ill events tell, with any
// request about it. Whatever became of other leases and requests of the replica is no reason, nor is the time that the store takes for
// each answer, up to a tenth of the TTL.
func (f *facts) kept(answer time.Duration) []Violation {
	losses := f.of(Loss)
	if len(losses) == 0 {
		return nil
	}
	ill, forced := f.of(Ill), f.of(Forced)
	var found []Violation
	for _, l := range losses {
		ttl, granted := f.longest(l)
		if !granted || ttl < 10*answer {
			continue
		}
		from := l.At - ttl*5/4 // by its own clock, whatever that is
		excused := slices.ContainsFunc(ill, func(e Event) bool {
			return e.Replica == l.Replica && (e.Name == "" || e.Name == l.Name) && e.At <= l.At && e.Until >= from
		}) || slices.ContainsFunc(forced, func(e Event) bool { return e.Name == l.Name && e.Token == l.Token })
		if !excused {
			found = append(found, Violation{KeptChecker, l.Name, fmt.Sprintf("lost at %v, although %s had no trouble with it since %v", l.At, l.Replica, from),
				f.about(l, from)})
		}
	}
	return found
}

// longest is the longest TTL that a lease was granted or extended with, as its holder had been told when it lost it.
func (h History) longest(loss Event) (ttl time.Duration, granted bool) {
	for i := range h {
		e := &h[i]
		if e.Name != loss.Name || e.Token != loss.Token || e.Until > loss.At {
			continue
		}
		if e.Kind == Acquire && e.Result == Granted {
			granted, ttl = true, max(ttl, e.TTL)
		}
		if e.Kind == Extend && e.Result == Okay {
			ttl = max(ttl, e.TTL)
		}
	}
	return ttl, granted
}

// about is what became of a lease until it was lost.
func (h History) about(l Event, from time.Duration) History {
	var about History
	for _, e := range h {
		mine := e.Name == l.Name && e.Holder == l.Holder && (e.Kind == Acquire || e.Kind == Extend)
		if (mine || e.Kind == Ill && e.Replica == l.Replica) && e.At <= l.At && e.At >= from-l.At/10 {
			about = append(about, e)
		}
	}
	return append(about[max(0, len(about)-20):], l)
}
