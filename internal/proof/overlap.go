package proof

import (
	"fmt"
	"slices"
)

// unforced returns the beliefs. One whose lease was taken away by a person counts until then: its holder learns of it later.
func (h History) unforced() History {
	forced := map[leaseKey]*Event{}
	for i := range h {
		if e := &h[i]; e.Kind == Forced && forced[leaseKey{e.Name, e.Token}] == nil {
			forced[leaseKey{e.Name, e.Token}] = e
		}
	}
	beliefs := h.of(Belief)
	for i := range beliefs {
		b := &beliefs[i]
		if f, ok := forced[leaseKey{b.Name, b.Token}]; ok {
			b.Until = min(b.Until, f.At)
		}
	}
	return beliefs
}

// overlap finds instants at which more believed to have a name than may. Beliefs that only touch do not overlap.
func (f *facts) overlap() []Violation {
	var found []Violation
	names, groups := f.unforced().names()
	for _, name := range names {
		var open []*Event
		for _, b := range groups[name] {
			if b.Until <= b.At {
				continue
			}
			open = slices.DeleteFunc(open, func(o *Event) bool { return o.Until <= b.At })
			if open = append(open, b); len(open) > max(1, b.Limit) {
				found = append(found, Violation{BeliefOverlap, name,
					fmt.Sprintf("%d believed to have it at %v, where %d may", len(open), b.At, max(1, b.Limit)), copies(open)})
				break
			}
		}
	}
	return found
}
