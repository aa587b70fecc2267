package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// control is what the two clients that are unsafe on purpose hold.
const control = "lock/control"

// check looks for violations in the history.
func (r *Report) check(c Config) {
	beliefs := lastBeliefs(r.events)
	r.Figures.Beliefs = len(beliefs)
	caught := false
	for _, v := range overlapping(beliefs) {
		if v.Name == control {
			caught = true
			continue
		}
		r.Violations = append(r.Violations, v)
	}
	if !caught {
		r.Void = append(r.Void, "the two clients that are unsafe on purpose were not caught")
	}
	for name, ops := range byName(r.events) {
		r.Violations = append(r.Violations, disordered(name, ops)...)
		r.Violations = append(r.Violations, grantedWhileHeld(name, ops)...)
	}
	r.Violations = append(r.Violations, processedAgain(r.events)...)
	r.Violations = append(r.Violations, runAgain(r.events, c.Namespace)...)
	slices.SortFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Checker, b.Checker), cmp.Compare(a.Name, b.Name))
	})
}

// byName answers the calls to the store by the record's name, in the order of their beginnings.
func byName(events []event) map[string][]event {
	names := map[string][]event{}
	for _, e := range events {
		switch e.Kind {
		case kindAcquire, kindExtend, kindRelease, kindGiving:
			names[e.Name] = append(names[e.Name], e)
		}
	}
	return names
}

// overlapping finds the names in which more believed at once than may. A belief is recorded from when it was seen to be held until when
// it was last seen to be, so two that overlap here did overlap.
func overlapping(beliefs []event) []Violation {
	names := map[string][]event{}
	for _, b := range beliefs {
		names[b.Name] = append(names[b.Name], b)
	}
	var found []Violation
	for name, all := range names {
		slices.SortFunc(all, func(a, b event) int { return cmp.Compare(a.At, b.At) })
		var open []event
		for _, b := range all {
			open = slices.DeleteFunc(open, func(o event) bool { return o.Until < b.At })
			if open = append(open, b); len(open) > b.Limit {
				found = append(found, Violation{Checker: "overlap", Name: name, Excerpt: lines(open),
					Text: fmt.Sprintf("%d believed at once that they hold %s, and %d may", len(open), name, b.Limit)})
				break // the first tells enough of a name
			}
		}
	}
	return found
}

// disordered finds a grant whose token is not greater than that of one that had returned before it was asked for, and a token that
// two holders got.
func disordered(name string, ops []event) []Violation {
	grants := slices.DeleteFunc(slices.Clone(ops), func(e event) bool { return e.Result != granted })
	ended := byEnd(grants)
	var greatest event // of the grants that had returned before the one that is looked at
	holders := map[int64]event{}
	next := 0
	for _, g := range grants {
		for ; next < len(ended) && ended[next].Until < g.At; next++ {
			if ended[next].Token > greatest.Token {
				greatest = ended[next]
			}
		}
		again := g.Holder == greatest.Holder && g.Token == greatest.Token
		if before := holders[g.Token]; before.Holder != "" && before.Holder != g.Holder {
			return violation("token", name, "two holders got the same token", before, g)
		}
		holders[g.Token] = g
		if g.Token <= greatest.Token && !again {
			return violation("token", name, "a token is not greater than that of an earlier grant", greatest, g)
		}
	}
	return nil
}

// drift is how far the clocks of the store and of this host may run apart, as a part of a span.
const drift = 0.01

