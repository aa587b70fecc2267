package proof

import (
	"slices"
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
		"no reason":                                              {History{granted, loss}, s, true},
		"not lost":                                               {History{granted}, s, false},
		"trouble with it":                                        {History{granted, ill("a", "n", 12*s, 13*s), loss}, s, false},
		"trouble with it that goes on":                           {History{granted, ill("a", "n", 2*s, Never), loss}, s, false},
		"trouble with it, long ago":                              {History{granted, ill("a", "n", 2*s, 7*s), loss}, s, true},
		"trouble with it, just now":                              {History{granted, ill("a", "n", 20*s+1, 22*s), loss}, s, true},
		"trouble with everything":                                {History{granted, ill("a", "", 12*s, 13*s), loss}, s, false},
		"trouble with another":                                   {History{granted, ill("a", "m", 12*s, 13*s), loss}, s, true},
		"trouble of another replica":                             {History{granted, ill("b", "n", 12*s, 13*s), loss}, s, true},
		"the store takes its time":                               {History{granted, loss}, s + 1, false},
		"no reason, extended":                                    {History{brief, extended, loss}, s, true},
		"no reason, extended too late":                           {History{brief, extend(19*s, 21*s, "a", 1, Okay), loss}, s, false},
		"trouble with it, extended":                              {History{brief, extended, ill("a", "n", 12*s, 13*s), loss}, s, false},
		"not extended, for nobody knows":                         {History{brief, extend(7*s, Never, "a", 1, Unknown), loss}, s, false},
		"not extended, for it was lost":                          {History{brief, extend(7*s, 8*s, "a", 1, Lost), loss}, s, false},
		"extended as it was lost":                                {History{brief, extend(19*s, 20*s, "a", 1, Okay), loss}, s, true},
		"extended, and later for less":                           {History{brief, extended, with(extend(8*s, 9*s, "a", 1, Okay), func(e *Event) { e.TTL = s / 10 }), loss}, s, true},
		"granted, and later for less":                            {History{granted, with(brief, func(e *Event) { e.At, e.Until = 7*s, 8*s }), loss}, s, true},
		"granted briefly, and another for long":                  {History{brief, with(granted, func(e *Event) { e.Name = "m" }), with(granted, func(e *Event) { e.Token = 2 }), loss}, s, false},
		"its user was told of more than the store":               {History{brief, with(granted, func(e *Event) { e.Kind = Take }), with(extended, func(e *Event) { e.Kind = Set }), loss}, s, false},
		"nobody knows what was granted, and it was extended":     {History{extended, loss}, s, false},
		"nobody knows what was granted, and another was refused": {History{acquire(7*s, 8*s, "b", 1, Held), loss}, s, false},
		"trouble with it until a TTL and a quarter before":       {History{granted, ill("a", "n", 2*s, 7*s+s/2), loss}, s, false},
		"trouble with it as it was lost":                         {History{granted, ill("a", "n", 20*s, 22*s), loss}, s, false},
		"it was taken away, but under another token":             {History{granted, {Kind: Forced, At: 19 * s, Name: "n", Token: 2}, loss}, s, true},
		"it was taken away":                                      {History{granted, {Kind: Forced, At: 19 * s, Name: "n", Token: 1}, loss}, s, false},
		"another was taken away":                                 {History{granted, {Kind: Forced, At: 19 * s, Name: "m", Token: 1}, loss}, s, true},
		"nobody knows what was granted":                          {History{loss}, s, false},
		"the rule is not for this store":                         {History{granted, loss}, 0, false},
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

// TestKeptShows has the excerpt of a lease that was lost without a reason: what became of it in its last TTL and a little more, and what its replica had trouble with.
func TestKeptShows(t *testing.T) {
	granted, extended := acquire(s, 2*s, "a", 1, Granted), extend(12*s, 13*s, "a", 1, Okay)
	loss := Event{Kind: Loss, At: 20 * s, Replica: "a", Name: "n", Holder: "a", Token: 1}
	ill := Event{Kind: Ill, At: 14 * s, Until: 15 * s, Replica: "a", Name: "m"}
	h := History{granted, acquire(11*s/2, 6*s, "a", 1, Granted), extended, ill, with(ill, func(e *Event) { e.Replica = "b" }), with(extended, func(e *Event) { e.Name = "m" }),
		with(extended, func(e *Event) { e.Holder = "b" }), with(extended, func(e *Event) { e.Kind = Release }), extend(20*s, 21*s, "a", 1, Lost), extend(20*s+1, 21*s, "a", 1, Lost), loss}
	want := History{h[1], extended, ill, h[8], loss}
	if v := Check(h, Rules{Answer: s}).Violations; len(v) == 0 || !slices.Equal(v[len(v)-1].Excerpt, want) {
		t.Errorf("found %v, want %v", v, want)
	}
	long := slices.Concat(History{granted}, slices.Repeat(History{extended}, 21), History{loss})
	if v := Check(long, Rules{Answer: s}).Violations; len(v) != 1 || len(v[0].Excerpt) != 21 || v[0].Excerpt[20] != loss {
		t.Errorf("21 extensions, and then a loss: %v", v)
	}
}
