package verify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/internal/records"
)

// A Work is a kind of work that replicas do.
type Work string

// The kinds of work, each counted when it is known to have succeeded.
const (
	Locks       Work = "locks"       // that somebody held
	Permits     Work = "permits"     // that somebody held
	Leaderships Work = "leaderships" // that somebody held
	Runs        Work = "runs"        // of a job, ended
	Elements    Work = "elements"    // recorded as processed
	Writes      Work = "writes"      // that the guarded resource accepted
	Sweeps      Work = "sweeps"      // by which the store forgot something; where it forgets on request
)

// works are the kinds of work in the order in which they are shown.
var works = []Work{Locks, Permits, Leaderships, Runs, Elements, Writes, Sweeps}

// leastWork is how much of each kind of work a run needs to show anything. leastFaults is how often each kind of fault
// must have taken effect.
var leastWork = map[Work]int{Locks: 50, Permits: 20, Leaderships: 5, Runs: 5, Elements: 100, Writes: 20, Sweeps: 5}

const leastFaults = 3

// mostErrors is the largest share of operations that may fail plainly in a run that shows something. A store that is
// away for a part of the run fails fast, and often.
const mostErrors = 0.5

// An Amount is how much there was of a kind of work or fault, and how much is needed at least.
type Amount struct {
	Kind    string `json:"kind"`
	Reached int    `json:"reached"`
	Least   int    `json:"least"`
}

func (a Amount) String() string { return fmt.Sprintf("%d %s (of %d)", a.Reached, a.Kind, a.Least) }

// A count is what a history has reached so far.
type count struct {
	namespace  string
	operations int // whose outcome is known
	grants     int
	errors     int
	work       map[Work]int
	last       map[Work]time.Duration // when it was done last
	faults     map[Fault]int
	sweeper    bool // the store forgets on request
	caught     bool // the clients that are unsafe on purpose have believed in one lock at once

	believed map[string]event // by replica, the last beliefs of those clients
}

func newCount(c Config) *count {
	return &count{namespace: c.Namespace, sweeper: c.sweeper, work: map[Work]int{}, last: map[Work]time.Duration{}, faults: map[Fault]int{}, believed: map[string]event{}}
}

// add counts an event. What is told more than once is counted when its outcome is known; a belief when it is told
// first.
func (n *count) add(e event, first bool) {
	kind, name := n.kindOf(e.Name)
	switch {
	case e.Kind == proof.Belief && name == control:
		n.control(e)
	case e.Kind == proof.Belief && first:
		if held, ok := map[string]Work{"lock": Locks, "semaphore": Permits, "leader": Leaderships}[kind]; ok {
			n.did(held, e)
		}
	case e.Kind == proof.Run && e.Result == proof.Okay:
		n.did(Runs, e)
	case e.Kind == proof.Write && e.Result == proof.Okay:
		n.did(Writes, e)
	case e.Kind == proof.Swept && e.Count > 0:
		n.did(Sweeps, e)
	case e.Kind == proof.Fault:
		n.faults[Fault(e.Fault)]++
	case operation(e) && e.Result != proof.Unknown:
		n.operation(e, kind)
	}
}

func (n *count) did(w Work, e event) {
	n.work[w]++
	n.last[w] = max(n.last[w], e.At)
}

// stopped are the kinds of work of which there was none in the last third of a span.
func (n *count) stopped(span proof.Span) (all []Work) {
	for _, w := range n.works() {
		if n.last[w] < span.To-(span.To-span.From)/3 {
			all = append(all, w)
		}
	}
	return all
}

// works are the kinds of work that the store allows.
func (n *count) works() []Work {
	return slices.DeleteFunc(slices.Clone(works), func(w Work) bool { return w == Sweeps && !n.sweeper })
}

func (n *count) kindOf(record string) (kind, name string) {
	name = strings.TrimPrefix(record, records.In(n.namespace))
	kind, _, _ = strings.Cut(name, "/")
	return kind, name
}

func operation(e event) bool {
	return e.Kind == proof.Acquire || e.Kind == proof.Extend || e.Kind == proof.Release
}

func (n *count) operation(e event, kind string) {
	n.operations++
	switch {
	case e.Result == proof.Granted:
		n.grants++
	case e.Result == proof.Failed && e.Err != "":
		n.errors++
	case e.Kind == proof.Release && e.Result == proof.Okay && e.Mark > 0 && kind == "element":
		n.did(Elements, e)
	}
}

// control notes a belief of a client that is unsafe on purpose.
func (n *count) control(e event) {
	n.believed[e.Replica] = e
	for replica, other := range n.believed {
		if replica != e.Replica && max(e.At, other.At) < min(e.Until, other.Until) {
			n.caught = true
		}
	}
}

// amounts are what has been reached of what a run with these faults needs.
func (n *count) amounts(faults []Fault) []Amount {
	var all []Amount
	for _, w := range n.works() {
		all = append(all, Amount{string(w), n.work[w], leastWork[w]})
	}
	for _, f := range faults {
		all = append(all, Amount{string(f), n.faults[f], leastFaults})
	}
	return all
}

// enough reports whether the run shows something if it ends now. The span is from when the work began until now.
func (n *count) enough(faults []Fault, span proof.Span) bool {
	for _, a := range n.amounts(faults) {
		if a.Reached < a.Least {
			return false
		}
	}
	return n.caught && len(n.stopped(span)) == 0
}

// tooFew reports why a run with this count shows nothing; it returns nothing if it does.
func (n *count) tooFew(faults []Fault, span proof.Span) (why []string) {
	for _, a := range n.amounts(faults) {
		if a.Reached < a.Least {
			why = append(why, fmt.Sprintf("too few %s: %d, and at least %d are needed", a.Kind, a.Reached, a.Least))
		}
	}
	for _, w := range n.stopped(span) {
		if n.work[w] > 0 {
			why = append(why, fmt.Sprintf("no %s in the last third of the run", w))
		}
	}
	if share := n.errorShare(); share > mostErrors {
		why = append(why, fmt.Sprintf("too many errors: %d of %d operations (%.0f %%), and at most %.0f %% may fail",
			n.errors, n.operations, 100*share, 100*mostErrors))
	}
	return why
}

func (n *count) errorShare() float64 { return float64(n.errors) / float64(max(1, n.operations)) }
