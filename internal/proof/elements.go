package proof

import (
	"fmt"
	"slices"
	"time"
)

// An ElementRule says what is known of elements.
type ElementRule struct {
	Names      map[string]bool // of their records, as in the events
	MustBeDone bool            // the end of the history was long and healthy enough for all of them to be processed
	Attempts   int             // how often one may be begun without being given back, until it is recorded; 0 sets no bound
	Retain     time.Duration   // how long it is remembered that one is processed; 0 is forever
}

// elements finds elements that were processed after they had been recorded as processed, or recorded twice, or left out.
func (f *facts) elements(rule ElementRule) []Violation {
	var found []Violation
	began, done, marked := map[string]History{}, map[string]History{}, map[string]bool{}
	retried, commits := map[string]int{}, map[string]History{}
	for i := range f.History {
		e := &f.History[i]
		switch {
		case !rule.Names[e.Name]:
		case (e.Kind == Release || e.Kind == Extend) && e.Did == Okay && e.Mark > 0:
			marked[e.Name] = true
		case e.Kind == Retry:
			retried[e.Name]++
		case e.Kind == Commit:
			commits[e.Name] = append(commits[e.Name], *e)
		case e.Kind == Element:
			began[e.Name] = append(began[e.Name], *e)
			if e.Recorded > 0 {
				done[e.Name] = append(done[e.Name], *e)
			}
		}
	}
	bad := func(name string, excerpt History, format string, args ...any) {
		found = append(found, Violation{ElementsChecker, name, fmt.Sprintf(format, args...), excerpt})
	}
	for name := range rule.Names {
		all := done[name]
		if len(all) > 1 && rule.Retain == 0 {
			bad(name, all, "recorded as processed %d times", len(all))
		}
		tried := slices.DeleteFunc(slices.Clone(began[name]), func(e Event) bool {
			return e.Result == Back || len(all) > 0 && e.At > all[0].Recorded
		})
		if most := rule.Attempts * (1 + retried[name]); len(tried) > most && most > 0 {
			bad(name, tried, "begun %d times, where %d attempts are allowed", len(tried), most)
		}
		if len(commits[name]) > 1 && rule.Retain == 0 {
			bad(name, commits[name], "committed %d times", len(commits[name]))
		}
		for _, c := range commits[name] {
			for _, e := range began[name] {
				if e.At > c.At && e.Token > c.Token && (rule.Retain == 0 || e.At < c.At+rule.Retain) {
					bad(name, History{c, e}, "begun after it had been committed")
				}
			}
		}
		if len(all) == 0 && rule.MustBeDone && !marked[name] {
			bad(name, began[name], "never processed")
		}
		for _, e := range began[name] {
			i := slices.IndexFunc(all, func(d Event) bool {
				return e.At > d.Recorded && (rule.Retain == 0 || e.At < f.released(d)+rule.Retain)
			})
			if i >= 0 {
				bad(name, History{all[i], e}, "begun after it had been recorded as processed")
			}
		}
	}
	return found
}

// released is when the lease of an element that was recorded was released at the earliest: a release may be repeated.
func (f *facts) released(done Event) time.Duration {
	at := Never
	for i := range f.History {
		if e := &f.History[i]; e.Kind == Release && e.Name == done.Name && e.Token == done.Token && e.Did == Okay {
			at = min(at, e.Took)
		}
	}
	if at == Never {
		return done.At
	}
	return at
}
