package verify

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
)

// Work counts when it is known to have succeeded, as work of its kind; an operation counts when its outcome is known.
func TestWhatCounts(t *testing.T) {
	released := func(name string, mark int64, result proof.Result) event {
		e := asked(proof.Release, "a", name, 1, 0, ms, result)
		e.Mark = mark
		return e
	}
	ran := func(kind proof.Kind, result proof.Result) event {
		return event{Event: proof.Event{Kind: kind, Name: "x", Result: result}}
	}
	failed := asked(proof.Acquire, "a", "@n/lock/x", 0, 0, ms, proof.Failed)
	failed.Err = "refused"
	const el = "@n/element/elements/1"
	for _, c := range []struct {
		what                       string
		e                          event
		work                       Work // "" for none
		operations, grants, errors int
	}{
		{"a belief in a lock", believed("a", "@n/lock/x", 1, 0, ms), Locks, 0, 0, 0},
		{"a belief in a permit", believed("a", "@n/semaphore/x", 1, 0, ms), Permits, 0, 0, 0},
		{"a belief in a leadership", believed("a", "@n/leader/x", 1, 0, ms), Leaderships, 0, 0, 0},
		{"a belief in a job", believed("a", "@n/job/job", 1, 0, ms), "", 0, 0, 0},
		{"a run", ran(proof.Run, proof.Okay), Runs, 0, 0, 0},
		{"a run that failed", ran(proof.Run, proof.Failed), "", 0, 0, 0},
		{"a run that has no end", ran(proof.Run, proof.Unknown), "", 0, 0, 0},
		{"a write", ran(proof.Write, proof.Okay), Writes, 0, 0, 0},
		{"a stale write", ran(proof.Write, proof.Stale), "", 0, 0, 0},
		{"a sweep", event{Event: proof.Event{Kind: proof.Swept, Result: proof.Okay}, Count: 1}, Sweeps, 0, 0, 0},
		{"a sweep of nothing", ran(proof.Swept, proof.Okay), "", 0, 0, 0},
		{"an element", released(el, 1, proof.Okay), Elements, 1, 0, 0},
		{"an element that was given back", released(el, 0, proof.Okay), "", 1, 0, 0},
		{"an element whose lease was lost", released(el, 1, proof.Lost), "", 1, 0, 0},
		{"an element that may be recorded", released(el, 1, proof.Unknown), "", 0, 0, 0},
		{"a run that was recorded", released("@n/job/job", 1, proof.Okay), "", 1, 0, 0},
		{"a grant", asked(proof.Acquire, "a", "@n/lock/x", 1, 0, ms, proof.Granted), "", 1, 1, 0},
		{"a refusal", asked(proof.Acquire, "a", "@n/lock/x", 1, 0, ms, proof.Held), "", 1, 0, 0},
		{"a claim without an answer", asked(proof.Acquire, "a", "@n/lock/x", 1, 0, ms, proof.Unknown), "", 0, 0, 0},
		{"an extension", asked(proof.Extend, "a", "@n/lock/x", 1, 0, ms, proof.Okay), "", 1, 0, 0},
		{"an error", failed, "", 1, 0, 1},
		{"a claim that another name was granted for", asked(proof.Acquire, "a", "@n/lock/x", 0, 0, ms, proof.Failed), "", 1, 0, 0},
	} {
		n := newCount(Config{Namespace: "n"})
		n.add(c.e, true)
		want := map[Work]int{}
		if c.work != "" {
			want[c.work] = 1
		}
		if !maps.Equal(n.work, want) || n.operations != c.operations || n.grants != c.grants || n.errors != c.errors {
			t.Errorf("%s: %v, %d operations, %d grants, %d errors", c.what, n.work, n.operations, n.grants, n.errors)
		}
	}
}

// The unsafe clients are caught when the beliefs of two of them overlap, also if those were first told before.
func TestControlIsCaught(t *testing.T) {
	control := func(replica string, at, until time.Duration) event {
		return believed(replica, "@n/"+control, 1, at, until)
	}
	for name, c := range map[string]struct {
		events []event
		caught bool
	}{
		"two at once":                {[]event{control("u1", 0, 10*ms), control("u2", 5*ms, 15*ms)}, true},
		"two whose beliefs go on":    {[]event{control("u1", 0, 2*ms), control("u2", 5*ms, 15*ms), control("u1", 0, 10*ms)}, true},
		"one whose belief goes on":   {[]event{control("u1", 0, 2*ms), control("u1", 0, 10*ms)}, false},
		"one after the other":        {[]event{control("u1", 0, 5*ms), control("u2", 5*ms, 15*ms)}, false},
		"one before the other":       {[]event{control("u1", 50*ms, 60*ms), control("u2", 5*ms, 15*ms)}, false},
		"two who believe in a lock":  {[]event{believed("u1", "@n/lock/x", 1, 0, 10*ms), believed("u2", "@n/lock/x", 2, 5*ms, 15*ms)}, false},
		"two of another namespace's": {[]event{believed("u1", "@m/lock/control", 1, 0, 10*ms), believed("u2", "@m/lock/control", 2, 5*ms, 15*ms)}, false},
	} {
		n, seen := newCount(Config{Namespace: "n"}), map[string]bool{}
		for _, e := range c.events {
			n.add(e, !seen[e.Replica])
			seen[e.Replica] = true
		}
		if n.caught != c.caught {
			t.Errorf("%s: caught: %v", name, n.caught)
		}
	}
}

