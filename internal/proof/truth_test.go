package proof

import (
	"testing"
	"time"
)

// TestTruth gives histories of a store that was watched, two side by side wherever a little decides. In most, a lease is live from 1 s to 11 s, or is
// released at 5 s.
func TestTruth(t *testing.T) {
	granted := did(acquire(0, 2*s, "a", 1, Granted), Granted)
	released := did(release(4*s, 6*s, "a", 1, Okay), Okay)
	next := func(at time.Duration) Event { return took(at, did(acquire(at-s, at+s, "b", 2, Granted), Granted)) }
	take := func(from, to time.Duration, token int64) Event {
		return Event{Kind: Take, At: from, Until: to, Replica: "a", Name: "n", Holder: "a", Token: token, Result: Granted}
	}
	refused := func(replica string, from, to time.Duration) Event {
		return Event{Kind: Take, At: from, Until: to, Replica: replica, Name: "n", Result: Held}
	}
	give := func(from, to time.Duration, result Result) Event {
		return Event{Kind: Give, At: from, Until: to, Replica: "a", Name: "n", Holder: "a", Token: 1, Result: result}
	}
	after := func(more ...Event) History { return append(History{granted}, more...) }
	given := func(more ...Event) History { return append(History{granted, released}, more...) }
	done := func(by Event, until time.Duration) History { // and told so to b
		return History{granted, by, with(refused("b", 3*s, until), func(e *Event) { e.Result = Done })}
	}
	limited := func(limit int) Event { // a belief in something that has another name than its lease
		return with(belief(2*s, 3*s, "a", 1), func(e *Event) { e.Name, e.Limit = "semaphore", limit })
	}
	// A call that takes the name and wants it to stay taken until 8 s.
	kept := with(take(0, 2*s, 1), func(e *Event) { e.Linger = 8 * s })
	keptLater := func(h History) History {
		for i := range h {
			h[i].At, h[i].Until, h[i].Took = h[i].At+s, h[i].Until+s, h[i].Took+s
		}
		return h
	}
	ofUs := did(acquire(3*s, 5*s, "a", 1, Granted), Granted) // a claim of replica a, sent at 3 s
	judge(t, []judged{
		{"believed in as soon as it is live", after(belief(s, 2*s, "a", 1)), Rules{}, ""},
		{"believed in before it is live", after(belief(s-1, 2*s, "a", 1)), Rules{}, BeliefInLease},
		{"believed in until it ends", after(belief(2*s, 11*s, "a", 1)), Rules{}, ""},
		{"believed in after it ended", after(belief(2*s, 11*s+1, "a", 1)), Rules{}, BeliefInLease},
		{"believed in by nobody who has it, for no time", after(belief(2*s, 2*s, "a", 9)), Rules{}, ""},
		{"one of several that may believe", after(limited(2)), Rules{}, ""},
		{"the only one who may believe", after(limited(1)), Rules{}, BeliefInLease},
		{"asked again, which does not prolong it", after(took(4*s, did(acquire(3*s, 5*s, "a", 1, Granted), Granted)), belief(5*s, 12*s, "a", 1)), Rules{}, BeliefInLease},
		{"released once more, which does not prolong it", given(did(release(7*s, 9*s, "a", 1, Okay), Okay), belief(2*s, 7*s, "a", 1)), Rules{}, BeliefInLease},
		{"not released by a stranger", after(did(release(4*s, 6*s, "b", 1, Lost), Lost), belief(2*s, 11*s, "a", 1)), Rules{}, ""},
		{"extended, as those who watched it know", after(with(did(extend(8*s, 10*s, "a", 1, Okay), Okay), func(e *Event) { e.Result, e.Until = Unknown, Never }), belief(2*s, 15*s, "a", 1)), Rules{}, ""},
		{"extended without a grant", History{did(extend(0, 2*s, "a", 1, Okay), Okay)}, Rules{}, Linearizability},
		{"released without a grant", History{did(release(0, 2*s, "a", 1, Okay), Okay)}, Rules{}, Linearizability},
		{"taken away, and believed in until it would have ended", given(forced(4*s, 1), belief(2*s, 11*s, "a", 1)), Rules{}, ""},
		{"taken away, and believed in for longer than it would have been live", given(forced(4*s, 1), belief(2*s, 11*s+1, "a", 1)), Rules{}, BeliefInLease},
		{"another was taken away", given(forced(4*s, 2), belief(2*s, 11*s, "a", 1)), Rules{}, BeliefInLease},

		{"told as soon as it was granted", after(take(0, s, 1)), Rules{}, ""},
		{"told before it was granted", after(take(0, s-1, 1)), Rules{}, ToldTruth},
		{"granted when it was asked for", after(take(s, 2*s, 1)), Rules{}, ""},
		{"granted before it was asked for", after(take(s+1, 2*s, 1)), Rules{}, ToldTruth},
		{"told a token that was not granted", after(take(0, 2*s, 9)), Rules{}, ToldTruth},
		{"told of another's grant", after(with(take(0, 2*s, 1), func(e *Event) { e.Holder = "b" })), Rules{}, ToldTruth},
		{"told of a grant, where nobody watched", History{acquire(0, 2*s, "a", 1, Granted), take(0, 2*s, 1), give(4*s, 5*s, Okay), refused("b", 6*s, 7*s)}, Rules{}, ""},

		{"kept as long as it was to be", given(kept, next(8*s)), Rules{}, ""},
		{"kept for a little less, as a clock of microseconds may tell", given(kept, next(8*s-time.Microsecond)), Rules{}, ""},
		{"kept for less", given(kept, next(8*s-time.Microsecond-1)), Rules{}, ToldTruth},
		{"kept from when it was asked for on, as long as it was to be", keptLater(given(kept, next(8*s))), Rules{}, ""},
		{"kept from when it was asked for on, for less", keptLater(given(kept, next(7*s))), Rules{}, ToldTruth},
		{"kept for less by force", given(kept, forced(4*s, 1), next(7*s)), Rules{}, ""},
		{"kept for less, for its holder died", after(with(kept, func(e *Event) { e.Linger = 20 * s }), next(12*s)), Rules{}, ""},
		{"kept, and then nobody came", given(kept), Rules{}, ""},
		{"kept for less, and granted to who had asked for it first", append(History{took(6*s, did(acquire(0, 7*s, "b", 2, Granted), Granted))}, given(kept)...), Rules{}, ToldTruth},

		{"refused as soon as another has it", after(refused("b", 0, s)), Rules{}, ""},
		{"refused before another has it", after(refused("b", 0, s-1)), Rules{}, ToldTruth},
		{"refused while another still has it", after(refused("b", 11*s-1, 12*s)), Rules{}, ""},
		{"refused when another has it no more", after(refused("b", 11*s, 12*s)), Rules{}, ToldTruth},
		{"refused until another gives it back", given(refused("b", 5*s-1, 6*s)), Rules{}, ""},
		{"refused when another has given it back", given(refused("b", 5*s, 6*s)), Rules{}, ToldTruth},
		{"refused by a claim that the store did not grant", after(acquire(12*s, Never, "c", 0, Unknown), refused("b", 13*s, 14*s)), Rules{}, ToldTruth},
		{"refused by a claim of its own before", after(refused("a", 2*s, 3*s)), Rules{}, ""},
		{"refused by the claim of the call", History{ofUs, refused("a", 3*s, 6*s)}, Rules{}, ToldTruth},
		{"refused by the claim of a call just before", History{ofUs, refused("a", 3*s+1, 6*s)}, Rules{}, ""},
		{"refused by the claim of the call, which was released", History{ofUs, did(release(5*s, 7*s, "a", 1, Okay), Okay), refused("a", 3*s, 9*s)}, Rules{}, ToldTruth},
		{"refused by the claim of the call, which was released and lingers", History{ofUs, lingers(did(release(5*s, 7*s, "a", 1, Okay), Okay), s), refused("a", 3*s, 9*s)}, Rules{}, ""},
		{"refused by the claim of the call, after another's lease", History{did(acquire(0, 2*s, "b", 1, Granted), Granted), did(release(2*s, 2*s, "b", 1, Okay), Okay),
			did(acquire(3*s, 5*s, "a", 2, Granted), Granted), refused("a", 3*s, 6*s)}, Rules{}, ToldTruth},

		{"told that it is done, as soon as it was", done(did(marked(release(4*s, 6*s, "a", 1, Okay), 1), Okay), 5*s), Rules{}, ""},
		{"told that it is done, before it was", done(did(marked(release(4*s, 6*s, "a", 1, Okay), 1), Okay), 5*s-1), Rules{}, ToldTruth},
		{"told that it is done, and it was extended", done(did(marked(extend(4*s, 6*s, "a", 1, Okay), 1), Okay), 5*s), Rules{}, ""},
		{"told that it is done, and it was given back", done(released, 9*s), Rules{}, ToldTruth},
		{"told that it is done, and its holder was refused", done(did(marked(release(4*s, 6*s, "b", 1, Lost), 1), Lost), 9*s), Rules{}, ToldTruth},
		{"told that it is done, as nobody but those who watched it knows", done(untold(did(marked(release(4*s, 6*s, "a", 1, Okay), 1), Okay)), 9*s), Rules{}, ""},
		{"told that it is done, of the second mark", append(done(did(marked(extend(2*s, 4*s, "a", 1, Okay), 1), Okay), 4*s), did(marked(release(6*s, 8*s, "a", 1, Okay), 2), Okay)), Rules{}, ""},
		{"told that it is done, as the mark that was sent first came last", done(took(8*s, did(marked(extend(2*s, 9*s, "a", 1, Okay), 1), Okay)), 6*s), Rules{}, ToldTruth},
		{"told that it is done, by a mark that was sent after one that came later", append(done(took(5*s, did(marked(extend(4*s, 6*s, "a", 1, Okay), 1), Okay)), 6*s),
			took(8*s, did(marked(extend(2*s, 9*s, "a", 1, Okay), 1), Okay))), Rules{}, ""},
		{"told that it is done, as another was", append(done(with(did(marked(release(4*s, 6*s, "a", 1, Okay), 1), Okay), func(e *Event) { e.Name = "other" }), 9*s),
			with(granted, func(e *Event) { e.Name = "other" })), Rules{}, ToldTruth},
		{"told that it is released, as it was", given(give(4*s, 5*s, Okay)), Rules{}, ""},
		{"told that it is released, before it was", given(give(4*s, 5*s-1, Okay)), Rules{}, ToldTruth},
		{"told that it is released, which was never granted", after(with(give(4*s, 5*s, Okay), func(e *Event) { e.Token = 9 })), Rules{}, ToldTruth},
		{"told that it is lost, which was never granted", after(with(give(4*s, 5*s, Lost), func(e *Event) { e.Token = 9 })), Rules{}, ""},
		{"told that it is lost, while it is live", after(give(4*s, 5*s, Lost)), Rules{}, ToldTruth},
		{"told that it is lost, just before it ends", after(give(4*s, 11*s-1, Lost)), Rules{}, ToldTruth},
		{"told that it is lost, and it ends", after(give(4*s, 11*s, Lost)), Rules{}, ""},
		{"told that it is lost, for a person takes it away", after(forced(4*s, 1), give(4*s, 5*s, Lost)), Rules{}, ""},
		{"told that it is lost, while it is live, and another was taken away", after(forced(4*s, 2), give(4*s, 5*s, Lost)), Rules{}, ToldTruth},
		{"told that it is lost, and released at the first instant of the call", given(give(5*s, 6*s, Lost)), Rules{}, ToldTruth},
		{"told that it is lost, and released before the call", given(give(5*s+1, 6*s, Lost)), Rules{}, ""},
		{"told that it is lost, and released at the last instant of the call", given(give(4*s, 5*s, Lost)), Rules{}, ToldTruth},
		{"told that it is lost, and released after the call", given(give(4*s, 5*s-1, Lost)), Rules{}, ToldTruth},
		{"told that it is lost, after another was granted it", given(give(4*s, 8*s, Lost), next(8*s)), Rules{}, ToldTruth},
		{"told that it is lost, and forgotten", given(give(4*s, 6*s, Lost), swept(5*s)), Rules{}, ToldTruth},
		{"told that it is lost, and something else happened", given(give(4*s, 6*s, Lost), Event{Kind: Fault, At: 5 * s, Fault: "crash"}), Rules{}, ToldTruth},
	})
}

