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

func marked(e Event, mark int64) Event {
	e.Mark = mark
	return e
}

func stated(e Event, state uint64) Event {
	e.State = state
	return e
}

func set(at time.Duration, state uint64, result Result) Event {
	return Event{Kind: Set, At: at, Until: at + s/10, Replica: "a", Name: "n", Token: 1, State: state, Result: result}
}

// leftBy is a lease whose holder sets states and gives it back, and the next, whose holder is told one.
func leftBy(told uint64, sets ...Event) History {
	take := Event{Kind: Take, At: 6 * s, Until: 8 * s, Replica: "b", Name: "n", Holder: "b", Token: 2, State: told, Result: Granted}
	return append(History{
		did(acquire(0, s, "a", 1, Granted), Granted), did(release(4*s, 5*s, "a", 1, Okay), Okay), did(acquire(6*s, 7*s, "b", 2, Granted), Granted), take,
	}, sets...)
}

// triedThrice begins an element three times, which may be retried after the second.
func triedThrice(retried bool) History {
	h := History{{Kind: Element, Name: "e", At: s, Until: 2 * s, Result: Failed}, {Kind: Element, Name: "e", At: 3 * s, Until: 4 * s, Result: Failed}, {Kind: Element, Name: "e", At: 6 * s, Until: 7 * s, Result: Failed}}
	if retried {
		h = append(h, Event{Kind: Retry, Name: "e", At: 5 * s})
	}
	return h
}

var triesTwice = Rules{Elements: []ElementRule{{Names: map[string]bool{"e": true}, Attempts: 2}}}

