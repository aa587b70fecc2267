package verify

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
)

const ms = time.Millisecond

func asked(kind proof.Kind, replica, name string, token int64, at, until time.Duration, result proof.Result) event {
	return event{Event: proof.Event{Kind: kind, Replica: replica, Name: name, Holder: replica + "1", Token: token, TTL: 1000 * ms, At: at, Until: until, Result: result}}
}

func believed(replica, name string, token int64, at, until time.Duration) event {
	return event{Event: proof.Event{Kind: proof.Belief, Replica: replica, Name: name, Holder: replica + "1", Token: token, At: at, Until: until, Limit: 1}}
}

// judged checks a history in which there was enough of each kind of work, and the two unsafe clients are caught.
func judged(events ...event) *Report {
	r := reportOf(slices.Concat(events, enough(), caught()))
	r.check(Config{Namespace: "n"})
	r.judge()
	return r
}

// caught are the beliefs of the clients that are unsafe on purpose.
func caught() []event {
	return []event{believed("u1", "@n/"+control, 1, 0, 10*ms), believed("u2", "@n/"+control, 2, 5*ms, 15*ms)}
}

// enough is a minimum of work, on names that nothing else is said of.
func enough() (events []event) {
	each := func(w Work, one func(token int64, name string, at time.Duration)) {
		for i := range leastWork[w] {
			one(int64(i+1), "/"+strconv.Itoa(i), time.Duration(i)*ms)
		}
	}
	for w, kind := range map[Work]string{Locks: "lock", Permits: "semaphore", Leaderships: "leader"} {
		each(w, func(token int64, name string, at time.Duration) {
			events = append(events, asked(proof.Acquire, "w", "@n/"+kind+name, token, at, at, proof.Granted), believed("w", "@n/"+kind+name, token, at, at+ms))
		})
	}
	each(Runs, func(token int64, _ string, at time.Duration) {
		events = append(events, event{Event: proof.Event{Kind: proof.Run, Name: "another", Token: token, At: at, Until: at + ms, Result: proof.Okay}})
	})
	each(Elements, func(token int64, name string, at time.Duration) {
		events = append(events, asked(proof.Acquire, "w", "@n/element/of"+name, token, at, at+ms, proof.Granted))
		e := asked(proof.Release, "w", "@n/element/of"+name, token, at+ms, at+2*ms, proof.Okay)
		e.Mark = 1
		events = append(events, e)
	})
	each(Writes, func(token int64, _ string, at time.Duration) {
		events = append(events, event{Event: proof.Event{Kind: proof.Write, Name: "@n/resource", Token: token, At: at, Result: proof.Okay}})
	})
	return events
}

func kept(e event, retain time.Duration) event {
	release := releasing(store.Release{Name: e.Name, Holder: e.Holder, Token: e.Token, Mark: e.Mark, Retain: retain})
	e.Retain = release.Retain
	return e
}

