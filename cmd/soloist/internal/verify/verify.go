package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/load"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
)

// A Report is what a verification has found.
type Report struct {
	Verdict    Verdict            `json:"verdict"`
	Void       []string           `json:"void,omitempty"` // why the run shows nothing
	Violations []proof.Violation  `json:"violations,omitempty"`
	Store      store.Capabilities `json:"store"`
	Figures    Figures            `json:"figures"`
	Verdicts   proof.Verdict      `json:"checked"`     // what the checkers have counted
	Minimum    []Amount           `json:"minimum"`     // what was reached of what a run needs to show anything
	MostErrors float64            `json:"errors_most"` // the largest share of operations that may fail
	Seed       uint64             `json:"seed"`
	TTL        time.Duration      `json:"ttl_ns"`       // at the end of the run
	FirstTTL   time.Duration      `json:"ttl_asked_ns"` // at its beginning

	events []event
	span   proof.Span // of the run
	zero   time.Time  // what the wall clock showed at the instant 0 of the history, as late as it was seen; zero if it was not
}

// A Verdict says in a word what a report says.
type Verdict string

// The verdicts.
const (
	Held     Verdict = "held"     // everything that was promised held
	Violated Verdict = "violated" // something that was promised did not hold
	Void     Verdict = "void"     // the run shows nothing: it could not have failed, or is not complete
)

// Run verifies a store. The error is that of a verification that could not be carried out; a store that does not keep
// what is promised is a verdict.
func Run(ctx context.Context, c Config) (*Report, error) {
	if !fleet.Supported {
		return nil, fmt.Errorf("a verification pauses processes, which this system cannot do")
	}
	s, err := c.Open()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	caps, err := store.CapabilitiesOf(ctx, s)
	if err != nil {
		return nil, err
	}
	if caps.Scope == store.ScopeProcess {
		return nil, fmt.Errorf("the store is in the memory of one process, and a verification needs several; give one that processes share")
	}
	_, c.sweeper = store.As[store.Sweeper](s)
	_, c.clockless = store.As[store.Clockless](s)
	begun := fleet.Now()
	d, err := collect(ctx, c)
	if d == nil {
		return nil, err
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute+4*d.TTL)
	defer cancel()
	left, cleaned := load.Clean(bound, s, c.Namespace)
	if err != nil {
		return nil, errors.Join(err, cleaned)
	}
	r := d.report()
	r.Store, r.Seed, r.FirstTTL = caps, c.Seed, c.TTL
	r.Figures.Seconds = (fleet.Now() - begun).Seconds()
	r.check(c)
	r.ended(d.ended)
	if r.Figures.Left = left; cleaned != nil {
		r.Void = append(r.Void, cleaned.Error())
	}
	r.judge()
	return r, nil
}

// report begins the report on what was collected.
func (d *director) report() *Report {
	r := reportOf(d.events)
	r.TTL, r.span, r.zero, r.Void = d.TTL, d.span, d.zero, slices.Clone(d.notes)
	return r
}

// reportOf begins the report on a history.
func reportOf(events []event) *Report {
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.At, b.At) })
	return &Report{Figures: figuresOf(events), MostErrors: mostErrors, events: events}
}

// ended reports replicas that ended by themselves, or crashed as they ended. A replica that crashes breaks a promise: no response of a store is a
// reason to crash.
func (r *Report) ended(all []*fleet.EndedError) {
	for _, e := range all {
		if e.Crashed {
			r.Violations = append(r.Violations, proof.Violation{Checker: crashed, Name: e.Name, Text: e.How + "; it said:\n" + e.Said})
		} else {
			r.Void = append(r.Void, e.Error())
		}
	}
}

// crashed is the checker of replicas that crash.
const crashed = "replicas go on"

// judge draws the verdict from what has been found.
func (r *Report) judge() {
	switch {
	case len(r.Violations) > 0:
		r.Verdict = Violated
	case len(r.Void) > 0:
		r.Verdict = Void
	default:
		r.Verdict = Held
	}
}

// Text is the report for people.
func (r *Report) Text() string {
	var b strings.Builder
	f := r.Figures
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%-14s %s", "store", r.Store.Backend)
	line("%-14s %s: %s", "fencing", r.Store.Fencing.Answer, r.Store.Fencing.Why)
	line("%-14s %.0f s with a TTL of %v, %d replicas, seed %d", "run", f.Seconds, r.TTL, f.Replicas, r.Seed)
	if r.TTL > r.FirstTTL {
		line("%-14s it began with %v, which is less than ten times what the store took to answer", "", r.FirstTTL)
	}
	v := r.Verdicts
	line("%-14s %d: %d grants, %d refusals, %d unknown outcomes, %d errors", "operations", v.Operations, v.Grants, v.Refusals, v.Unknowns, f.Errors)
	line("%-14s %d beliefs, %d runs of a job, %d elements, %d writes, %d of them stale and refused", "work", v.Beliefs, v.Runs, v.Elements, v.Writes, v.Stale)
	var faults []string
	for _, kind := range []Fault{Kill, PauseShort, PauseLong, LoseRequest, LoseReply, Repeat, Slow} {
		if n := f.Faults[kind]; n > 0 {
			text := fmt.Sprintf("%d %s", n, kind)
			if kind == Kill {
				text += fmt.Sprintf(" (%d of holders)", f.OfHolders)
			}
			faults = append(faults, text)
		}
	}
	if len(faults) == 0 {
		faults = []string{"none"}
	}
	line("%-14s %s", "faults", strings.Join(faults, ", "))
	line("%-14s %s; errors %.0f %% (at most %.0f %%)", "minimum", strings.Join(texts(r.Minimum), ", "), 100*f.ErrorShare, 100*r.MostErrors)
	line("%-14s %s", "acquire", f.Acquire)
	line("%-14s %s", "take-over", f.Takeover)
	if v.Unchecked > 0 {
		line("%-14s the order of the replies for %d of the names: too many requests had none, so not all orders can be tried", "unchecked", v.Unchecked)
	}
	for _, violation := range r.Violations {
		line("\nVIOLATION, %s", violation)
	}
	for _, why := range r.Void {
		line("\nVOID: %s", why)
	}
	line("\n%s", r.conclusion())
	return b.String()
}

func texts(amounts []Amount) (all []string) {
	for _, a := range amounts {
		all = append(all, a.String())
	}
	return all
}

func (s Spread) String() string {
	if s.Count == 0 {
		return "none"
	}
	round := func(d time.Duration) time.Duration {
		if d < 10*time.Millisecond {
			return d.Round(10 * time.Microsecond)
		}
		return d.Round(time.Millisecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, at most %v, of %d", round(s.P50), round(s.P99), round(s.Max), s.Count)
}

func (r *Report) conclusion() string {
	switch r.Verdict {
	case Held:
		if n := r.Verdicts.Unchecked; n > 0 {
			return fmt.Sprintf("held: no violation was found; the order of the replies could not be checked for %d of the names", n)
		}
		return "held: no violation was found"
	case Void:
		return "void: this run shows nothing"
	}
	return fmt.Sprintf("violated: %d violations were found", len(r.Violations))
}