// TestUnwatchedTruth gives histories of a store that nobody could watch: what is known is what was told.
func TestUnwatchedTruth(t *testing.T) {
	granted := acquire(0, s, "a", 1, Granted) // its lease ends at 11 s at the latest
	after := func(more ...Event) History { return append(History{granted}, more...) }
	told := extend(2*s, 4*s, "a", 1, Lost)
	judge(t, []judged{
		{"believed in for as long as a clock may be slow", after(belief(s, 12*s, "a", 1)), Rules{Drift: 0.1}, ""},
		{"believed in for longer than a clock may be slow", after(belief(s, 12*s+1, "a", 1)), Rules{Drift: 0.1}, BeliefInLease},
		{"believed in after a short extension", after(lasting(extend(2*s, 3*s, "a", 1, Okay), s), belief(s, 11*s, "a", 1)), Rules{}, ""},
		{"believed in after an extension that was given up", after(extend(7*s, 8*s, "a", 1, Unknown), belief(s, 12*s, "a", 1)), Rules{}, BeliefInLease},
		{"believed in until a release, after it ended", after(release(9*s, 13*s, "a", 1, Okay), belief(s, 12*s, "a", 1)), Rules{}, BeliefInLease},
		{"believed in until a call returned, after it ended", after(Event{Kind: Take, At: 0, Until: 13 * s, Replica: "a", Name: "n", Holder: "a", Token: 1, Result: Granted}, belief(s, 12*s, "a", 1)), Rules{}, BeliefInLease},
		{"believed in by who was refused, which is not known", after(acquire(2*s, 3*s, "b", 1, Held), belief(20*s, 30*s, "b", 1)), Rules{}, ""},
		{"believed in by who was refused, when all requests are known", after(acquire(2*s, 3*s, "b", 1, Held), belief(20*s, 30*s, "b", 1)), Rules{Complete: true}, BeliefInLease},
		{"believed in with a token that was not granted, when all requests are known", after(belief(s, 2*s, "a", 2)), Rules{Complete: true}, BeliefInLease},
		{"believed in as it was granted, when all requests are known", after(belief(s, 11*s, "a", 1)), Rules{Complete: true}, ""},

		{"believed in until it was told that it is lost", History{told, belief(s, 4*s, "a", 1)}, Rules{}, ""},
		{"believed in after it was told that it is lost", History{told, belief(s, 4*s+1, "a", 1)}, Rules{}, ToldTruth},
		{"believed in after a person was told so, who took it away", History{by("b", release(2*s, 4*s, "a", 1, Lost)), belief(s, 4*s+1, "a", 1)}, Rules{}, ""},
		{"believed in by another than the one who was told", History{told, belief(s, 5*s, "b", 1)}, Rules{}, ""},
		{"told so after another, who asked with its token", History{extend(s, 2*s, "b", 1, Lost), told, belief(s, 5*s, "a", 1)}, Rules{}, ToldTruth},
		{"told so twice", History{told, extend(4*s, 6*s, "a", 1, Lost), belief(s, 5*s, "a", 1)}, Rules{}, ToldTruth},
		{"told so twice, in the other order", History{extend(s, 6*s, "a", 1, Lost), told, belief(s, 5*s, "a", 1)}, Rules{}, ToldTruth},
		{"released after it was told that it is lost", History{told, release(5*s, 6*s, "a", 1, Lost)}, Rules{}, ""},
		{"given back after it was told that it is lost", History{told, {Kind: Give, At: 4 * s, Until: 6 * s, Name: "n", Holder: "a", Token: 1, Result: Lost}}, Rules{}, ""},
		{"believed in while it is given back", History{granted, {Kind: Give, At: 4 * s, Until: 5 * s, Name: "n", Holder: "a", Token: 1, Result: Lost}, belief(s, 6*s, "a", 1)}, Rules{}, ""},
	})
}

