package proof

import (
	"testing"
	"time"
)

// TestKept gives histories of a lease with a TTL of 10 s that was lost at 20 s.
func TestKept(t *testing.T) {
	granted := acquire(5*s, 6*s, "a", 1, Granted)
	loss := Event{Kind: Loss, At: 20 * s, Replica: "a", Name: "n", Holder: "a", Token: 1}
	ill := func(replica, name string, from, to time.Duration) Event {
		return Event{Kind: Ill, At: from, Until: to, Replica: replica, Name: name}
	}
	brief := with(granted, func(e *Event) { e.TTL = s / 10 })
	extended := extend(7*s, 8*s, "a", 1, Okay)
	tests := map[string]struct {
		h      History
		answer time.Duration
		bad    bool
	}{
		"no reason":                      {History{granted, loss}, s, true},
		"not lost":                       {History{granted}, s, false},
		"trouble with it":                {History{granted, ill("a", "n", 12*s, 13*s), loss}, s, false},
		"trouble with it that goes on":   {History{granted, ill("a", "n", 2*s, Never), loss}, s, false},
		"trouble with it, long ago":      {History{granted, ill("a", "n", 2*s, 7*s), loss}, s, true},
		"trouble with it, just now":      {History{granted, ill("a", "n", 20*s+1, 22*s), loss}, s, true},
		"trouble with everything":        {History{granted, ill("a", "", 12*s, 13*s), loss}, s, false},
		"trouble with another":           {History{granted, ill("a", "m", 12*s, 13*s), loss}, s, true},
		"trouble of another replica":     {History{granted, ill("b", "n", 12*s, 13*s), loss}, s, true},
		"the store takes its time":       {History{granted, loss}, s + 1, false},
		"no reason, extended":            {History{brief, extended, loss}, s, true},
		"no reason, extended too late":   {History{brief, extend(19*s, 21*s, "a", 1, Okay), loss}, s, false},
		"trouble with it, extended":      {History{brief, extended, ill("a", "n", 12*s, 13*s), loss}, s, false},
		"it was taken away":              {History{granted, {Kind: Forced, At: 19 * s, Name: "n", Token: 1}, loss}, s, false},
		"another was taken away":         {History{granted, {Kind: Forced, At: 19 * s, Name: "m", Token: 1}, loss}, s, true},
		"nobody knows what was granted":  {History{loss}, s, false},
		"the rule is not for this store": {History{granted, loss}, 0, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found := 0
			for _, v := range Check(test.h, Rules{Answer: test.answer}).Violations {
				if v.Checker == KeptChecker {
					found++
				}
			}
			if found > 0 != test.bad {
				t.Errorf("%d found, want some: %v", found, test.bad)
			}
		})
	}
}