// grantedWhileHeld finds a grant that was asked for and answered while another holder's lease was surely live: the store has let it
// end too early, or has forgotten it.
func grantedWhileHeld(name string, ops []event) []Violation {
	type span struct {
		event
		until time.Duration // the lease cannot have ended before, unless it was released
	}
	released := map[int64]time.Duration{} // when a release of a token was first asked for
	for _, e := range ops {
		if e.Kind == kindGiving || e.Kind == kindRelease {
			if at, ok := released[e.Token]; !ok || e.At < at {
				released[e.Token] = e.At
			}
		}
	}
	var live []span
	for _, e := range ops { // by their beginnings
		if e.Kind == kindAcquire && e.Result == granted || e.Kind == kindExtend && e.Result == okay {
			until := e.At + time.Duration(float64(e.TTL)*(1-drift))
			if at, ok := released[e.Token]; ok {
				until = min(until, at)
			}
			if until > e.Until {
				live = append(live, span{e, until})
			}
		}
	}
	for _, g := range ops {
		if g.Kind != kindAcquire || g.Result != granted {
			continue
		}
		live = slices.DeleteFunc(live, func(s span) bool { return s.until < g.At })
		for _, s := range live {
			if s.At > g.At {
				break
			}
			if s.Token != g.Token && s.Holder != g.Holder && s.Until < g.At && g.Until < s.until {
				return violation("early", name, "a name was granted while another's lease was live", s.event, g)
			}
		}
	}
	return nil
}

// processedAgain finds an element that was recorded as processed twice, or was taken up again after it had been recorded.
func processedAgain(events []event) []Violation {
	done := map[string]event{}
	for _, e := range events {
		if e.Kind == kindDone && e.Result == okay {
			if before, ok := done[e.Name]; ok && before.Token != e.Token {
				return violation("element", e.Name, "an element was recorded as processed twice", before, e)
			}
			if _, ok := done[e.Name]; !ok {
				done[e.Name] = e
			}
		}
	}
	for _, e := range events {
		if before, ok := done[e.Name]; e.Kind == kindProcess && ok && e.At > before.At && e.Token != before.Token {
			return violation("element", e.Name, "an element was processed again", before, e)
		}
	}
	return nil
}

// runAgain finds a scheduled time that was run again after a run of it had been recorded, and one that nobody ran although a later one
// was.
func runAgain(events []event, namespace string) []Violation {
	type recorded struct {
		at   time.Duration
		mark int64
	}
	var marks []recorded // growing in both
	ended := map[int64]event{}
	for _, e := range byEnd(events) {
		switch {
		case e.Kind == kindRelease && e.Name == namespace+"/job/job" && e.Mark > 0 && e.Result == okay:
			if len(marks) == 0 || e.Mark > marks[len(marks)-1].mark {
				marks = append(marks, recorded{e.Until, e.Mark})
			}
		case e.Kind == kindEnd:
			ended[e.Mark] = e
		}
	}
	for _, e := range events {
		if e.Kind != kindStart {
			continue
		}
		i, _ := slices.BinarySearchFunc(marks, e.At, func(m recorded, at time.Duration) int { return cmp.Compare(m.at, at) })
		if i > 0 && marks[i-1].mark >= e.Mark {
			return violation("job", e.Name, "a scheduled time was run again after its run had been recorded", ended[e.Mark], e)
		}
	}
	times := slices.Sorted(maps.Keys(ended))
	for i, mark := range times {
		if i > 0 && len(marks) > 0 && mark <= marks[len(marks)-1].mark && mark-times[i-1] > jobEvery.Milliseconds() {
			return violation("job", "job", "a scheduled time was not run", ended[times[i-1]], ended[mark])
		}
	}
	return nil
}

func violation(checker, name, text string, events ...event) []Violation {
	return []Violation{{Checker: checker, Name: name, Text: text + ": " + name, Excerpt: lines(events)}}
}

// lines tells events to people.
func lines(events []event) []string {
	var all []string
	for _, e := range events {
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s %s", e.Replica, e.Kind, e.Name)
		if e.Holder != "" {
			fmt.Fprintf(&b, " holder %s", e.Holder)
		}
		if e.Token != 0 {
			fmt.Fprintf(&b, " token %d", e.Token)
		}
		if e.Mark != 0 {
			fmt.Fprintf(&b, " mark %d", e.Mark)
		}
		fmt.Fprintf(&b, " from %.6f s", e.At.Seconds())
		if e.Until != 0 {
			fmt.Fprintf(&b, " to %.6f s", e.Until.Seconds())
		}
		if e.Result != "" {
			fmt.Fprintf(&b, ": %s", e.Result)
		}
		all = append(all, b.String())
	}
	return all
}