// TestHandOver: a lock is free from the release, linger or end of the lease before it on, for somebody who waits for it and may wait for two, or until 12 s, for all is well
// from 10 s on.
func TestHandOver(t *testing.T) {
	take := func(at time.Duration) Event {
		return Event{Kind: Take, At: at, Until: 40 * s, Name: "n", Holder: "b", Token: 2, Result: Granted}
	}
	had := did(acquire(0, 2*s, "a", 1, Granted), Granted) // ends at 11 s
	freed := func(at, linger time.Duration) Event { return lingers(did(release(at, at, "a", 1, Okay), Okay), linger) }
	got := func(at time.Duration) Event { return did(acquire(at, at, "b", 2, Granted), Granted) }
	for _, test := range []struct {
		name string
		h    History
		late bool
	}{
		{"asked for, and granted soon", History{take(10 * s), got(12 * s)}, false},
		{"asked for, and granted late", History{take(10 * s), got(12*s + 1)}, true},
		{"asked for before all was well, and granted soon", History{take(5 * s), got(12 * s)}, false},
		{"asked for before all was well, and granted late", History{take(5 * s), got(12*s + 1)}, true},
		{"ends, and granted soon", History{had, take(10 * s), got(13 * s)}, false},
		{"ends, and granted late", History{had, take(10 * s), got(13*s + 1)}, true},
		{"released, and granted soon", History{had, freed(10*s+s/2, 0), take(10 * s), got(12*s + s/2)}, false},
		{"released, and granted late", History{had, freed(10*s+s/2, 0), take(10 * s), got(12*s + s/2 + 1)}, true},
		{"lingers, and granted soon", History{had, freed(9*s, 8*s), take(10 * s), got(19 * s)}, false},
		{"lingers, and granted late", History{had, freed(9*s, 8*s), take(10 * s), got(19*s + 1)}, true},
		{"released long before it is asked for, and granted soon", History{had, freed(5*s, 0), take(15 * s), got(17 * s)}, false},
		{"released long before it is asked for, and granted late", History{had, freed(5*s, 0), take(15 * s), got(17*s + 1)}, true},
		{"refused", History{with(take(10*s), func(e *Event) { e.Result = Held }), got(20 * s)}, false},
		{"given back", History{with(take(10*s), func(e *Event) { e.Kind = Give }), got(20 * s)}, false},
		{"not granted by the store", History{take(10 * s)}, false},
	} {
		found := Idle(test.h, 10*s, 2*s)
		if late := len(found) > 0; late != test.late {
			t.Errorf("%s: %v", test.name, found)
		}
		for _, v := range found {
			if v.Checker != HandOver || v.Name != "n" || len(v.Excerpt) != 2 {
				t.Errorf("%s: %v", test.name, v)
			}
		}
	}
}