func TestWhatIsWrongIsFound(t *testing.T) {
	begun := func(token, mark int64, at time.Duration) event {
		return event{Event: proof.Event{Kind: proof.Run, Name: "job", Token: token, Mark: mark, At: at, Until: at + ms, Result: proof.Okay}}
	}
	running := func(token, mark int64, at time.Duration) event {
		return event{Event: proof.Event{Kind: proof.Run, Name: "job", Token: token, Mark: mark, At: at, Until: proof.Never, Result: proof.Unknown}}
	}
	ended := func(token, mark int64, at time.Duration) event {
		e := asked(proof.Release, "a", "@n/job/job", token, at, at+ms, proof.Okay)
		e.Mark = mark
		return e
	}
	by := func(replica string, e event) event {
		e.Replica, e.Holder = replica, replica+"1"
		return e
	}
	element := func(token int64, at time.Duration) event {
		return event{Event: proof.Event{Kind: proof.Element, Name: "@n/element/elements/1", Token: token, At: at}}
	}
	done := func(replica string, token int64, at time.Duration) event {
		e := asked(proof.Release, replica, "@n/element/elements/1", token, at, at+ms, proof.Okay)
		e.Mark = 1
		return e
	}
	claim := func(replica string, token int64, at time.Duration, name string) event {
		return asked(proof.Acquire, replica, name, token, at, at+ms, proof.Granted)
	}
	failing := func(e event) event {
		e.Result = proof.Failed
		return e
	}
	lost := func(e event) event {
		e.Result = proof.Lost
		return e
	}
	given := func(e event) event { // back, unprocessed
		e.Mark = 0
		return e
	}
	const job, el = "@n/job/job", "@n/element/elements/1"
	for name, c := range map[string]struct {
		events []event
		want   string // the checker that finds it, "" for none
	}{
		"nothing":                                   {nil, ""},
		"two beliefs at once":                       {[]event{believed("a", "@n/lock/x", 1, 0, 10*ms), believed("b", "@n/lock/x", 2, 9*ms, 20*ms)}, proof.BeliefOverlap},
		"a belief in what nobody was granted":       {[]event{claim("a", 1, 0, "@n/lock/x"), believed("a", "@n/lock/x", 2, 2*ms, 10*ms)}, proof.BeliefInLease},
		"a token that shrinks":                      {[]event{claim("a", 5, 0, "x"), claim("b", 4, 5000*ms, "x")}, proof.Linearizability},
		"a token that shrinks where two are unsafe": {[]event{claim("a", 5, 0, "@n/"+control), claim("b", 4, 5000*ms, "@n/"+control)}, proof.Linearizability},
		"a grant while it's held":                   {[]event{claim("a", 5, 0, "x"), claim("b", 6, 100*ms, "x")}, proof.Linearizability},
		"a grant after the TTL":                     {[]event{claim("a", 5, 0, "x"), claim("b", 6, 1010*ms, "x")}, ""},
		"runs in order": {[]event{claim("a", 1, 0, job), begun(1, 500, 2*ms), ended(1, 500, 4*ms),
			claim("a", 2, 500*ms, job), begun(2, 1000, 502*ms), ended(2, 1000, 504*ms)}, ""},
		"a run that was recorded is run again": {[]event{claim("a", 1, 0, job), begun(1, 500, 2*ms), ended(1, 500, 4*ms), begun(2, 500, 9*ms)}, proof.JobsChecker},
		"a scheduled time is left out": {[]event{claim("a", 1, 0, job), begun(1, 500, 2*ms), ended(1, 500, 4*ms),
			claim("a", 2, 500*ms, job), begun(2, 1500, 502*ms), ended(2, 1500, 504*ms)}, proof.JobsChecker},
		"the first scheduled time is cut off and left out": {[]event{claim("a", 1, 0, job), running(1, 500, 2*ms),
			claim("b", 3, 1010*ms, job), begun(3, 1000, 1012*ms), by("b", ended(3, 1000, 1014*ms))}, "was left out"},
		"the first scheduled time is cut off and run again": {[]event{claim("a", 1, 0, job), running(1, 500, 2*ms),
			claim("b", 3, 1010*ms, job), begun(3, 500, 1012*ms), by("b", ended(3, 500, 1014*ms))}, ""},
		"a mark that a sweep has forgotten too early": {[]event{claim("a", 3, 0, el), kept(done("a", 3, 2*ms), time.Hour),
			{Event: proof.Event{Kind: proof.Swept, At: 5 * ms}}, claim("b", 4, 9*ms, el)}, proof.Linearizability},
		"a mark that a sweep may forget": {[]event{claim("a", 3, 0, el), kept(done("a", 3, 2*ms), ms),
			{Event: proof.Event{Kind: proof.Swept, At: 5 * ms}}, claim("b", 4, 9*ms, el)}, ""},
		"a grant 5 % before the TTL":                       {[]event{claim("a", 5, 0, "x"), claim("b", 6, 949*ms, "x")}, proof.Linearizability},
		"a grant before the TTL by a clock that runs fast": {[]event{claim("a", 5, 0, "x"), claim("b", 6, 992*ms, "x")}, ""},
		"the last run failed": {[]event{claim("a", 1, 0, job), begun(1, 500, 2*ms), ended(1, 500, 4*ms),
			claim("a", 2, 500*ms, job), failing(begun(2, 1000, 502*ms)), ended(2, 1000, 504*ms)}, ""},
		"an element that was given back": {[]event{claim("a", 3, 0, el), element(3, ms), given(done("a", 3, 2*ms)),
			claim("b", 4, 5*ms, el), element(4, 9*ms), done("b", 4, 20*ms)}, ""},
		"an element whose lease was lost": {[]event{claim("a", 3, 0, el), element(3, ms),
			claim("b", 4, 1010*ms, el), lost(done("a", 3, 1020*ms)), element(4, 1030*ms), done("b", 4, 1040*ms)}, ""},
		"an element":                 {[]event{claim("a", 3, 0, el), element(3, ms), done("a", 3, 2*ms)}, ""},
		"an element processed again": {[]event{claim("a", 3, 0, el), element(3, ms), done("a", 3, 2*ms), element(4, 9*ms)}, proof.ElementsChecker},
		"an element processed again, before its release is repeated": {[]event{claim("a", 3, 0, el), element(3, ms), done("a", 3, 2*ms), element(4, 9*ms), done("a", 3, 20*ms)}, proof.ElementsChecker},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.events {
				if c.events[i].Kind == proof.Acquire && strings.HasSuffix(c.events[i].Name, job) && c.events[i].Token == 2 {
					c.events[i].Seen = 500
				}
			}
			r := judged(c.events...)
			if c.want == "" && len(r.Violations) > 0 || c.want != "" && (len(r.Violations) == 0 || !strings.Contains(r.Text(), c.want)) {
				t.Errorf("want %q, found %v", c.want, r.Violations)
			}
			if want := map[bool]Verdict{true: Held, false: Violated}[c.want == ""]; r.Verdict != want {
				t.Errorf("the verdict is %s, want %s", r.Verdict, want)
			}
		})
	}
}

