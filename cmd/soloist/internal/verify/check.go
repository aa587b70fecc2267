package verify

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/internal/records"
)

// control is what the two clients that are unsafe on purpose hold.
const control = "lock/control"

const (
	// drift is how far the clocks of the store and of this host may run apart, as a part of a span.
	drift = 0.01

	// due is how much sooner than the clock of this host shows a run may begin, for clocks are set a little at a time.
	due = 50 * time.Millisecond
)

// check counts what there is in the history, and looks for violations.
func (r *Report) check(c Config) {
	n := newCount(c)
	for _, e := range r.events {
		n.add(e, true)
	}
	r.Minimum, r.Figures.Errors, r.Figures.ErrorShare = n.amounts(c.Faults), n.errors, n.errorShare()
	r.Void = append(r.Void, n.tooFew(c.Faults, r.span)...)
	r.complete()
	history := r.history()
	r.Verdicts = proof.Check(history, proof.Rules{
		Drift: drift, Clockless: c.clockless, Complete: true,
		Jobs:     []proof.JobRule{jobRule(history, later(r.zero, zero()))},
		Elements: []proof.ElementRule{{Names: elementNames(history)}},
	})
	caught := false
	for _, v := range r.Verdicts.Violations {
		if v.Name == records.In(c.Namespace)+control && (v.Checker == proof.BeliefOverlap || v.Checker == proof.BeliefInLease) {
			caught = caught || v.Checker == proof.BeliefOverlap
			continue
		}
		r.Violations = append(r.Violations, v)
	}
	r.Verdicts.Violations = nil
	if !caught {
		r.Void = append(r.Void, "the two clients that are unsafe on purpose were not caught")
	}
	slices.SortStableFunc(r.Violations, func(a, b proof.Violation) int {
		return cmp.Or(cmp.Compare(a.Checker, b.Checker), cmp.Compare(a.Name, b.Name))
	})
}

// complete finds the runs and elements of the release that recorded them in the store.
func (r *Report) complete() {
	type lease struct {
		name  string
		token int64
	}
	recorded := map[lease]time.Duration{}
	job := ""
	for _, e := range r.events {
		if e.Kind != proof.Release {
			continue
		}
		if strings.HasSuffix(e.Name, "/job/job") {
			job = e.Name
		}
		if l := (lease{e.Name, e.Token}); e.Mark > 0 && e.Result == proof.Okay && recorded[l] == 0 {
			recorded[l] = e.Until
		}
	}
	for i, e := range r.events {
		switch e.Kind {
		case proof.Run:
			r.events[i].Recorded = recorded[lease{job, e.Token}]
		case proof.Element:
			r.events[i].Recorded = recorded[lease{e.Name, e.Token}]
		}
	}
}

// history is what package proof judges.
func (r *Report) history() proof.History {
	h := make(proof.History, len(r.events))
	for i, e := range r.events {
		h[i] = e.Event
	}
	return h
}

// zero is what the wall clock shows at the instant 0 of the history, if it was not put since.
func zero() time.Time { return time.Now().Add(-fleet.Now()).Round(0) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// jobRule expects every scheduled time from the first that was begun, which may have been cut off, to the last that was recorded. zero is as late as the wall clock has shown it: no run
// began before it was due by a clock that was put back since.
func jobRule(h proof.History, zero time.Time) proof.JobRule {
	rule := proof.JobRule{Name: "job", Zero: zero.Add(due).UnixMilli()}
	first, last := int64(0), int64(0)
	for _, e := range h {
		if e.Kind != proof.Run || e.Name != rule.Name || e.Manual {
			continue
		}
		if first == 0 || e.Mark < first {
			first = e.Mark
		}
		if e.Recorded > 0 && e.Result == proof.Okay {
			last = max(last, e.Mark)
		}
	}
	for mark := first; mark > 0 && mark <= last; mark += jobEvery.Milliseconds() {
		rule.Expected = append(rule.Expected, mark)
	}
	return rule
}

func elementNames(h proof.History) map[string]bool {
	names := map[string]bool{}
	for _, e := range h {
		if e.Kind == proof.Element {
			names[e.Name] = true
		}
	}
	return names
}