// TestTokens gives histories of tokens that grow, and that do not.
func TestTokens(t *testing.T) {
	short := func(at, until time.Duration, holder string, token int64) Event { // a grant that is over at once
		return lasting(acquire(at, until, holder, token, Granted), 0)
	}
	write := func(at time.Duration, token int64, result Result) Event {
		return Event{Kind: Write, At: at, Name: "r", Token: token, Result: result}
	}
	judge(t, []judged{
		{"granted at the same time, in any order", History{short(0, s, "a", 5), short(s, 2*s, "b", 4)}, Rules{}, ""},
		{"granted after another was told", History{short(0, s, "a", 5), short(s+1, 2*s, "b", 4)}, Rules{}, Linearizability + " and " + TokenOrder},
		{"granted after the second of them was told", History{short(0, 20*s, "a", 1), short(s, 2*s, "b", 5), short(3*s, 4*s, "c", 4)}, Rules{}, Linearizability + " and " + TokenOrder},
		{"granted after the greatest of them was told", History{short(0, 2*s, "a", 5), short(0, 3*s, "b", 3), short(4*s, 5*s, "c", 4)}, Rules{}, Linearizability + " and " + TokenOrder},
		{"granted after all of them were told", History{short(0, 2*s, "a", 5), short(0, 3*s, "b", 3), short(4*s, 5*s, "c", 6)}, Rules{}, ""},
		{"one token for two at the same time", History{short(0, 3*s, "a", 5), short(s, 4*s, "b", 5)}, Rules{}, Linearizability + " and " + TokenOrder},
		{"one token for one who asks twice", History{acquire(0, 3*s, "a", 5, Granted), acquire(4*s, 5*s, "a", 5, Granted)}, Rules{}, ""},
		{"a token of nothing", History{short(0, s, "a", 0)}, Rules{}, Linearizability + " and " + TokenOrder},
		{"a token below nothing", History{short(0, s, "a", -1)}, Rules{}, Linearizability + " and " + TokenOrder},
		{"one token of two names", History{short(0, s, "a", 5), with(short(2*s, 3*s, "b", 5), func(e *Event) { e.Name = "m" })}, Rules{}, ""},
		{"a call that tells of it, which is no grant", History{short(0, s, "a", 5), {Kind: Take, At: 2 * s, Until: 3 * s, Name: "n", Holder: "b", Token: 4, Result: Granted}}, Rules{}, ""},

		{"a write, and another with its token", History{write(s, 2, Okay), write(2*s, 2, Okay)}, Rules{}, ""},
		{"a write, and an older one", History{write(s, 2, Okay), write(2*s, 1, Okay)}, Rules{}, FencedResource},
		{"the first write is refused, after what is not in the history", History{write(s, 2, Stale), write(2*s, 3, Okay)}, Rules{}, ""},
		{"a newer write is refused", History{write(s, 2, Okay), write(2*s, 3, Stale)}, Rules{}, FencedResource},
		{"a newer write fails", History{write(s, 2, Okay), write(2*s, 3, Failed)}, Rules{}, ""},
		{"an older write to another resource", History{write(s, 2, Okay), with(write(2*s, 1, Okay), func(e *Event) { e.Name = "q" })}, Rules{}, ""},
	})
}

