package proof

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// A judged is a history and who must find fault with it.
type judged struct {
	name  string
	h     History
	rules Rules
	want  string // the checkers that complain, with " and " between them; "" for a good history
}

// judge gives each history to all checkers. Those that are wanted must complain, and no others. A history may be given in any order.
func judge(t *testing.T, tests []judged) {
	t.Helper()
	for _, test := range tests {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			v := Check(test.h, test.rules)
			checkers := map[string]bool{}
			for _, found := range v.Violations {
				checkers[found.Checker] = true
			}
			if got := strings.Join(slices.Sorted(maps.Keys(checkers)), " and "); got != test.want {
				t.Errorf("%q complain, want %q: %v", got, test.want, v.Violations)
			}
			if v.Unchecked > 0 {
				t.Errorf("%d unchecked", v.Unchecked)
			}
		})
	}
}

func took(at time.Duration, e Event) Event {
	e.Took = at
	return e
}

func lasting(e Event, ttl time.Duration) Event {
	e.TTL = ttl
	return e
}

// untold makes an operation one whose caller was told nothing.
func untold(e Event) Event {
	e.Result, e.Token, e.Until = Unknown, 0, Never
	return e
}

func swept(at time.Duration) Event { return Event{Kind: Swept, At: at} }

func forced(at time.Duration, token int64) Event {
	return Event{Kind: Forced, At: at, Name: "n", Token: token}
}
