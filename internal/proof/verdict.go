package proof

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Violation is something that must not happen, with the shortest part of the history that tells it.
type Violation struct {
	Checker string  `json:"checker"`
	Name    string  `json:"name"`
	Text    string  `json:"text"`
	Excerpt History `json:"excerpt,omitempty"`
}

func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: %s", v.Checker, v.Name, v.Text)
	for _, e := range v.Excerpt {
		fmt.Fprintf(&b, "\n    %s", e)
	}
	return b.String()
}

// The names of the checkers.
const (
	Linearizability = "linearizability"
	BeliefOverlap   = "belief overlap"
	TokenOrder      = "token order"
	FencedResource  = "fenced resource"
	BeliefInLease   = "belief within lease"
	ToldTruth       = "told the truth"
	JobsChecker     = "jobs"
	OmissionChecker = "omission"
	KeptChecker     = "kept"
	ElementsChecker = "elements"
	HandOver        = "hand-over"
	StatesChecker   = "states"
)

// Rules say what a history has to keep beside what holds for all.
type Rules struct {
	Drift    float64       // by how much clocks may run at another rate than the one of the history, as a part: 0.01 is one percent
	Steps    int           // how many steps the search for a linearization may take for each name; 0 means 200,000
	Jobs     []JobRule     // what is known of jobs
	Elements []ElementRule // what is known of elements
	// Clockless is for a store that has no clock, such as casstore. Each of its users measures a TTL from when it first saw the lease, so a lease or a
	// linger has an earliest end and no latest one. A refusal may tell a token that is raised before the lease in the way is granted.
	Clockless bool

	// Complete is for a history that has all requests of those whose beliefs it has: a lease that none of them was granted is nobody's.
	Complete bool

	Answer time.Duration // how long a request without trouble takes at most, where the history has Ill events; 0 leaves out Kept

	sweeps []Span // of the history
}

// A Verdict says what was checked and what was found.
type Verdict struct {
	Histories  int            `json:"histories"`
	Operations int            `json:"operations"` // of stores
	Grants     int            `json:"grants"`
	Refusals   int            `json:"refusals"`
	Unknowns   int            `json:"unknowns"` // outcomes that nobody was told
	Beliefs    int            `json:"beliefs"`
	Runs       int            `json:"runs"`
	Elements   int            `json:"elements"`
	Writes     int            `json:"writes"` // to guarded resources
	Stale      int            `json:"stale"`  // of them refused
	Faults     map[string]int `json:"faults"` // by kind, those that took effect
	Unchecked  int            `json:"unchecked"`
	Violations []Violation    `json:"violations,omitempty"`
}

// Add adds the figures and findings of another verdict.
func (v *Verdict) Add(o Verdict) {
	v.Histories += o.Histories
	v.Operations += o.Operations
	v.Grants += o.Grants
	v.Refusals += o.Refusals
	v.Unknowns += o.Unknowns
	v.Beliefs += o.Beliefs
	v.Runs += o.Runs
	v.Elements += o.Elements
	v.Writes += o.Writes
	v.Stale += o.Stale
	v.Unchecked += o.Unchecked
	v.Violations = append(v.Violations, o.Violations...)
	for kind, n := range o.Faults {
		if v.Faults == nil {
			v.Faults = map[string]int{}
		}
		v.Faults[kind] += n
	}
}

// Check asks every checker about one history.
func Check(h History, r Rules) Verdict {
	f := factsOf(h)
	v := count(f.History)
	found, unchecked := Linearizable(f.History, r)
	v.Unchecked = unchecked
	v.Violations = slices.Concat(found, f.overlap(), f.tokens(), f.fences(), f.within(), f.covered(r.Drift, r.Complete), f.told(r.Clockless), f.states())
	for _, rule := range r.Jobs {
		v.Violations = append(v.Violations, f.jobs(rule)...)
	}
	if r.Answer > 0 {
		v.Violations = append(v.Violations, f.kept(r.Answer)...)
	}
	for _, rule := range r.Elements {
		v.Violations = append(v.Violations, f.elements(rule)...)
	}
	return v
}

func count(h History) Verdict {
	v := Verdict{Histories: 1, Faults: map[string]int{}}
	for i := range h {
		e := &h[i]
		switch e.Kind {
		case Acquire, Extend, Release:
			v.Operations++
			switch e.Result {
			case Granted:
				v.Grants++
			case Held, Done:
				v.Refusals++
			case Unknown:
				v.Unknowns++
			}
		case Belief:
			v.Beliefs++
		case Run:
			v.Runs++
		case Element:
			v.Elements++
		case Write:
			v.Writes++
			if e.Result == Stale {
				v.Stale++
			}
		case Fault:
			v.Faults[e.Fault]++
		}
	}
	return v
}

// String formats the figures in one paragraph.
func (v Verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d histories, %d operations: %d grants, %d refusals, %d unknown outcomes\n", v.Histories, v.Operations, v.Grants, v.Refusals, v.Unknowns)
	fmt.Fprintf(&b, "%d beliefs, %d runs, %d elements, %d guarded writes of which %d stale ones were refused\nfaults:", v.Beliefs, v.Runs, v.Elements, v.Writes, v.Stale)
	for _, kind := range slices.Sorted(maps.Keys(v.Faults)) {
		fmt.Fprintf(&b, " %s %d;", kind, v.Faults[kind])
	}
	fmt.Fprintf(&b, "\n%d unchecked, %d violations", v.Unchecked, len(v.Violations))
	return b.String()
}