// TestOverlaps gives histories of beliefs alone.
func TestOverlaps(t *testing.T) {
	two := []Event{belief(0, 3*s, "a", 1), belief(4*s, 6*s, "b", 2)}
	judge(t, []judged{
		{"taken away after it was believed in", History{two[0], two[1], forced(5*s, 1)}, Rules{}, ""},
		{"taken away while it is believed in", History{belief(0, 5*s, "a", 1), forced(4*s, 1), two[1]}, Rules{}, ""},
		{"taken away too late", History{belief(0, 5*s, "a", 1), forced(4*s+1, 1), two[1]}, Rules{}, BeliefOverlap},
		{"taken away twice", History{belief(0, 5*s, "a", 1), forced(3*s, 1), forced(5*s, 1), two[1]}, Rules{}, ""},
	})
	found := Check(History{belief(0, 5*s, "a", 1), two[1]}, Rules{}).Violations
	if len(found) != 1 || found[0].Text != "2 believed to have it at 4s, where 1 may" {
		t.Errorf("want who believed: %v", found)
	}
	permit := func(e Event) Event { e.Limit = 2; return e }
	found = Check(History{permit(belief(0, 5*s, "a", 1)), permit(belief(s, 5*s, "b", 2)), permit(belief(3*s, 5*s, "c", 3))}, Rules{}).Violations
	if len(found) != 1 || found[0].Text != "3 believed to have it at 3s, where 2 may" || len(found[0].Excerpt) != 3 {
		t.Errorf("want who believed: %v", found)
	}
}

