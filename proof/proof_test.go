package proof

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const s = time.Second

func acquire(at, until time.Duration, holder string, token int64, result Result) Event {
	return Event{Kind: Acquire, At: at, Until: until, Replica: holder[:1], Name: "n", Holder: holder, Token: token, TTL: 10 * s, Result: result}
}

func extend(at, until time.Duration, holder string, token int64, result Result) Event {
	return Event{Kind: Extend, At: at, Until: until, Replica: holder[:1], Name: "n", Holder: holder, Token: token, TTL: 10 * s, Result: result}
}

func release(at, until time.Duration, holder string, token int64, result Result) Event {
	return Event{Kind: Release, At: at, Until: until, Replica: holder[:1], Name: "n", Holder: holder, Token: token, Result: result}
}

func with(e Event, change func(*Event)) Event {
	change(&e)
	return e
}

// did makes an event one of a watched store: it took effect in the middle.
func did(e Event, result Result) Event {
	e.Took, e.Did, e.DidToken = e.At+(min(e.Until, e.At+2*s)-e.At)/2, result, e.Token
	return e
}

func belief(at, until time.Duration, holder string, token int64) Event {
	return Event{Kind: Belief, At: at, Until: until, Replica: holder[:1], Name: "n", Holder: holder, Token: token}
}

func run(scheduled, at, until time.Duration, token int64, result Result, recorded time.Duration) Event {
	return Event{Kind: Run, At: at, Until: until, Name: "job", Token: token, Mark: scheduled.Milliseconds(), Attempt: 1, Result: result, Recorded: recorded}
}

// attempt is the holder of the lease of a token: each attempt of a replica has its own.
func attempt(token int64) string { return "a#" + strconv.FormatInt(token, 10) }

// everyTen is the schedule of the jobs here.
func everyTen(after int64) int64 { return (after/10_000 + 1) * 10_000 }

func grant(at time.Duration, token int64, ttl time.Duration) Event {
	return Event{Kind: Acquire, At: at, Until: at + 2, Replica: "a", Name: "job", Holder: attempt(token), Token: token, TTL: ttl, Result: Granted, Took: at + 1, Did: Granted, DidToken: token}
}

func markRaised(at time.Duration, token int64, mark time.Duration) Event {
	return Event{Kind: Release, At: at, Until: at + 2, Replica: "a", Name: "job", Holder: attempt(token), Token: token, Mark: mark.Milliseconds(), Result: Okay, Took: at + 1, Did: Okay, DidToken: token}
}