// TestWhatCannotBeCheckedIsTold has a refusal that no order explains, because of a lease that had ended, beside so many claims without an answer that
// not all orders can be tried.
func TestWhatCannotBeCheckedIsTold(t *testing.T) {
	events := []event{asked(proof.Acquire, "x", "lock", 1, 0, ms, proof.Granted), asked(proof.Acquire, "x", "lock", 1, 9000*ms, 9001*ms, proof.Held)}
	for i := range 40 {
		events = append(events, asked(proof.Acquire, "h"+strconv.Itoa(i), "lock", 0, 2*ms, proof.Never, proof.Unknown))
	}
	r := judged(events...)
	if len(r.Violations) == 0 && !strings.HasSuffix(r.Text(), "the order of the replies could not be checked for 1 of the names\n") {
		t.Errorf("it is not told that something could not be checked:\n%s", r.Text())
	}
}

func TestRunThatShowsNothingIsVoid(t *testing.T) {
	struck := func(f Fault, n int) (events []event) {
		for i := range n {
			events = append(events, faulted(f, "w", time.Duration(i)*ms, time.Duration(i+1)*ms))
		}
		return events
	}
	failing := func(n int) (events []event) {
		for range n {
			events = append(events, event{Event: proof.Event{Kind: proof.Acquire, Name: "@n/lock/x", Result: proof.Failed}, Err: "refused"})
		}
		return events
	}
	for name, c := range map[string]struct {
		events []event
		faults []Fault
		want   string // of the reasons, "" for a run that held
	}{
		"enough":                            {slices.Concat(enough(), caught(), struck(Kill, leastFaults)), []Fault{Kill}, ""},
		"nothing":                           {nil, nil, "too few locks: 0, and at least 50 are needed"},
		"the unsafe clients are not caught": {enough(), nil, "not caught"},
		"a store that forgets on request, and was not asked": {slices.Concat(enough(), caught()), nil, "too few sweeps: 0"},
		"too few faults":                         {slices.Concat(enough(), caught(), struck(Kill, leastFaults-1)), []Fault{Kill}, "too few kill: 2"},
		"a kind of work that was always refused": {slices.DeleteFunc(slices.Concat(enough(), caught()), func(e event) bool { return e.Kind == proof.Run }), nil, "too few runs: 0"},
		"errors":                                 {slices.Concat(enough(), caught(), failing(2000)), nil, "too many errors: 2000 of 2275 operations (88 %)"},
	} {
		t.Run(name, func(t *testing.T) {
			r := reportOf(c.events)
			r.check(Config{Namespace: "n", Faults: c.faults, sweeper: strings.Contains(name, "forgets")})
			r.judge()
			if (r.Verdict == Held) != (c.want == "") || r.Verdict != Held && r.Verdict != Void {
				t.Errorf("the verdict is %s: %q", r.Verdict, r.Void)
			}
			if !strings.Contains(strings.Join(r.Void, "\n"), c.want) || !strings.Contains(r.Text(), c.want) {
				t.Errorf("%q is not among the reasons: %q", c.want, r.Void)
			}
			if c.want == "" != (len(r.Void) == 0) || name == "errors" && (r.Figures.Errors != 2000 || r.Figures.ErrorShare < 0.87 || r.Figures.ErrorShare > 0.89) {
				t.Errorf("void is %q, and %d errors are %v of all", r.Void, r.Figures.Errors, r.Figures.ErrorShare)
			}
			if len(r.Minimum) != len(leastWork)-1+len(c.faults) && !strings.Contains(name, "forgets") { // without sweeps
				t.Errorf("what was reached is not in the report: %v", r.Minimum)
			}
		})
	}
}

