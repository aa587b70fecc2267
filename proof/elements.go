package proof

import "fmt"

// An ElementRule says what is known of elements.
type ElementRule struct {
	Names      map[string]bool // of their records, as in the events
	MustBeDone bool            // the end of the history was long and healthy enough for all of them to be processed
	Attempts   int             // how often one may be begun; 0 sets no bound
}

// Elements finds elements that were processed after they had been recorded as processed, or recorded twice, or left out.
func Elements(h History, rule ElementRule) []Violation {
	var found []Violation
	began, done, marked := map[string]History{}, map[string]History{}, map[string]bool{}
	for _, e := range h.byBegin() {
		switch {
		case !rule.Names[e.Name]:
		case e.Kind == Release && e.Did == Okay && e.Mark > 0:
			marked[e.Name] = true
		case e.Kind == Element:
			began[e.Name] = append(began[e.Name], e)
			if e.Recorded > 0 {
				done[e.Name] = append(done[e.Name], e)
			}
		}
	}
	bad := func(name string, excerpt History, format string, args ...any) {
		found = append(found, Violation{ElementsChecker, name, fmt.Sprintf(format, args...), excerpt})
	}
	for name := range rule.Names {
		all := done[name]
		if len(all) > 1 {
			bad(name, all, "recorded as processed %d times", len(all))
		}
		if rule.Attempts > 0 && len(began[name]) > rule.Attempts {
			bad(name, began[name], "begun %d times, where %d attempts are allowed", len(began[name]), rule.Attempts)
		}
		if len(all) == 0 {
			if rule.MustBeDone && !marked[name] {
				bad(name, began[name], "never processed")
			}
			continue
		}
		for _, e := range began[name] {
			if e.At > all[0].Recorded {
				bad(name, History{all[0], e}, "begun after it had been recorded as processed")
			}
		}
	}
	return found
}