// TestCheckers gives each checker histories that it must find fault with, and some that it must not.
func TestCheckers(t *testing.T) {
	job := JobRule{Name: "job", Next: everyTen}
	element := func(at, until, recorded time.Duration) Event {
		return Event{Kind: Element, Name: "e", At: at, Until: until, Result: Okay, Recorded: recorded}
	}
	elements := Rules{Elements: []ElementRule{{Names: map[string]bool{"e": true}, MustBeDone: true}}}
	jobs := func(change func(*JobRule)) Rules {
		r := job
		if change != nil {
			change(&r)
		}
		return Rules{Jobs: []JobRule{r}}
	}
	missed := func(policy string) Rules {
		return jobs(func(r *JobRule) { r.Record, r.Missed = "job", Missed{policy, 2, 5 * s} })
	}
	// A run of 10 s is recorded, then everybody is away until 48 s, when 20, 30 and 40 are missed.
	away := func(picks time.Duration) History {
		return History{
			grant(10*s, 1, 5*s), run(10*s, 10*s+5, 11*s, 1, Okay, 11*s+5), markRaised(11*s, 1, 10*s),
			with(grant(48*s, 2, 5*s), func(e *Event) { e.Seen = 10_000 }), run(picks, 48*s+5, 49*s, 2, Okay, 49*s+5), markRaised(49*s, 2, picks),
		}
	}
	tests := []struct {
		name  string
		h     History
		rules Rules
		want  string // the checker; "" for a good history
	}{
		{"one after the other", History{acquire(0, s, "a", 1, Granted), release(2*s, 3*s, "a", 1, Okay), acquire(4*s, 5*s, "b", 2, Granted)}, Rules{}, ""},
		{"two at once", History{acquire(0, s, "a", 1, Granted), acquire(4*s, 5*s, "b", 2, Granted)}, Rules{}, Linearizability},
		{"after the end of the lease", History{acquire(0, s, "a", 1, Granted), acquire(10*s, 11*s, "b", 2, Granted)}, Rules{}, ""},
		{"a little early, with drift", History{acquire(0, 0, "a", 1, Granted), acquire(9*s, 9*s+s/2, "b", 2, Granted)}, Rules{Drift: 0.1}, ""},
		{"a little early, without", History{acquire(0, 0, "a", 1, Granted), acquire(9*s, 9*s+s/2, "b", 2, Granted)}, Rules{}, Linearizability},
		{"held by nobody", History{acquire(0, s, "a", 0, Held)}, Rules{}, Linearizability},
		{"held by what nobody was told of", History{acquire(0, Never, "a", 0, Unknown), acquire(2*s, 3*s, "b", 7, Held)}, Rules{}, ""},
		{"asked again", History{acquire(0, Never, "a", 0, Unknown), acquire(2*s, 3*s, "a", 7, Granted)}, Rules{}, ""},
		{"another token when asked again", History{acquire(0, s, "a", 1, Granted), acquire(2*s, 3*s, "a", 2, Granted)}, Rules{}, Linearizability},
		{"revived", History{acquire(0, s, "a", 1, Granted), extend(12*s, 13*s, "a", 1, Okay)}, Rules{}, Linearizability},
		{"extended", History{acquire(0, s, "a", 1, Granted), extend(8*s, 9*s, "a", 1, Okay), acquire(15*s, 16*s, "b", 1, Held)}, Rules{}, ""},
		{"lost without a reason", History{acquire(0, s, "a", 1, Granted), extend(2*s, 3*s, "a", 1, Lost)}, Rules{}, Linearizability},
		{"released by a stranger", History{acquire(0, s, "a", 1, Granted), release(2*s, 3*s, "b", 1, Okay)}, Rules{}, Linearizability},
		{"released twice", History{acquire(0, s, "a", 1, Granted), release(2*s, 3*s, "a", 1, Okay), release(4*s, 5*s, "a", 1, Okay)}, Rules{}, ""},
		{"lingers", History{acquire(0, s, "a", 1, Granted), with(release(2*s, 3*s, "a", 1, Okay), func(e *Event) { e.Linger = 5 * s }), acquire(4*s, 5*s, "b", 2, Granted)}, Rules{}, Linearizability},
		{"granted although it is done", History{acquire(0, s, "a", 1, Granted), with(release(2*s, 3*s, "a", 1, Okay), func(e *Event) { e.Mark = 1 }),
			with(acquire(4*s, 5*s, "b", 2, Granted), func(e *Event) { e.Mark, e.Seen = 1, 1 })}, Rules{}, Linearizability},
		{"done although it is not", History{with(acquire(4*s, 5*s, "b", 0, Done), func(e *Event) { e.Mark = 1 })}, Rules{}, Linearizability},

		{"beliefs that touch", History{belief(0, s, "a", 1), belief(s, 2*s, "b", 2)}, Rules{}, ""},
		{"two that believe", History{belief(0, s+1, "a", 1), belief(s, 2*s, "b", 2)}, Rules{}, BeliefOverlap},
		{"three of two", slices.Repeat(History{{Kind: Belief, Name: "p", Until: s, Limit: 2}}, 3), Rules{}, BeliefOverlap},
		{"two of two", slices.Repeat(History{{Kind: Belief, Name: "p", Until: s, Limit: 2}}, 2), Rules{}, ""},
		{"taken away by force", History{belief(0, 3*s, "a", 1), {Kind: Forced, At: s, Name: "n", Token: 1}, belief(2*s, 4*s, "b", 2)}, Rules{}, ""},

		{"a smaller token", History{acquire(0, s, "a", 5, Granted), acquire(20*s, 21*s, "b", 4, Granted)}, Rules{}, TokenOrder},
		{"the same token", History{acquire(0, s, "a", 5, Granted), acquire(20*s, 21*s, "b", 5, Granted)}, Rules{}, TokenOrder},
		{"no token", History{acquire(0, s, "a", 0, Granted)}, Rules{}, TokenOrder},

		{"a stale write", History{{Kind: Write, At: s, Name: "r", Token: 2, Result: Okay}, {Kind: Write, At: 2 * s, Name: "r", Token: 1, Result: Okay}}, Rules{}, FencedResource},
		{"a stale write is refused", History{{Kind: Write, At: s, Name: "r", Token: 2, Result: Okay}, {Kind: Write, At: 2 * s, Name: "r", Token: 1, Result: Stale}}, Rules{}, ""},
		{"a good write is refused", History{{Kind: Write, At: s, Name: "r", Token: 2, Result: Okay}, {Kind: Write, At: 2 * s, Name: "r", Token: 2, Result: Stale}}, Rules{}, FencedResource},

		{"believed in for too long", History{did(acquire(0, s, "a", 1, Granted), Granted), belief(s, 10*s+s, "a", 1)}, Rules{}, BeliefInLease},
		{"believed in for as long as it lives", History{did(acquire(0, s, "a", 1, Granted), Granted), belief(s, 10*s, "a", 1)}, Rules{}, ""},
		{"another's", History{did(acquire(0, s, "a", 1, Granted), Granted), belief(s, 2*s, "b", 1)}, Rules{}, BeliefInLease},
		{"goes on after it was told", History{acquire(0, s, "a", 1, Granted), extend(11*s, 12*s, "a", 1, Lost), belief(s, 13*s, "a", 1)}, Rules{}, ToldTruth},

		{"a grant that was not", History{did(acquire(0, s, "a", 1, Granted), Granted), {Kind: Take, At: 0, Until: 2 * s, Name: "n", Holder: "b", Token: 1, Result: Granted}}, Rules{}, ToldTruth},
		{"refused by itself", History{did(acquire(s, 2*s, "a", 1, Granted), Granted), {Kind: Take, At: 0, Until: 3 * s, Replica: "a", Name: "n", Result: Held}}, Rules{}, ToldTruth},
		{"refused by another", History{did(acquire(s, 2*s, "a", 1, Granted), Granted), {Kind: Take, At: 3 * s, Until: 4 * s, Replica: "b", Name: "n", Result: Held}}, Rules{}, ""},
		{"released, as it is told", History{did(acquire(0, s, "a", 1, Granted), Granted), {Kind: Give, At: 2 * s, Until: 3 * s, Name: "n", Holder: "a", Token: 1, Result: Okay}}, Rules{}, ToldTruth},
		{"free too soon", History{did(acquire(0, s, "a", 1, Granted), Granted), {Kind: Take, At: 0, Until: s, Name: "n", Holder: "a", Token: 1, Result: Granted, Linger: 8 * s},
			did(release(2*s, 3*s, "a", 1, Okay), Okay), did(acquire(4*s, 5*s, "b", 2, Granted), Granted)}, Rules{}, ToldTruth},

		{"runs", History{run(10*s, 10*s, 11*s, 1, Okay, 12*s), run(20*s, 20*s, 21*s, 2, Okay, 22*s)}, jobs(nil), ""},
		{"early", History{run(10*s, 9*s, 11*s, 1, Okay, 12*s)}, jobs(nil), JobsChecker},
		{"not of the schedule", History{run(11*s, 12*s, 13*s, 1, Okay, 14*s)}, jobs(nil), JobsChecker},
		{"run again", History{run(10*s, 10*s, 11*s, 1, Okay, 12*s), run(10*s, 13*s, 14*s, 2, Unknown, 0)}, jobs(nil), JobsChecker},
		{"taken over", History{run(10*s, 10*s, Never, 1, Unknown, 0), run(10*s, 13*s, 14*s, 2, Okay, 15*s)}, jobs(nil), ""},
		{"begun twice", History{run(10*s, 10*s, Never, 1, Unknown, 0), run(10*s, 13*s, 14*s, 2, Okay, 15*s)}, jobs(func(r *JobRule) { r.AtMostOnce = true }), JobsChecker},
		{"left out", History{run(10*s, 10*s, 11*s, 1, Okay, 12*s)}, jobs(func(r *JobRule) { r.Expected = []int64{10_000, 20_000} }), JobsChecker},
		{"never taken over", History{run(10*s, 10*s, Never, 1, Unknown, 0)}, jobs(func(r *JobRule) { r.Takeover = true }), JobsChecker},
		{"too many attempts", History{run(10*s, 10*s, Never, 1, Unknown, 0), run(10*s, 13*s, 14*s, 2, Okay, 15*s)}, jobs(func(r *JobRule) { r.Attempts = 1 }), JobsChecker},
		{"paused", History{run(10*s, 12*s, 13*s, 1, Okay, 14*s)}, jobs(func(r *JobRule) { r.Pauses = []Span{{9 * s, 11 * s}} }), JobsChecker},
		{"asked for in vain", nil, jobs(func(r *JobRule) { r.Asked, r.AskedSure = 1, []time.Duration{s} }), JobsChecker},
		{"asked for by nobody", History{with(run(10*s, 12*s, 13*s, 1, Okay, 14*s), func(e *Event) { e.Manual = true })}, jobs(nil), JobsChecker},
		{"sooner than the delay", History{run(10*s, 10*s, 11*s, 1, Okay, 12*s), run(20*s, 20*s, 21*s, 2, Okay, 22*s)}, jobs(func(r *JobRule) { r.Next, r.Delay = nil, 15*s }), JobsChecker},
		{"the newest for all", away(40 * s), missed("once"), ""},
		{"another for all", away(30 * s), missed("once"), JobsChecker},
		{"all up to a cap", away(30 * s), missed("all"), ""},
		{"one too many", away(20 * s), missed("all"), JobsChecker},
		{"missed, and not skipped", away(40 * s), missed("skip"), JobsChecker},

		{"processed", History{element(0, s, 2*s)}, elements, ""},
		{"processed again", History{element(0, s, 2*s), element(3*s, 4*s, 0)}, elements, ElementsChecker},
		{"recorded twice", History{element(0, s, 2*s), element(s, 2*s, 3*s)}, elements, ElementsChecker},
		{"never processed", History{element(0, s, 0)}, elements, ElementsChecker},
	}
	for _, test := range tests {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			v := Check(test.h, test.rules)
			found := slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Checker == test.want })
			switch {
			case test.want == "" && len(v.Violations) > 0:
				t.Errorf("a good history: %v", v.Violations[0])
			case test.want != "" && !found:
				t.Errorf("not found: %v", v.Violations)
			case found && v.Violations[0].String() == "":
				t.Error("it says nothing")
			}
			if v.Unchecked > 0 {
				t.Errorf("%d unchecked", v.Unchecked)
			}
		})
	}
}