// A run in which a kind of work stopped says nothing of what came after that, however much there was before.
func TestWorkThatStopsIsVoid(t *testing.T) {
	late := func(w Work) (events []event) {
		for _, e := range slices.Concat(enough(), caught()) {
			n := newCount(Config{Namespace: "n"})
			if n.add(e, true); n.work[w] == 0 && e.Kind != proof.Acquire { // all but this kind goes on
				again := e
				again.Token, again.At, again.Until = e.Token+1000, e.At+time.Hour, e.Until+time.Hour
				events = append(events, again)
			}
		}
		return events
	}
	for _, w := range slices.Concat([]Work{"none"}, works) {
		if w == Sweeps { // the store forgets by itself
			continue
		}
		r := reportOf(slices.Concat(enough(), caught(), late(w)))
		r.span = proof.Span{To: time.Hour}
		r.check(Config{Namespace: "n"})
		if reason := fmt.Sprintf("no %s in the last third of the run", w); slices.Contains(r.Void, reason) != (w != "none") {
			t.Errorf("without %s after the beginning: %q", w, r.Void)
		}
	}
}

// A run that began when it was due began in time, also if the wall clock was put back afterwards.
func TestClockThatIsPutBack(t *testing.T) {
	shown := zero().Add(500 * ms) // before it was put back
	at := time.Minute
	run := event{Event: proof.Event{Kind: proof.Run, Name: "job", Token: 1, Mark: shown.Add(at).UnixMilli(), At: at, Until: at + ms, Result: proof.Okay}}
	granted := asked(proof.Acquire, "a", "@n/job/job", 1, at-ms, at, proof.Granted)
	for _, seen := range []time.Time{shown, {}} {
		r := reportOf(slices.Concat([]event{granted, run}, enough(), caught()))
		r.zero = seen
		r.check(Config{Namespace: "n"})
		early := slices.ContainsFunc(r.Violations, func(v proof.Violation) bool { return v.Checker == proof.JobsChecker })
		if early != seen.IsZero() {
			t.Errorf("if the clock was seen before it was put back: %v, violations: %v", !seen.IsZero(), r.Violations)
		}
	}
}