// looked is a look at the record, which has a mark.
func looked(at, until time.Duration, mark int64) Event {
	return Event{Kind: Acquire, At: at, Until: until, Replica: "r", Name: "n", Holder: "-", TTL: s, Mark: -1, Seen: mark, Result: Done}
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
	element := func(at, until, recorded time.Duration) Event {
		return Event{Kind: Element, Name: "e", At: at, Until: until, Result: Okay, Recorded: recorded}
	}
	elements := Rules{Elements: []ElementRule{{Names: map[string]bool{"e": true}, MustBeDone: true}}}
	// The same, but that somebody is granted the job at 46 s.
	gaveBack := func() History {
		h := claimed(func(e *Event) { e.Replica, e.At, e.Took, e.Until = "q", 46*s+s/2, 46*s+s/2, 47*s }, 40_000)
		h[3].At, h[3].Until, h[3].Took = 46*s, 46*s, 46*s
		return h
	}
	// One that was released from 2 s to 4 s, and told that it was lost.
	releasedAndTold := func() History {
		return History{did(acquire(0, s, "a", 1, Granted), Granted), did(release(2*s, 3*s, "a", 1, Okay), Okay), {Kind: Give, At: 2 * s, Until: 6 * s, Name: "n", Holder: "a", Token: 1, Result: Lost}}
	}
	// As away, but until 51 s, when 50 is due.
	late := func(picks time.Duration) History {
		return History{
			grant(10*s, 1, 5*s), run(10*s, 10*s+5, 11*s, 1, Okay, 11*s+5), markRaised(11*s, 1, 10*s),
			with(grant(51*s, 2, 5*s), func(e *Event) { e.Seen = 10_000 }), run(picks, 51*s+5, 52*s, 2, Okay, 52*s+5), markRaised(52*s, 2, picks),
		}
	}
	remembered := Rules{Elements: []ElementRule{{Names: map[string]bool{"e": true}, Retain: 6 * s}}}
	tries := func(n int) Rules {
		return Rules{Elements: []ElementRule{{Names: map[string]bool{"e": true}, Attempts: n, Retain: 6 * s}}}
	}
	// finished is a name that was granted at once and released with a mark a second later.
	finished := func(token int64, retain time.Duration, more ...Event) History {
		return append(History{acquire(0, s, "a", token, Granted), with(release(s, 2*s, "a", token, Okay), func(e *Event) { e.Mark, e.Retain = 1, retain })}, more...)
	}
	// unsettled is a name that was granted with a low token to a holder who was not told, saw it, and released it.
	unsettled := History{acquire(0, s, "a", 5, Granted), release(s, 2*s, "a", 5, Okay), acquire(6*s, Never, "b", 0, Unknown), release(8*s, 9*s, "b", 3, Okay), acquire(10*s, 11*s, "c", 6, Granted)}
	// regranted is a name that was released, and granted once more to the same holder, who was not told.
	regranted := History{acquire(0, s, "a", 5, Granted), release(s, 2*s, "a", 5, Okay), acquire(3*s, Never, "a", 0, Unknown), acquire(4*s, 5*s, "b", 6, Held)}
	then := func(h History, more ...Event) History { return append(slices.Clone(h), more...) }
	swept := func(at time.Duration) Event { return Event{Kind: Swept, At: at} }
	forgotten := func(at time.Duration, token, seen int64) Event { // or not
		return with(acquire(at, at+s, "b", token, Granted), func(e *Event) { e.Seen = seen })
	}
	// untold is a grant whose holder was not told of it at first, and untoldBack its release.
	untold, untoldBack := acquire(6*s, Never, "b", 0, Unknown), with(release(8*s, 9*s, "b", 3, Okay), func(e *Event) { e.Retain = Never })
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
		{"counted from the request, decided when a lock was free", History{acquire(0, s, "a", 1, Granted), acquire(2*s, 9*s, "b", 2, Granted),
			release(8*s, 9*s, "a", 1, Okay), acquire(13*s, 14*s, "c", 3, Granted)}, Rules{}, ""},
		{"the same where the store was watched", History{acquire(0, s, "a", 1, Granted), with(acquire(2*s, 9*s, "b", 2, Granted), func(e *Event) { e.Did, e.DidToken, e.Took = Granted, 2, 9*s }),
			release(8*s, 9*s, "a", 1, Okay), acquire(13*s, 14*s, "c", 3, Granted)}, Rules{}, Linearizability},
		{"held by nobody", History{acquire(0, s, "a", 0, Held)}, Rules{}, Linearizability},
		{"held by what nobody was told of", History{acquire(0, Never, "a", 0, Unknown), acquire(2*s, 3*s, "b", 7, Held)}, Rules{}, ""},
		{"asked again", History{acquire(0, Never, "a", 0, Unknown), acquire(2*s, 3*s, "a", 7, Granted)}, Rules{}, ""},
		{"another token when asked again", History{acquire(0, s, "a", 1, Granted), acquire(2*s, 3*s, "a", 2, Granted)}, Rules{}, Linearizability},
		{"asked again, decided when the lease was over", History{acquire(0, s, "a", 1, Granted), acquire(9*s, Never, "a", 0, Unknown), acquire(12*s, 13*s, "b", 7, Held)}, Rules{}, ""},
		{"asked again while the lease was live", History{acquire(0, s, "a", 1, Granted), acquire(2*s, Never, "a", 0, Unknown), acquire(3*s, 4*s, "b", 7, Held)}, Rules{}, Linearizability},
		{"seen live long after its end", History{acquire(0, s, "a", 1, Granted), acquire(30*s, 31*s, "b", 1, Held)}, Rules{}, Linearizability},
		{"seen live long after its end, by somebody who has not seen it before", History{acquire(0, s, "a", 1, Granted), acquire(30*s, 31*s, "b", 1, Held)}, Rules{Clockless: true}, ""},
		{"released before its token was raised, without a clock", unsettled, Rules{Clockless: true}, ""},
		{"released before its token was raised, and again", slices.Insert(slices.Clone(unsettled), 4, release(9*s, 10*s, "b", 3, Okay)), Rules{Clockless: true}, ""},
		{"an earlier grant is lost to its holder's next, without a clock", then(regranted, release(5*s, 6*s, "a", 5, Lost), extend(6*s, 7*s, "a", 5, Lost)), Rules{Clockless: true}, ""},
		{"lost without a reason, without a clock", then(regranted, acquire(5*s, 6*s, "a", 6, Granted), release(7*s, 8*s, "a", 6, Lost)), Rules{Clockless: true}, Linearizability},
		{"released with a token that is too low", unsettled, Rules{}, Linearizability},
		{"ended early, without a clock", History{acquire(0, s, "a", 1, Granted), acquire(4*s, 5*s, "b", 2, Granted)}, Rules{Clockless: true}, Linearizability},
		{"seen live after its release, without a clock", History{acquire(0, s, "a", 1, Granted), release(2*s, 3*s, "a", 1, Okay), acquire(4*s, 5*s, "b", 1, Held)}, Rules{Clockless: true}, Linearizability},
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
		{"refused by its own request that took effect once more", History{did(acquire(s, 2*s, "a", 1, Granted), Granted), did(release(3*s, 4*s, "a", 1, Okay), Okay),
			with(acquire(s, Never, "a", 0, Unknown), func(e *Event) { e.Took, e.Did, e.DidToken = 6*s, Granted, 2 }), {Kind: Take, At: 0, Until: 8 * s, Replica: "a", Name: "n", Result: Held}}, Rules{}, ""},
		{"refused by another", History{did(acquire(s, 2*s, "a", 1, Granted), Granted), {Kind: Take, At: 3 * s, Until: 4 * s, Replica: "b", Name: "n", Result: Held}}, Rules{}, ""},
		{"refused after the lease", History{did(acquire(0, s, "a", 1, Granted), Granted), {Kind: Take, At: 12 * s, Until: 13 * s, Replica: "b", Name: "n", Result: Held}}, Rules{}, ToldTruth},
		{"refused after the lease, without a clock", History{did(acquire(0, s, "a", 1, Granted), Granted), {Kind: Take, At: 12 * s, Until: 13 * s, Replica: "b", Name: "n", Result: Held}}, Rules{Clockless: true}, ""},
		{"refused after the release, without a clock", History{did(acquire(0, s, "a", 1, Granted), Granted), did(release(2*s, 3*s, "a", 1, Okay), Okay),
			{Kind: Take, At: 4 * s, Until: 5 * s, Replica: "b", Name: "n", Result: Held}}, Rules{Clockless: true}, ToldTruth},
		{"refused after a linger, without a clock", History{did(acquire(0, s, "a", 1, Granted), Granted), did(with(release(2*s, 3*s, "a", 1, Okay), func(e *Event) { e.Linger = 4 * s }), Okay),
			{Kind: Take, At: 12 * s, Until: 13 * s, Replica: "b", Name: "n", Result: Held}}, Rules{Clockless: true}, ""},
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
		{"asked for without success", nil, jobs(func(r *JobRule) { r.Asked, r.AskedSure = 1, []time.Duration{s} }), JobsChecker},
		{"asked for by nobody", History{with(run(10*s, 12*s, 13*s, 1, Okay, 14*s), func(e *Event) { e.Manual = true })}, jobs(nil), JobsChecker},
		{"sooner than the delay", History{run(10*s, 10*s, 11*s, 1, Okay, 12*s), run(20*s, 20*s, 21*s, 2, Okay, 22*s)}, jobs(func(r *JobRule) { r.Next, r.Delay = nil, 15*s }), JobsChecker},
		{"the newest for all", away(40 * s), missed("once"), ""},
		{"another for all", away(30 * s), missed("once"), JobsChecker},
		{"all up to a cap", away(30 * s), missed("all"), ""},
		{"one too many", away(20 * s), missed("all"), JobsChecker},
		{"missed, and not skipped", away(40 * s), missed("skip"), JobsChecker},
		{"a run that was committed is begun again", History{run(10*s, 11*s, 13*s, 1, Lost, 0), {Kind: Commit, At: 12 * s, Name: "job", Token: 1, Mark: 10_000}, run(10*s, 14*s, 15*s, 2, Okay, 0)}, jobs(nil), JobsChecker},
		{"a run that was committed is tried again under its lease", History{run(10*s, 11*s, 13*s, 1, Failed, 0), {Kind: Commit, At: 12 * s, Name: "job", Token: 1, Mark: 10_000}, run(10*s, 14*s, 15*s, 1, Okay, 0)}, jobs(nil), ""},
		{"a run that was committed is not run again", History{run(10*s, 11*s, Never, 1, Unknown, 0), {Kind: Commit, At: 12 * s, Name: "job", Token: 1, Mark: 10_000}}, jobs(func(r *JobRule) { r.Takeover = true }), ""},
		{"a run is committed twice", History{run(10*s, 11*s, 13*s, 1, Okay, 0), {Kind: Commit, At: 12 * s, Name: "job", Token: 1, Mark: 10_000}, {Kind: Commit, At: 13 * s, Name: "job", Token: 1, Mark: 10_000}}, jobs(nil), JobsChecker},
		{"an element is committed twice", History{element(0, s, 2*s), {Kind: Commit, At: s, Name: "e"}, {Kind: Commit, At: 2 * s, Name: "e"}}, elements, ElementsChecker},
		{"a clock is ahead by what is said", History{run(20*s, 19*s, 21*s, 1, Okay, 0)}, jobs(func(r *JobRule) { r.Skew = s }), ""},
		{"a clock is ahead by more than is said", History{run(20*s, 19*s-1, 21*s, 1, Okay, 0)}, jobs(func(r *JobRule) { r.Skew = s }), JobsChecker},
		{"an element that was retried has more attempts", triedThrice(true), triesTwice, ""},
		{"an element that was not retried has more attempts", triedThrice(false), triesTwice, ElementsChecker},
		{"a state is told", History{acquire(0, s, "a", 1, Granted), stated(extend(2*s, 3*s, "a", 1, Okay), 7), release(4*s, 5*s, "a", 1, Okay), stated(acquire(6*s, 7*s, "b", 2, Granted), 7)}, Rules{}, ""},
		{"a state is lost", History{acquire(0, s, "a", 1, Granted), stated(extend(2*s, 3*s, "a", 1, Okay), 7), release(4*s, 5*s, "a", 1, Okay), acquire(6*s, 7*s, "b", 2, Granted)}, Rules{}, Linearizability},
		{"an older state is told", History{acquire(0, s, "a", 1, Granted), stated(extend(2*s, 3*s, "a", 1, Okay), 7), stated(release(4*s, 5*s, "a", 1, Okay), 9), stated(acquire(6*s, 7*s, "b", 2, Granted), 7)}, Rules{}, Linearizability},
		{"a state that nobody knows of", History{acquire(0, s, "a", 1, Granted), stated(extend(2*s, Never, "a", 1, Unknown), 7), release(4*s, 5*s, "a", 1, Okay), stated(acquire(6*s, 7*s, "b", 2, Granted), 7)}, Rules{}, ""},
		{"a state is cleared", History{acquire(0, s, "a", 1, Granted), stated(extend(2*s, 3*s, "a", 1, Okay), 7), stated(release(4*s, 5*s, "a", 1, Okay), cleared), acquire(6*s, 7*s, "b", 2, Granted)}, Rules{}, ""},
		{"a state may be forgotten", History{acquire(0, s, "a", 1, Granted), stated(release(4*s, 5*s, "a", 1, Okay), 9), {Kind: Swept, At: 6 * s}, acquire(7*s, 8*s, "b", 2, Granted)}, Rules{}, ""},
		{"a state that was to be kept is forgotten", History{acquire(0, s, "a", 1, Granted), stated(with(release(4*s, 5*s, "a", 1, Okay), func(e *Event) { e.Retain = Never }), 9), {Kind: Swept, At: 6 * s}, acquire(7*s, 8*s, "b", 2, Granted)}, Rules{}, Linearizability},
		{"the holder is told what was set", leftBy(8, set(2*s, 7, Okay), set(3*s, 8, Okay)), Rules{}, ""},
		{"the holder is told what was set first", leftBy(7, set(2*s, 7, Okay), set(3*s, 8, Okay)), Rules{}, StatesChecker},
		{"the holder is told what was set first, after a release by force", append(leftBy(7, set(2*s, 7, Okay), set(3*s, 8, Okay)), Event{Kind: Forced, At: 4 * s, Name: "n", Token: 1}), Rules{}, ""},
		{"the holder is told nothing", leftBy(0, set(2*s, 7, Okay)), Rules{}, StatesChecker},
		{"nobody knows whether it was set", leftBy(0, set(2*s, 7, Unknown)), Rules{}, ""},
		{"nobody knows whether it was set, and it was", leftBy(7, set(2*s, 7, Unknown)), Rules{}, ""},
		{"nobody knows whether the first was set", leftBy(7, set(2*s, 7, Unknown), set(3*s, 8, Okay)), Rules{}, StatesChecker},
		{"claimed in time, and refused", claimed(nil), missed("skip"), ""},
		{"claimed in time by another", claimed(func(e *Event) { e.Replica = "q" }), missed("skip"), JobsChecker},
		{"claimed too late", claimed(func(e *Event) { e.At, e.Took, e.Until = 45*s+1, 45*s+1, 46*s }), missed("skip"), JobsChecker},
		{"claimed in time, and nobody knows", claimed(func(e *Event) { e.Result, e.Token, e.Until, e.Did, e.Took, e.DidToken = Unknown, 0, Never, "", 0, 0 }), missed("skip"), JobsChecker},
		{"looked at for an earlier time", claimed(func(e *Event) { e.Mark = 30_000 }), missed("skip"), JobsChecker},
		{"refused because of a lease from before it was due", claimed(func(e *Event) { e.Token, e.DidToken = 1, 1 }), missed("skip"), JobsChecker},
		{"a group's name was claimed in time", claimed(func(e *Event) { e.Name, e.Result, e.Token, e.Did, e.DidToken = "group/h/40000", Granted, 7, Granted, 7 }), missed("skip"), JobsChecker},
		{"claimed in time by another, who gave it back", claimed(func(e *Event) { e.Replica = "q" }, 40_000), missed("skip"), ""},
		{"claimed in time, and told when it asked again", append(claimed(func(e *Event) { e.At, e.Took, e.Until = 46*s, 46*s, 46*s }),
			Event{Kind: Acquire, At: 42 * s, Until: Never, Replica: "r", Name: "job", Holder: "r#1", TTL: 5 * s, Mark: 40_000, Result: Unknown}), missed("skip"), ""},
		{"claimed in time, and refused when it had waited in its client", claimed(func(e *Event) { e.At, e.Took, e.Until = 46*s, 46*s, 46*s }), queuedFor(s), ""},
		{"claimed too late, and refused when it had waited in its client", claimed(func(e *Event) { e.At, e.Took, e.Until = 46*s, 46*s, 46*s }), queuedFor(s - 1), JobsChecker},
		{"claimed in time by another, who waited in its client and gave it back", gaveBack(), queuedFor(s), ""},
		{"claimed too late by another, who gave it back", gaveBack(), queuedFor(s - 1), JobsChecker},
		{"refused in time, claimed for that time later, and given back", gaveBackLater(40_000, nil), missed("skip"), ""},
		{"refused in time, claimed for an earlier time later, and given back", gaveBackLater(30_000, nil), missed("skip"), JobsChecker},
		{"refused too late, claimed for that time later, and given back", gaveBackLater(40_000, func(e *Event) { e.At, e.Took, e.Until = 45*s+1, 45*s+1, 46*s }), missed("skip"), JobsChecker},
		{"comes after an older one, and was that of who died", putOff(28 * s), missed("skip"), ""},
		{"comes after an older one, and was not due for who died", putOff(28*s - 2), missed("skip"), JobsChecker},
		{"comes after an older one that was given back first, and was that of who died", putOffAgain(), missed("skip"), ""},
		{"comes after an older one, and after another that ran since somebody died", putOffAgain(run(10*s, 36*s+s/2+5, 36*s+s/2+6, 3, Okay, 36*s+s/2+10)), missed("skip"), JobsChecker},
		{"comes after an older one, and was not that of who gave it back", putOff(28*s, markRaised(29*s, 2, 10*s)), missed("skip"), JobsChecker},
		{"waited in its client until it was late", away(40 * s), queuedFor(3 * s), ""},
		{"waited in its client until one of as many requests as may hang had ended", append(away(40*s), hung(4)...), missed("skip"), ""},
		{"did not wait behind fewer", append(away(40*s), hung(3)...), missed("skip"), JobsChecker},
		{"waited in its client for less", away(40 * s), queuedFor(3*s - 1), JobsChecker},

		{"processed", History{element(0, s, 2*s)}, elements, ""},
		{"processed again", History{element(0, s, 2*s), element(3*s, 4*s, 0)}, elements, ElementsChecker},
		{"recorded twice", History{element(0, s, 2*s), element(s, 2*s, 3*s)}, elements, ElementsChecker},
		{"never processed", History{element(0, s, 0)}, elements, ElementsChecker},

		{"failed, so it was nothing", History{acquire(0, s, "a", 1, Granted), acquire(2*s, 3*s, "b", 0, Failed)}, Rules{}, ""},
		{"unknown, and known to the store", History{with(acquire(0, Never, "a", 0, Unknown), func(e *Event) { e.Took, e.Did, e.DidToken = s, Granted, 1 }), acquire(2*s, 3*s, "b", 2, Granted)}, Rules{}, Linearizability},
		{"unknown, and nothing to the store", History{did(acquire(0, s, "a", 1, Granted), Granted), release(2*s, Never, "a", 1, Unknown), acquire(4*s, 5*s, "b", 1, Held)}, Rules{}, ""},
		{"another mark than the record has", History{with(acquire(0, s, "a", 1, Granted), func(e *Event) { e.Seen = 5 })}, Rules{}, Linearizability},
		{"held by another token", History{acquire(0, s, "a", 1, Granted), acquire(2*s, 3*s, "b", 9, Held)}, Rules{}, Linearizability},
		{"held by the asker", History{acquire(0, s, "a", 1, Granted), acquire(2*s, 3*s, "a", 1, Held)}, Rules{}, Linearizability},
		{"a live lease that cannot be released", History{acquire(0, s, "a", 1, Granted), release(2*s, 3*s, "a", 1, Lost)}, Rules{}, Linearizability},
		{"released too late", History{acquire(0, s, "a", 1, Granted), release(11*s, 12*s, "a", 1, Lost)}, Rules{}, ""},
		{"released after its end", History{acquire(0, s, "a", 1, Granted), release(12*s, 13*s, "a", 1, Okay)}, Rules{}, Linearizability},
		{"released twice, and forgotten", History{acquire(0, s, "a", 1, Granted), release(2*s, 3*s, "a", 1, Okay), release(4*s, 5*s, "a", 1, Lost)}, Rules{}, ""},
		{"released twice, and forgotten with its mark", History{acquire(0, s, "a", 1, Granted), with(release(2*s, 3*s, "a", 1, Okay), func(e *Event) { e.Mark = 1 }),
			with(release(4*s, 5*s, "a", 1, Lost), func(e *Event) { e.Mark = 1 })}, Rules{}, Linearizability},
		{"a mark that an extension has raised", History{acquire(0, s, "a", 1, Granted), with(extend(2*s, 3*s, "a", 1, Okay), func(e *Event) { e.Mark = 5 }),
			with(acquire(4*s, 5*s, "b", 0, Done), func(e *Event) { e.Mark, e.Seen = 5, 5 })}, Rules{}, ""},
		{"another mark than what is done", History{acquire(0, s, "a", 1, Granted), with(extend(2*s, 3*s, "a", 1, Okay), func(e *Event) { e.Mark = 5 }),
			with(acquire(4*s, 5*s, "b", 0, Done), func(e *Event) { e.Mark, e.Seen = 5, 6 })}, Rules{}, Linearizability},

		{"released in time, and seen by others when the lease would have ended", History{acquire(0, s, "a", 1, Granted), marked(extend(2*s, 3*s, "a", 1, Okay), 3),
			marked(release(8*s, 20*s, "a", 1, Okay), 5), looked(14*s, 15*s, 3)}, Rules{}, ""},
		{"released in time, and granted to another before that took effect", History{acquire(0, s, "a", 1, Granted), marked(extend(2*s, 3*s, "a", 1, Okay), 3),
			marked(release(8*s, 20*s, "a", 1, Okay), 5), with(acquire(14*s, 15*s, "b", 2, Granted), func(e *Event) { e.Seen = 3 })}, Rules{}, Linearizability},
		{"released too late", History{acquire(0, s, "a", 1, Granted), marked(release(12*s, 20*s, "a", 1, Okay), 5)}, Rules{}, Linearizability},
		{"extended in time, and seen by others when the lease would have ended", History{acquire(0, s, "a", 1, Granted), marked(extend(2*s, 3*s, "a", 1, Okay), 3),
			marked(extend(8*s, 20*s, "a", 1, Okay), 5), looked(14*s, 15*s, 3)}, Rules{}, ""},
		{"a linger that is counted from before a slow commit", History{acquire(0, s, "a", 1, Granted), marked(extend(s, 2*s, "a", 1, Okay), 3),
			with(marked(release(3*s, 9*s, "a", 1, Okay), 5), func(e *Event) { e.Linger = 10 * s }), looked(7*s, 8*s, 3),
			with(acquire(13*s, 14*s, "b", 2, Granted), func(e *Event) { e.Seen = 5 })}, Rules{}, ""},
		{"a linger that ends too early", History{acquire(0, s, "a", 1, Granted), with(release(3*s, 9*s, "a", 1, Okay), func(e *Event) { e.Linger = 10 * s }),
			acquire(11*s, 12*s, "b", 2, Granted)}, Rules{}, Linearizability},

		{"a belief of no time", History{belief(0, 2*s, "a", 1), belief(s, s, "b", 2)}, Rules{}, ""},
		{"nothing was granted so", History{did(acquire(0, s, "a", 1, Granted), Granted), belief(s, 2*s, "a", 2)}, Rules{}, BeliefInLease},
		{"believed in too early", History{did(acquire(s, 3*s, "a", 1, Granted), Granted), belief(0, 4*s, "a", 1)}, Rules{}, BeliefInLease},
		{"believed in after an extension", History{did(acquire(0, s, "a", 1, Granted), Granted), did(extend(8*s, 9*s, "a", 1, Okay), Okay), belief(s, 18*s, "a", 1)}, Rules{}, ""},
		{"believed in after a release", History{did(acquire(0, s, "a", 1, Granted), Granted), did(release(3*s, 4*s, "a", 1, Okay), Okay), belief(s, 4*s, "a", 1)}, Rules{}, BeliefInLease},

		{"believed in to the end of its lease, unwatched", History{acquire(0, s, "a", 1, Granted), belief(s, 11*s, "a", 1)}, Rules{}, ""},
		{"believed in for longer than any lease, unwatched", History{acquire(0, s, "a", 1, Granted), belief(s, 11*s+1, "a", 1)}, Rules{}, BeliefInLease},
		{"believed in after an extension, unwatched", History{acquire(0, s, "a", 1, Granted), extend(8*s, 9*s, "a", 1, Okay), belief(s, 19*s, "a", 1)}, Rules{}, ""},
		{"believed in after an extension that nobody answered", History{acquire(0, s, "a", 1, Granted), extend(8*s, Never, "a", 1, Unknown), belief(s, 12*s, "a", 1)}, Rules{}, BeliefInLease},
		{"a permit believed in for longer than its lease", History{acquire(0, s, "a", 1, Granted),
			with(belief(s, 12*s, "a", 1), func(e *Event) { e.Name, e.Limit = "semaphore", 2 })}, Rules{}, BeliefInLease},

		{"a grant from before the call", History{did(acquire(0, s, "a", 1, Granted), Granted), {Kind: Take, At: 5 * s, Until: 6 * s, Name: "n", Holder: "a", Token: 1, Result: Granted}}, Rules{}, ToldTruth},
		{"refused by what has ended", History{did(acquire(0, s, "a", 1, Granted), Granted), {Kind: Take, At: 20 * s, Until: 21 * s, Replica: "b", Name: "n", Result: Held}}, Rules{}, ToldTruth},
		{"refused by what lingers", History{did(acquire(0, s, "a", 1, Granted), Granted), did(with(release(2*s, 3*s, "a", 1, Okay), func(e *Event) { e.Linger = 5 * s }), Okay),
			{Kind: Take, At: 4 * s, Until: 5 * s, Replica: "a", Name: "n", Result: Held}}, Rules{}, ""},
		{"refused by what has been released", History{did(acquire(0, s, "a", 1, Granted), Granted), did(release(2*s, 3*s, "a", 1, Okay), Okay),
			{Kind: Take, At: 4 * s, Until: 5 * s, Replica: "b", Name: "n", Result: Held}}, Rules{}, ToldTruth},
		{"lost, as it is told", append(releasedAndTold(), belief(s, 2*s, "a", 1)), Rules{}, ToldTruth},
		{"released, and then a successor's", append(releasedAndTold(), did(acquire(4*s, 5*s, "b", 2, Granted), Granted)), Rules{}, ToldTruth},
		{"released, and then forgotten", append(releasedAndTold(), Event{Kind: Swept, At: 4 * s}), Rules{}, ToldTruth},
		{"lost to a person", append(releasedAndTold(), Event{Kind: Forced, At: s, Name: "n", Token: 1}), Rules{}, ""},

		{"a manual run again", manualTwice(), jobs(func(r *JobRule) { r.Asked = 1 }), ""},
		{"a manual run again, which may begin once", manualTwice(), jobs(func(r *JobRule) { r.Asked, r.AtMostOnce = 1, true }), JobsChecker},
		{"asked for, and begun", manualTwice(), jobs(func(r *JobRule) { r.Asked, r.AskedSure = 1, []time.Duration{5 * s} }), ""},
		{"a manual run is no scheduled one", append(manualTwice(), run(10*s, 20*s, 21*s, 3, Okay, 22*s)), jobs(func(r *JobRule) { r.Asked = 1 }), ""},
		{"recorded twice by two", History{run(10*s, 10*s, 11*s, 1, Okay, 13*s), run(10*s, 12*s, 13*s, 2, Okay, 14*s)}, jobs(nil), JobsChecker},
		{"begun in a pause", History{run(10*s, 12*s, 13*s, 1, Okay, 14*s)}, pausedDelay(), JobsChecker},
		{"granted before a pause", History{grant(8*s, 1, 9*s), run(10*s, 12*s, 13*s, 1, Okay, 14*s)}, pausedDelay(), ""},
		{"begun after a pause", History{run(10*s, 16*s, 17*s, 1, Okay, 18*s)}, pausedDelay(), ""},
		{"left out, for nobody knows that it was not begun", History{grant(10*s, 1, 9*s), with(markRaised(11*s, 1, 10*s), func(e *Event) { e.Kind = Extend })}, begunOnce(), ""},
		{"left out, and not begun", History{grant(10*s, 1, 9*s), markRaised(11*s, 1, 10*s)}, begunOnce(), JobsChecker},
		{"never taken over, for the successor was not told", History{grant(10*s, 1, 5*s), run(10*s, 10*s+5, Never, 1, Unknown, 0),
			with(grant(20*s, 2, 5*s), func(e *Event) { e.Result, e.Until = Unknown, Never })}, takenOver(0), ""},
		{"never taken over by who was told", History{grant(10*s, 1, 5*s), run(10*s, 10*s+5, Never, 1, Unknown, 0), grant(20*s, 2, 5*s),
			with(markRaised(22*s, 2, 0), func(e *Event) { e.Mark = 0 })}, takenOver(0), JobsChecker},
		{"lost, and never run again", History{run(10*s, 10*s, 12*s, 1, Lost, 0)}, takenOver(0), JobsChecker},
		{"lost, too late to be run again", History{run(10*s, 10*s, 12*s, 1, Lost, 0)}, takenOver(11 * s), ""},
		{"due, and others missed", late(50 * s), missed("skip"), ""},
		{"the newest that is missed, though one is due", late(40 * s), missed("once"), ""},
		{"the one that is due for those that are missed", late(50 * s), missed("once"), JobsChecker},

		{"processed again, within its Retain", History{element(0, s, 2*s), element(5*s, 6*s, 0)}, remembered, ElementsChecker},
		{"processed again, after its Retain", History{element(0, s, 2*s), element(7*s, 8*s, 9*s)}, remembered, ""},
		{"given back is not begun", History{with(element(0, s, 0), func(e *Event) { e.Result = Back }), element(2*s, 3*s, 0)}, tries(1), ""},
		{"begun again when it had been recorded and forgotten", History{element(0, s, 2*s), element(9*s, 10*s, 0)}, tries(1), ""},
		{"a mark that a sweep may forget", finished(1, s, swept(5*s), forgotten(6*s, 2, 0)), Rules{}, ""},
		{"a mark that a sweep has not forgotten", finished(1, s, swept(5*s), forgotten(6*s, 2, 1)), Rules{}, ""},
		{"a mark that is forgotten too soon", finished(1, 20*s, swept(5*s), forgotten(6*s, 2, 0)), Rules{}, Linearizability},
		{"a mark that is forgotten without a sweep", finished(1, s, forgotten(6*s, 2, 0)), Rules{}, Linearizability},
		{"a mark that is forgotten before the sweep", finished(1, s, forgotten(6*s, 2, 0), swept(9*s)), Rules{}, Linearizability},
		{"a mark that is forgotten forever", finished(1, Never, swept(5*s), forgotten(6*s, 2, 0)), Rules{}, Linearizability},
		{"a token that starts again after a sweep", finished(5, s, swept(5*s), forgotten(6*s, 2, 0)), Rules{}, TokenOrder},
		{"forgotten, then granted to one who was not told", finished(1, s, swept(5*s), untold, untoldBack, with(forgotten(20*s, 4, 0), func(e *Event) { e.Holder = "c" })), Rules{}, ""},
		{"not forgotten, then granted to one who was not told", finished(1, s, swept(5*s), untold, untoldBack, with(forgotten(20*s, 4, 1), func(e *Event) { e.Holder = "c" })), Rules{}, ""},
		{"forgotten, then known again", finished(1, s, swept(5*s), untold, untoldBack, forgotten(20*s, 4, 0), with(release(22*s, 23*s, "b", 4, Okay), func(e *Event) { e.Retain = Never }), forgotten(24*s, 5, 1)), Rules{}, Linearizability},
		{"another mark after a sweep", finished(1, s, swept(5*s), untold, untoldBack, forgotten(20*s, 4, 2)), Rules{}, Linearizability},
		{"refused by what is remembered, after a sweep", finished(1, s, swept(5*s), with(acquire(6*s, 7*s, "b", 0, Done), func(e *Event) { e.Mark, e.Seen = 1, 1 })), Rules{}, ""},
		{"begun too often", History{element(0, s, 0), element(2*s, 3*s, 0)}, Rules{Elements: []ElementRule{{Names: map[string]bool{"e": true}, Attempts: 1}}}, ElementsChecker},
		{"processed, by its mark", History{element(0, s, 0), with(did(release(s, 2*s, "a", 1, Okay), Okay), func(e *Event) { e.Name, e.Mark = "e", 1 }),
			with(did(acquire(0, s, "a", 1, Granted), Granted), func(e *Event) { e.Name = "e" })}, elements, ""},
		{"of no concern", History{with(element(0, s, 2*s), func(e *Event) { e.Name = "f" }), with(element(3*s, 4*s, 5*s), func(e *Event) { e.Name = "f" })},
			Rules{Elements: []ElementRule{{Names: map[string]bool{"e": true}}}}, ""},
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

// TestExcerptShowsWhatWasUnderWay has a violation long after an operation began whose outcome nobody knows.
func TestExcerptShowsWhatWasUnderWay(t *testing.T) {
	h := History{acquire(0, Never, "lost", 0, Unknown)}
	at := 100 * s
	for token := range int64(20) {
		at += 2 * s
		token++
		h = append(h, acquire(at, at+s/2, "a", token, Granted), release(at+s/2, at+s, "a", token, Okay))
	}
	h = append(h, acquire(200*s, 201*s, "a", 30, Granted), extend(202*s, 203*s, "a", 30, Lost), release(204*s, 205*s, "a", 30, Okay))
	found, _ := Linearizable(h, Rules{})
	if len(found) != 1 {
		t.Fatalf("%d violations: %v", len(found), found)
	}
	shown := found[0].Excerpt
	if len(shown) > 14 || shown[0].Holder != "lost" || shown[len(shown)-1].Kind != Extend {
		t.Errorf("want the claim without an answer, the last events, and at the end the extension; got %v", found[0])
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
	doubt := Check(History{acquire(0, s, "a", 0, Unknown)}, Rules{})
	if doubt.Add(doubt); doubt.Unknowns != 2 {
		t.Errorf("%d unknown outcomes, where one and one were added", doubt.Unknowns)
	}
	refused := Check(History{acquire(0, s, "a", 0, Held), acquire(2*s, 3*s, "a", 0, Done)}, Rules{})
	if refused.Refusals != 2 || refused.Grants != 0 || refused.Operations != 2 {
		t.Errorf("two refusals: %+v", refused)
	}
	bad := Check(History{acquire(0, s, "a", 0, Held)}, Rules{})
	if sum.Add(bad); len(bad.Violations) == 0 || len(sum.Violations) != len(bad.Violations) {
		t.Errorf("%d violations, where %d were added", len(sum.Violations), len(bad.Violations))
	}
}