func TestIdle(t *testing.T) {
	h := History{
		did(acquire(0, s, "a", 1, Granted), Granted), did(release(2*s, 3*s, "a", 1, Okay), Okay),
		did(acquire(8*s, 9*s, "b", 2, Granted), Granted), {Kind: Take, At: s, Until: 9 * s, Name: "n", Holder: "b", Token: 2, Result: Granted},
	}
	if found := Idle(h, 0, 5*s); len(found) != 1 {
		t.Errorf("free for 6 s: %v", found)
	}
	if found := Idle(h, 0, 7*s); len(found) != 0 {
		t.Errorf("free for 6 s, where 7 are allowed: %v", found)
	}
}

// TestUnchecked shows that giving up is told, and is not a violation.
func TestUnchecked(t *testing.T) {
	h := History{acquire(0, s, "a", 1, Granted), acquire(4*s, 5*s, "b", 2, Granted)}
	if found, unchecked := Linearizable(h, Rules{Steps: 1}); len(found) != 0 || unchecked != 1 {
		t.Errorf("%v, %d unchecked", found, unchecked)
	}
}

// TestReadMerges reads what two replicas wrote, of which one was killed in the middle of a line.
func TestReadMerges(t *testing.T) {
	var one, two bytes.Buffer
	for _, file := range []struct {
		to *bytes.Buffer
		h  History
	}{{&one, History{acquire(2*s, 3*s, "a", 1, Granted)}}, {&two, History{acquire(s, 4*s, "b", 0, Held)}}} {
		if _, err := file.h.WriteTo(file.to); err != nil {
			t.Fatal(err)
		}
	}
	two.WriteString(`{"k":"acq`)
	h, err := Read(&one, &two)
	if err != nil || len(h) != 2 || h[0].Holder != "b" || h[1].Token != 1 {
		t.Errorf("%v, %v", h, err)
	}
	if _, err := Read(strings.NewReader("{}\nnonsense\n{}\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("nonsense: %v", err)
	}
}

func TestVerdictsAdd(t *testing.T) {
	one := Check(History{acquire(0, s, "a", 1, Granted), {Kind: Fault, Fault: "crash"}}, Rules{})
	sum := one
	sum.Faults = map[string]int{"crash": 1}
	sum.Add(one)
	if sum.Histories != 2 || sum.Grants != 2 || sum.Faults["crash"] != 2 || !strings.Contains(sum.String(), "2 histories") {
		t.Errorf("%v", sum)
	}
}