// A run may begin as much before it is due by the clock of this host as clocks are set at a time, and no sooner.
func TestRunBeginsWhenItIsDue(t *testing.T) {
	shown := zero().Add(time.Hour) // later than now, so that it is what counts
	at := time.Minute
	for early, want := range map[time.Duration]bool{40 * ms: true, 300 * ms: false} {
		mark := shown.Add(at + early).UnixMilli()
		r := reportOf(slices.Concat(enough(), caught(), []event{asked(proof.Acquire, "a", "@n/job/job", 1, at-ms, at, proof.Granted),
			{Event: proof.Event{Kind: proof.Run, Name: "job", Token: 1, Mark: mark, At: at, Until: at + ms, Result: proof.Okay}}}))
		r.zero = shown
		if r.check(Config{Namespace: "n"}); (len(r.Violations) == 0) != want {
			t.Errorf("a run that began %v before it was due: %v", early, r.Violations)
		}
	}
}

// The clients that are unsafe on purpose are caught when both believe in their lock at once, and not by less.
func TestUnsafeClientsAreCaughtTogether(t *testing.T) {
	alone := believed("u1", "@n/"+control, 1, 0, 10*ms)
	for name, events := range map[string][]event{
		"one": {alone}, "one after the other": {alone, believed("u2", "@n/"+control, 2, 10*ms, 15*ms)},
		"two of another name": {alone, believed("a", "@n/lock/x", 1, 0, 10*ms), believed("b", "@n/lock/x", 2, 5*ms, 15*ms)},
	} {
		r := reportOf(slices.Concat(enough(), events))
		r.check(Config{Namespace: "n"})
		if why := "the two clients that are unsafe on purpose were not caught"; !slices.Contains(r.Void, why) {
			t.Errorf("%s: void is %q, want %q", name, r.Void, why)
		}
		if other := name == "two of another name"; (len(r.Violations) > 0) != other {
			t.Errorf("%s: violations: %v", name, r.Violations)
		}
	}
}

// What the unsafe clients have shown is not told, and what is told comes once, in the order of the checkers and of the names.
func TestViolationsAreToldOnceAndInOrder(t *testing.T) {
	var events []event
	for _, name := range []string{"@n/lock/b", "@n/lock/a"} {
		events = append(events, asked(proof.Acquire, "a", name, 5, 0, ms, proof.Granted), asked(proof.Acquire, "b", name, 4, 5000*ms, 5001*ms, proof.Granted),
			believed("a", name, 5, 2*ms, 10*ms), believed("b", name, 4, 3*ms, 9*ms))
	}
	r := judged(events...)
	if len(r.Verdicts.Violations) > 0 {
		t.Errorf("told beside the violations: %v", r.Verdicts.Violations)
	}
	var told []string
	for _, v := range r.Violations {
		told = append(told, v.Checker+" of "+v.Name)
	}
	if len(told) < 4 || !slices.IsSorted(told) {
		t.Errorf("told in the order %q", told)
	}
}

// The report is on what its director has seen.
func TestReportIsOfWhatTheDirectorSaw(t *testing.T) {
	d := &director{Config: Config{TTL: 7 * time.Second}, span: proof.Span{From: time.Hour, To: 2 * time.Hour}, zero: time.Unix(5, 0)}
	d.events = []event{believed("a", "x", 2, 2*ms, 3*ms), believed("a", "x", 1, ms, 3*ms)}
	r := d.report()
	if r.TTL != d.TTL || r.span != d.span || !r.zero.Equal(d.zero) || r.MostErrors != mostErrors {
		t.Errorf("of a TTL of %v, the span %v, the wall clock %v, and at most %v of errors", r.TTL, r.span, r.zero, r.MostErrors)
	}
	if len(r.events) != 2 || r.events[0].At > r.events[1].At {
		t.Errorf("events are not in the order of their beginnings: %v", r.events)
	}
}