// TestStates gives histories of what holders set, and what the next is told.
func TestStates(t *testing.T) {
	granted := did(acquire(0, s, "a", 1, Granted), Granted)
	next := did(acquire(16*s, 17*s, "b", 2, Granted), Granted)
	told := func(state uint64) Event {
		return Event{Kind: Take, At: 16 * s, Until: 18 * s, Replica: "b", Name: "n", Holder: "b", Token: 2, State: state, Result: Granted}
	}
	died := func(state uint64, sets ...Event) History { return append(History{granted, next, told(state)}, sets...) }
	judge(t, []judged{
		{"who died has set it twice", died(8, set(2*s, 7, Okay), set(3*s, 8, Okay)), Rules{}, ""},
		{"who died has set it twice, and the first came late", died(7, set(2*s, 7, Okay), set(3*s, 8, Okay)), Rules{}, ""},
		{"who died has set it, and not to this", died(9, set(2*s, 7, Okay), set(3*s, 8, Okay)), Rules{}, StatesChecker},
		{"who died has set it, and it is as it was", died(0, set(2*s, 7, Okay), set(3*s, 8, Okay)), Rules{}, StatesChecker},
		{"set by the one who was told it", died(0, with(set(19*s, 7, Okay), func(e *Event) { e.Token = 2 })), Rules{}, ""},
		{"told nothing, for the call was refused", append(died(7, set(2*s, 7, Okay)), with(told(0), func(e *Event) { e.Result, e.Holder, e.At = Held, "", 17*s })), Rules{}, ""},
		{"another name", died(0, with(set(2*s, 7, Okay), func(e *Event) { e.Name = "m" })), Rules{}, ""},
		{"told a state of a name whose states nobody sets", died(7), Rules{}, ""},
		{"told of a grant that was not", append(died(7, set(2*s, 7, Okay)), with(told(0), func(e *Event) { e.Token = 9 })), Rules{}, ToldTruth},
		{"where nobody watched", History{acquire(0, s, "a", 1, Granted), acquire(16*s, 17*s, "b", 2, Granted), told(0), set(2*s, 7, Okay)}, Rules{}, ""},
	})
	// Somebody who sets nothing has it in between.
	third := with(told(0), func(e *Event) { e.At, e.Until, e.Holder, e.Token = 29*s, 31*s, "c", 3 })
	sets := set(2*s, 7, Okay)
	h := append(died(7, sets), did(acquire(29*s, 30*s, "c", 3, Granted), Granted), third)
	found := Check(h, Rules{}).Violations
	if len(found) != 1 || len(found[0].Excerpt) != 2 || found[0].Excerpt[0] != sets || found[0].Excerpt[1] != third {
		t.Errorf("want what was set and what was told: %v", found)
	}
}