// reached is a count of a run that shows something if it ends at an instant.
func reached(now time.Duration, faults ...Fault) *count {
	n := newCount(Config{Namespace: "n", sweeper: true})
	for _, w := range works {
		n.work[w], n.last[w] = leastWork[w], now
	}
	for _, f := range faults {
		n.faults[f] = leastFaults
	}
	n.caught = true
	return n
}

// A run goes on until there is the least of each kind of work and of each fault, with work of each kind in its last third, and the
// unsafe clients were caught; one that ends without such work or faults is void for that.
func TestMinimumIsOfEachKind(t *testing.T) {
	span := proof.Span{From: 40 * time.Second, To: 100 * time.Second}
	faults := []Fault{Kill, Slow}
	test := func(name string, want bool, reasons int, change func(*count)) {
		t.Helper()
		n := reached(span.To, faults...)
		change(n)
		if got, why := n.enough(faults, span), n.tooFew(faults, span); got != want || len(why) != reasons {
			t.Errorf("%s: enough: %v, and it is void for %q", name, got, why)
		}
	}
	test("the least", true, 0, func(*count) {})
	test("not caught", false, 0, func(n *count) { n.caught = false }) // which the checker says
	for _, w := range works {
		test("one too few "+string(w), false, 1, func(n *count) { n.work[w]-- })
		test("no "+string(w), false, 1, func(n *count) { delete(n.work, w); delete(n.last, w) })
		test("old "+string(w), false, 1, func(n *count) { n.last[w] = 79 * time.Second })
		test("late "+string(w), true, 0, func(n *count) { n.last[w] = 80 * time.Second })
	}
	for _, f := range faults {
		test("one too few "+string(f), false, 1, func(n *count) { n.faults[f]-- })
	}
	test("no sweeps of a store that forgets by itself", true, 0, func(n *count) { n.sweeper = false; delete(n.work, Sweeps); delete(n.last, Sweeps) })
	test("half of all failed", true, 0, func(n *count) { n.operations, n.errors = 1000, 500 })
	test("more than half failed", true, 1, func(n *count) { n.operations, n.errors = 1000, 501 })
	test("half failed, and most of the others were refused", true, 0, func(n *count) { n.operations, n.errors, n.grants = 1000, 500, 10 })
}

// What was done last is what began last, in whatever order it is told.
func TestLastWorkIsTheLatest(t *testing.T) {
	n := newCount(Config{Namespace: "n"})
	n.add(believed("a", "@n/lock/x", 1, 50*ms, 60*ms), true)
	n.add(believed("b", "@n/lock/y", 1, 20*ms, 30*ms), true)
	if n.last[Locks] != 50*ms {
		t.Errorf("the last lock was held at %v", n.last[Locks])
	}
}

// The least amounts are those with which a run shows something, and the report names them with what was reached.
func TestLeastAmounts(t *testing.T) {
	n := newCount(Config{sweeper: true})
	n.work[Elements], n.faults[Slow] = 7, 9
	want := "[0 locks (of 50) 0 permits (of 20) 0 leaderships (of 5) 0 runs (of 5) 7 elements (of 100) 0 writes (of 20) 0 sweeps (of 5) 9 slow (of 3)]"
	if got := fmt.Sprint(n.amounts([]Fault{Slow})); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if share := n.errorShare(); share != 0 {
		t.Errorf("of no operations a share of %v failed", share)
	}
}