// A replica that crashes is a violation, with what it said; one that ends by itself is a reason for the run to be void.
func TestReplicasThatEndAreTold(t *testing.T) {
	for want, crash := range map[Verdict]bool{Violated: true, Void: false} {
		r := judged()
		r.ended([]*fleet.EndedError{{Name: "r7", How: "exit status 2", Said: "its last words", Crashed: crash}})
		r.judge()
		if r.Verdict != want || !crash && len(r.Violations) > 0 || crash && len(r.Void) > 0 {
			t.Errorf("crashed: %v; the verdict is %s: %v, %q", crash, r.Verdict, r.Violations, r.Void)
		}
		for _, part := range []string{"r7", "exit status 2", "its last words"} {
			if text := r.Text(); !strings.Contains(text, part) {
				t.Errorf("crashed: %v; %q is not told:\n%s", crash, part, text)
			}
		}
	}
}

// The director keeps the latest that the wall clock has shown.
func TestLatestWallClockIsKept(t *testing.T) {
	d := newDirector(Config{})
	d.over()
	before := d.zero.Add(time.Hour) // from which it is put back
	d.zero = before
	if d.over(); d.zero.IsZero() || !d.zero.Equal(before) {
		t.Errorf("the wall clock showed %v at the instant 0, and %v is kept", before, d.zero)
	}
}

// A store without a clock may refuse a name for longer than its lease lasts, to a process that first sees it.
func TestLateRefusalsOfAStoreWithoutAClock(t *testing.T) {
	granted := asked(proof.Acquire, "a", "@n/lock/y", 1, 0, 10*ms, proof.Granted)
	refused := asked(proof.Acquire, "b", "@n/lock/y", 1, 1500*ms, 1600*ms, proof.Held)
	for _, clockless := range []bool{false, true} {
		r := reportOf(slices.Concat([]event{granted, refused}, enough(), caught()))
		r.check(Config{Namespace: "n", clockless: clockless})
		if got := len(r.Violations) == 0; got != clockless {
			t.Errorf("clockless: %v; violations: %v", clockless, r.Violations)
		}
	}
}

// A violation that was found is the verdict, also of a run that is void in another respect.
func TestViolationOutweighsWhatIsVoid(t *testing.T) {
	r := reportOf([]event{believed("a", "@n/lock/x", 1, 0, 10*ms), believed("b", "@n/lock/x", 2, 9*ms, 20*ms)})
	r.check(Config{Namespace: "n"})
	r.judge()
	if r.Verdict != Violated || len(r.Void) == 0 {
		t.Errorf("the verdict is %s, and void is %q; want %s, and that there was not enough work", r.Verdict, r.Void, Violated)
	}
}

// A run is void for what its director has noted, as of a replica that did not end and had to be killed: the rest of its history is lost.
func TestNotesMakeARunVoid(t *testing.T) {
	d := &director{notes: []string{"replica a was told to end and did not"}}
	d.events = slices.Concat(enough(), caught())
	r := d.report()
	r.check(Config{Namespace: "n"})
	r.judge()
	if r.Verdict != Void || !strings.Contains(r.Text(), d.notes[0]) {
		t.Errorf("the verdict is %s, because of %q", r.Verdict, r.Void)
	}
}

// A belief is reported again and again while it lasts, and is one piece of work.
func TestBeliefIsCountedOnce(t *testing.T) {
	n := newCount(Config{Namespace: "n"})
	for _, first := range []bool{true, false, false} {
		n.add(believed("a", "@n/lock/x", 1, 0, 10*ms), first)
	}
	if n.work[Locks] != 1 {
		t.Errorf("one lock counts as %d", n.work[Locks])
	}
}

func TestReportTellsOfViolations(t *testing.T) {
	r := judged(believed("a", "@n/lock/x@3", 1, 0, 10*ms), believed("<script>", "@n/lock/x@3", 2, 9*ms, 20*ms))
	if text := r.Text(); !strings.Contains(text, "VIOLATION, belief overlap") || !strings.Contains(text, "token 2") {
		t.Errorf("the text does not show it:\n%s", text)
	}
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	if text := page.String(); !strings.Contains(text, ">lock/x<") || strings.Contains(text, "<script>") {
		t.Errorf("the page lacks the lane or has markup of others in it:\n%s", text)
	}
}

