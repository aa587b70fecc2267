package proof

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// texts are what one checker found fault with.
func texts(checker string, found []Violation) []string {
	var all []string
	for _, v := range found {
		if v.Checker == checker {
			all = append(all, v.Text)
		}
	}
	return all
}

// TestElements gives histories of an element, and tells of each all that is wrong with it. Two lie side by side wherever a little decides.
func TestElements(t *testing.T) {
	begun := func(at time.Duration, token int64, recorded time.Duration) Event {
		return Event{Kind: Element, Name: "e", At: at, Until: at + s, Token: token, Result: Okay, Recorded: recorded}
	}
	told := func(took time.Duration, token, mark int64, change func(*Event)) Event {
		e := Event{Kind: Release, Name: "e", At: took - s/10, Until: took + s/10, Token: token, Mark: mark, Result: Okay, Took: took, Did: Okay}
		if change != nil {
			change(&e)
		}
		return e
	}
	committed := func(at time.Duration, token int64) Event { return Event{Kind: Commit, Name: "e", At: at, Token: token} }
	retry := Event{Kind: Retry, Name: "e", At: s}
	names := map[string]bool{"e": true}
	forever, done := ElementRule{Names: names}, ElementRule{Names: names, MustBeDone: true}
	once, twice := ElementRule{Names: names, Attempts: 1}, ElementRule{Names: names, Attempts: 2}
	retained := ElementRule{Names: names, Retain: 6 * s}
	// Its lease is released at 4 s, and another's, another element's, and in vain before that.
	released := History{begun(0, 1, 2*s), told(4*s, 1, 1, nil), told(5*s, 1, 1, nil), told(s, 9, 1, nil), told(s, 1, 1, func(e *Event) { e.Did = Lost }),
		told(s, 1, 1, func(e *Event) { e.Name = "f" }), told(s, 1, 0, func(e *Event) { e.Kind = Extend })}
	tests := []struct {
		name string
		h    History
		rule ElementRule
		want []string // each a part of what is found
	}{
		{"its release tells that it is done", History{begun(0, 1, 0), told(2*s, 1, 1, nil)}, done, nil},
		{"an extension tells that it is done", History{begun(0, 1, 0), told(2*s, 1, 1, func(e *Event) { e.Kind = Extend })}, done, nil},
		{"its release does not tell that it is done", History{begun(0, 1, 0), told(2*s, 1, 0, nil)}, done, []string{"never processed"}},
		{"its release is in vain", History{begun(0, 1, 0), told(2*s, 1, 1, func(e *Event) { e.Did = Lost })}, done, []string{"never processed"}},
		{"nobody begins it", nil, done, []string{"never processed"}},
		{"nobody need begin it", nil, forever, nil},

		{"as often as allowed", History{begun(0, 1, 0), begun(2*s, 2, 4*s)}, twice, nil},
		{"too often until it is recorded", History{begun(0, 1, 0), begun(2*s, 2, 4*s)}, once, []string{"begun 2 times, where 1 attempts are allowed"}},
		{"too often, as it is recorded", History{begun(0, 1, 2*s), begun(2*s, 2, 0)}, once, []string{"begun 2 times, where 1"}},
		{"again when it is recorded", History{begun(0, 1, 2*s), begun(2*s+1, 2, 0)}, once, []string{"begun after it had been recorded"}},
		{"as often as allowed since it was retried", History{begun(0, 1, 0), begun(2*s, 2, 0), retry, begun(4*s, 3, 0), begun(6*s, 4, 0)}, twice, nil},
		{"too often since it was retried", History{begun(0, 1, 0), begun(2*s, 2, 0), retry, begun(4*s, 3, 0), begun(6*s, 4, 0), begun(8*s, 5, 0)}, twice, []string{"begun 5 times, where 4"}},

		{"committed", History{begun(0, 1, 0), committed(2*s, 1)}, forever, nil},
		{"committed twice", History{begun(0, 1, 0), committed(2*s, 1), committed(3*s, 1)}, forever, []string{"committed 2 times"}},
		{"committed twice, and may be forgotten", History{begun(0, 1, 0), committed(2*s, 1), committed(3*s, 1)}, retained, nil},
		{"committed, and begun again by another", History{begun(0, 1, 0), committed(2*s, 1), begun(2*s+1, 2, 0)}, forever, []string{"begun after it had been committed"}},
		{"committed as another begins it", History{begun(0, 1, 0), committed(2*s, 1), begun(2*s, 2, 0)}, forever, nil},
		{"committed when another has begun it", History{begun(0, 1, 0), committed(2*s, 1), begun(s, 2, 0)}, forever, nil},
		{"committed, and begun again by the same", History{begun(0, 1, 0), committed(2*s, 1), begun(3*s, 1, 0)}, forever, nil},

		{"committed, and begun again within Retain", History{begun(0, 1, 0), committed(2*s, 1), begun(8*s-1, 2, 0)}, retained, []string{"begun after it had been committed"}},
		{"committed, and begun again after Retain", History{begun(0, 1, 0), committed(2*s, 1), begun(8*s, 2, 0)}, retained, nil},
		{"begun again within Retain of its release", append(History{begun(10*s-1, 2, 0)}, released...), retained, []string{"begun after it had been recorded"}},
		{"begun again Retain after its release", append(History{begun(10*s, 2, 0)}, released...), retained, nil},
	}
	for _, test := range tests {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			found := texts(ElementsChecker, Check(test.h, Rules{Elements: []ElementRule{test.rule}}).Violations)
			if !slices.EqualFunc(found, test.want, strings.Contains) {
				t.Errorf("found %q, want %q", found, test.want)
			}
		})
	}
}