// A run is over when it has lasted as long as it is to last since its work began and has its minimum, when the time for that has
// passed, or when too many replicas have ended.
func TestRunIsOver(t *testing.T) {
	up := fleet.Now()
	started, begun := up/4, up/2
	const short, long = 4, 20 // as parts of eight of up: passed since both, or since neither
	for name, c := range map[string]struct {
		begun       time.Duration // 0 if the work has not
		least, most int           // --for and --within, as parts of eight of up
		lacks       Work
		ended       int
		want        bool
	}{
		"all is reached":                     {begun, short - 1, long, "", 0, true},
		"all is reached soon":                {begun, long, long, "", 0, false},
		"nothing has begun":                  {0, short - 1, long, "", 0, false},
		"too little work":                    {begun, short - 1, long, Locks, 0, false},
		"too little work for long":           {begun, short - 1, short - 1, Locks, 0, true},
		"too little work since a late begin": {begun, short - 1, short + 1, Locks, 0, true},
		"nothing has begun for long":         {0, short - 1, short - 1, "", 0, true},
		"some replicas have ended":           {begun, long, long, "", mostEnded - 1, false},
		"too many replicas have ended":       {begun, long, long, "", mostEnded, true},
	} {
		d := newDirector(Config{Namespace: "n", For: time.Duration(c.least) * up / 8, Within: time.Duration(c.most) * up / 8, Faults: []Fault{Kill}, sweeper: true})
		d.started, d.begun, d.ended = started, c.begun, slices.Repeat([]*fleet.EndedError{{}}, c.ended)
		d.count = reached(2*up, Kill)
		delete(d.count.work, c.lacks)
		if got := d.over(); got != c.want {
			t.Errorf("%s: over: %v", name, got)
		}
		if d.span.From != d.begun || d.span.To < up {
			t.Errorf("%s: begun at %v, and the span is %v", name, d.begun, d.span)
		}
	}
}

// What is told again takes the place of what was told before by that replica, and work begins with the first grant.
func TestDirectorKeepsWhatIsToldLast(t *testing.T) {
	d := newDirector(Config{Namespace: "n", TTL: time.Second})
	tell := func(replica string, id int64, e event) {
		e.Replica, e.ID = replica, id
		d.add(e)
	}
	claim := asked(proof.Acquire, "", "@n/lock/x", 0, ms, proof.Never, proof.Unknown)
	tell("a", 1, claim)
	tell("b", 1, claim)
	if d.begun != 0 || len(d.gauge.took) != 0 || len(d.done) != 0 {
		t.Errorf("before an answer: begun at %v, %d answers, by %v", d.begun, len(d.gauge.took), d.done)
	}
	claim.Result, claim.Token, claim.Until = proof.Granted, 5, 2*ms
	before := fleet.Now()
	tell("a", 1, claim)
	begun := d.begun
	if begun < before || d.done["a"] != 1 || d.done["b"] != 0 || len(d.gauge.took) != 1 {
		t.Errorf("after an answer: begun at %v, %d answers, by %v", begun, len(d.gauge.took), d.done)
	}
	if len(d.events) != 2 || d.events[0].Result != proof.Granted || d.events[0].Replica != "a" ||
		d.events[1].Result != proof.Unknown || d.events[1].Replica != "b" {
		t.Errorf("kept: %+v", d.events)
	}
	for at := fleet.Now(); fleet.Now() <= at; {
	}
	tell("a", 2, claim)
	tell("a", 2, claim)
	fault := event{Event: proof.Event{Kind: proof.Fault, Fault: string(Slow)}}
	tell("a", 0, fault)
	tell("a", 0, fault)
	if d.begun != begun || len(d.events) != 5 || d.count.faults[Slow] != 2 {
		t.Errorf("begun at %v, not %v; kept: %+v; %d faults", d.begun, begun, d.events, d.count.faults[Slow])
	}
}

// The progress is told once the replicas are at work: for how long, and what they have done.
func TestProgressIsToldOnceWorkHasBegun(t *testing.T) {
	var told []Tally
	begun := fleet.Now() / 2
	d := newDirector(Config{TTL: time.Second, Progress: func(at time.Duration, tally Tally) {
		if now := fleet.Now(); at <= 0 || at+begun > now {
			t.Errorf("told of %v of work at %v, which began at %v", at, now, begun)
		}
		told = append(told, tally)
	}})
	d.looked()
	d.count.operations, d.count.grants, d.count.faults = 30, 20, map[Fault]int{Kill: 1, Slow: 2, Repeat: 4}
	d.begun = begun
	if longer := d.looked(); longer != 0 || len(told) != 1 || told[0] != (Tally{30, 20, 7}) {
		t.Errorf("told %+v, and a TTL of %v", told, longer)
	}
	for i := range leastCalls {
		d.gauge.add(asked(proof.Acquire, "a", "x", 1, time.Duration(i)*time.Minute, time.Duration(i)*time.Minute+time.Second, proof.Granted))
	}
	d.gauge.since -= time.Minute
	if longer := d.looked(); longer != 8*time.Second {
		t.Errorf("a TTL of %v, where a store takes a second to answer", longer)
	}
}
