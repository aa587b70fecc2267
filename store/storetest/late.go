package storetest

import (
	"maps"
	"slices"

	"github.com/soloist-dev/soloist/store"
)

// made notes that a name was granted, and so has a record.
func (p *probe) made(name string, o store.Outcome) {
	if !p.h.LateLists || o.Err != nil {
		return
	}
	if p.shown == nil {
		p.shown = map[string]bool{}
	}
	if _, before := p.shown[name]; !before {
		p.shown[name] = false
	}
}

// caughtUp waits until the store has listed each record that the law has made, if it lists new records late. It comes before each sweep, so a name that
// was not listed yet has a record.
func (s *subject) caughtUp() {
	late := func() bool { return slices.Contains(slices.Collect(maps.Values(s.shown)), false) }
	if !late() {
		return
	}
	s.until("List yields all records", func() bool {
		for r, err := range s.List(s.ctx, "") {
			if err == nil { // otherwise it is about a record that cannot be read
				s.shown[r.Name] = true
			}
		}
		return !late()
	})
	s.did("%swaited until List yielded all records", s.label)
}