// The whole history can be judged again by package proof, which finds what the report contains.
func TestHistoryIsComplete(t *testing.T) {
	r := judged(believed("a", "@n/lock/x@3", 1, 0, 10*ms), believed("b", "@n/lock/x@3", 2, 9*ms, 20*ms),
		event{Event: proof.Event{Kind: proof.Acquire, Name: "@n/lock/y", Result: proof.Failed}, Err: "refused\nby \x1b[31m the server", ID: 5},
		kept(event{Event: proof.Event{Kind: proof.Release, Name: "n/lock/z", Result: proof.Unknown, Until: proof.Never}, ID: 6}, time.Hour))
	var lines bytes.Buffer
	if err := r.History(&lines); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(lines.String(), `"err":"refused\nby \u001b[31m the server"`) || strings.Contains(lines.String(), "\x1b") {
		t.Error("the error is not there, or not quoted")
	}
	h, err := proof.Read(&lines)
	if err != nil {
		t.Fatal(err)
	}
	for i := range h { // an event of this package has keys beside those of package proof
		if h[i] != r.events[i].Event {
			t.Fatalf("event %d was %v and is read as %v", i, r.events[i].Event, h[i])
		}
	}
	found := proof.Check(h, proof.Rules{Drift: drift}).Violations
	if len(h) != len(r.events) || !slices.ContainsFunc(found, func(v proof.Violation) bool { return v.Checker == proof.BeliefOverlap && v.Name == "@n/lock/x@3" }) {
		t.Errorf("%d events of %d, and found %v", len(h), len(r.events), found)
	}
}

func TestTakeOver(t *testing.T) {
	const announcement, element = "@n/replica/c", "@n/element/job/4711"
	f := figuresOf([]event{
		asked(proof.Acquire, "a", "x", 5, 0, 5*ms, proof.Granted), asked(proof.Acquire, "a", element, 1, 6*ms, 7*ms, proof.Granted), faulted(Kill, "a", 50*ms, 51*ms),
		asked(proof.Acquire, "b", "x", 6, 1100*ms, 1200*ms, proof.Granted),
		asked(proof.Acquire, "c", announcement, 1, 1300*ms, 1301*ms, proof.Granted), faulted(Kill, "c", 1302*ms, 1303*ms),
		asked(proof.Acquire, "b", element, 2, 5000*ms, 5001*ms, proof.Granted), // nobody has waited for it
		asked(proof.Acquire, "d", announcement, 2, 9000*ms, 9001*ms, proof.Granted),
		asked(proof.Acquire, "e", "y", 1, 9100*ms, 9101*ms, proof.Granted), asked(proof.Release, "e", "y", 1, 9102*ms, 9103*ms, proof.Lost), faulted(Kill, "e", 9104*ms, 9105*ms), // it knew that it held nothing
		asked(proof.Acquire, "b", "y", 2, 9200*ms, 9201*ms, proof.Granted),
	})
	if f.OfHolders != 1 || f.Takeover.Count != 1 || f.Takeover.Max != 1150*ms {
		t.Errorf("take-over: %+v, kills of holders: %d", f.Takeover, f.OfHolders)
	}
}

func TestParseFaults(t *testing.T) {
	all, err := ParseFaults("all")
	if err != nil || len(all) != 7 {
		t.Errorf("all: %v, %v", all, err)
	}
	if some, err := ParseFaults("pause, kill,pause"); err != nil || len(some) != 3 {
		t.Errorf("pause, kill: %v, %v", some, err)
	}
	if none, err := ParseFaults("none"); err != nil || len(none) != 0 {
		t.Errorf("none: %v, %v", none, err)
	}
	if _, err := ParseFaults("meteor"); err == nil || !strings.Contains(err.Error(), "meteor") {
		t.Errorf("meteor: %v", err)
	}
}
