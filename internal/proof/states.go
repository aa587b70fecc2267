package proof

import (
	"fmt"
	"slices"
)

// states finds holders who were not told the state that the last holder who set one has left with the name, where the store could be watched. A set
// that did not succeed may have taken effect. Only if the holder died may the state be one from before the last that succeeded, for a release leaves
// the last. Names whose states nobody sets by Set events are left out.
func (f *facts) states() []Violation {
	sets := map[leaseKey]History{}
	names := map[string]bool{}
	for i := range f.History {
		if e := &f.History[i]; e.Kind == Set {
			sets[leaseKey{e.Name, e.Token}] = append(sets[leaseKey{e.Name, e.Token}], *e)
			names[e.Name] = true
		}
	}
	var found []Violation
	for i := range f.History {
		e := &f.History[i]
		if e.Kind != Take || e.Result != Granted || !names[e.Name] {
			continue
		}
		l := f.byToken[leaseKey{e.Name, e.Token}]
		if l == nil {
			continue
		}
		possible, last := []uint64{0}, History(nil)
		for _, before := range f.byName[e.Name] {
			if before == l {
				break
			}
			if all := sets[leaseKey{e.Name, before.grant.DidToken}]; len(all) > 0 {
				possible, last = before.leaves(all, possible), all
			}
		}
		if !slices.Contains(possible, e.State) {
			found = append(found, Violation{StatesChecker, e.Name, fmt.Sprintf("the state %x was read, and those that can have been left are %x", e.State, possible), append(slices.Clone(last), *e)})
		}
	}
	return found
}

// leaves returns the states that can be there after a lease, under which its holder set some, and before which some were possible.
func (l *lease) leaves(sets History, before []uint64) []uint64 {
	var after []uint64
	for i, e := range slices.Backward(sets) {
		after = append(after, e.State)
		if e.Result != Okay {
			continue
		}
		if l.released == Never || l.forced { // a request for an older one may be carried out late, or twice, and its own release leaves the last
			for _, older := range sets[:i] {
				after = append(after, older.State)
			}
		}
		return after
	}
	return append(after, before...)
}
