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
	ttls := map[leaseKey]time.Duration{}
	for i := range f.History {
		switch e := &f.History[i]; {
		case e.Kind == Acquire && e.Result == Granted:
			ttls[leaseKey{e.Name, e.Token}] = e.TTL
		case e.Kind == Extend && e.Result == Okay: // a claim can be for less than what its lease is kept with
			ttls[leaseKey{e.Name, e.Token}] = max(ttls[leaseKey{e.Name, e.Token}], e.TTL)
		}
	}
	var found []Violation
	for _, l := range losses {
		ttl, granted := ttls[leaseKey{l.Name, l.Token}]
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
