package proof

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestLaws gives histories of one name to the model of a record, two side by side wherever a little decides.
func TestLaws(t *testing.T) {
	// granted has the name from an instant of the first second on: its lease ends between 10 s and 11 s.
	granted := acquire(0, s, "a", 1, Granted)
	released := release(2*s, 3*s, "a", 1, Okay)
	after := func(more ...Event) History { return append(History{granted}, more...) }
	seen := func(e Event, mark int64) Event { e.Seen = mark; return e }
	// claimed is somebody's claim that took effect, for the holder was seen at it, and that nobody was told of.
	claimed := acquire(0, Never, "a", 0, Unknown)
	// marked1 has the name, and gives it back with a mark that must be remembered for some time.
	marked1 := func(retain time.Duration, more ...Event) History {
		return append(History{granted, with(release(s, 2*s, "a", 1, Okay), func(e *Event) { e.Mark, e.Retain = 1, retain })}, more...)
	}
	unended := Event{Kind: Swept, At: 5 * s, Until: Never}
	untoldOf := func(retain time.Duration, mark int64) History { // at 8 s at the latest, by b
		return marked1(retain, unended, acquire(6*s, Never, "b", 0, Unknown), acquire(7*s, 8*s, "c", 2, Held), seen(acquire(30*s, 31*s, "c", 3, Granted), mark))
	}
	reopened := History{granted, released, acquire(4*s, Never, "b", 0, Unknown), acquire(5*s, 6*s, "c", 0, Held)}
	drifting, clockless := Rules{Drift: 0.1}, Rules{Clockless: true}
	judge(t, []judged{
		{"taken until the last instant of its lease", after(acquire(11*s, 12*s, "b", 1, Held)), Rules{}, ""},
		{"taken after the last instant of its lease", after(acquire(11*s+1, 12*s, "b", 1, Held)), Rules{}, Linearizability},
		{"free from the first instant after its lease on", after(acquire(9*s, 10*s, "b", 2, Granted)), Rules{}, ""},
		{"free before the first instant after its lease", after(acquire(9*s, 10*s-1, "b", 2, Granted)), Rules{}, Linearizability},
		{"taken a little longer, with drift", after(acquire(12*s, 13*s, "b", 1, Held)), drifting, ""},
		{"taken for too long, with drift", after(acquire(12*s+1, 13*s, "b", 1, Held)), drifting, Linearizability},
		{"taken by who is not told", after(acquire(2*s, 3*s, "b", 0, Held)), Rules{}, ""},
		{"taken by nobody, who is not told", after(released, acquire(4*s, 5*s, "b", 0, Held)), Rules{}, Linearizability},
		{"an answer from before the question", History{acquire(2*s, s, "a", 1, Granted)}, Rules{}, Linearizability},

		{"asked again, and told the same", after(acquire(2*s, 3*s, "a", 1, Granted)), Rules{}, ""},
		{"asked again, and told another", after(acquire(2*s, 3*s, "a", 2, Granted)), Rules{}, Linearizability},
		{"asked again when it is over", after(acquire(12*s, 13*s, "a", 1, Granted)), Rules{}, Linearizability},
		{"asked again when it may be over", after(acquire(9*s, 10*s, "a", 1, Held)), Rules{}, ""},
		{"asked again while it is released and lingers, and granted", after(lingers(released, 5*s), acquire(4*s, 5*s, "a", 1, Granted)), Rules{}, Linearizability},
		{"asked again while it is released and lingers, and refused", after(lingers(released, 5*s), acquire(4*s, 5*s, "a", 1, Held)), Rules{}, ""},
		{"asked again, with a mark that it has raised", after(marked(extend(2*s, 3*s, "a", 1, Okay), 5), seen(marked(acquire(4*s, 5*s, "a", 1, Granted), 5), 5)), Rules{}, ""},
		{"asked again, and refused by a mark that it has raised", after(marked(extend(2*s, 3*s, "a", 1, Okay), 5), seen(marked(acquire(4*s, 5*s, "a", 0, Done), 5), 5)), Rules{}, Linearizability},
		{"only looked at by who has it", after(with(acquire(4*s, 5*s, "a", 0, Done), func(e *Event) { e.Mark = -1 })), Rules{}, ""},
		{"asked again when it may be over, and refused by a mark", after(marked(extend(s, s, "a", 1, Okay), 5), seen(marked(acquire(10*s, 11*s, "a", 0, Done), 5), 5)), Rules{}, ""},
		{"told a token when it asked again", History{claimed, acquire(2*s, 3*s, "b", 0, Held), acquire(4*s, 5*s, "a", 7, Granted)}, Rules{}, ""},
		{"told a token when it asked again, and another token then", History{claimed, acquire(2*s, 3*s, "b", 0, Held), acquire(4*s, 5*s, "a", 7, Granted), acquire(6*s, 7*s, "b", 8, Held)}, Rules{}, Linearizability},
		{"told the token of its lease before when it asked again", after(acquire(9*s, Never, "a", 0, Unknown), acquire(13*s, 14*s, "b", 0, Held), acquire(15*s, 16*s, "a", 1, Granted)), Rules{}, Linearizability},
		{"told a new token when it asked again", after(acquire(9*s, Never, "a", 0, Unknown), acquire(13*s, 14*s, "b", 0, Held), acquire(15*s, 16*s, "a", 2, Granted)), Rules{}, ""},
		{"refused by the token of a lease before", append(slices.Clone(reopened), acquire(7*s, 8*s, "d", 1, Held)), Rules{}, Linearizability},
		{"refused by the token of the lease that nobody was told of", append(slices.Clone(reopened), acquire(7*s, 8*s, "d", 2, Held)), Rules{}, ""},
		{"refused by one token of it, and by another", append(slices.Clone(reopened), acquire(7*s, 8*s, "d", 2, Held), acquire(9*s, 10*s, "c", 3, Held)), Rules{}, Linearizability},
		{"extended by the token of a lease before", append(slices.Clone(reopened), extend(7*s, 8*s, "b", 1, Okay)), Rules{}, Linearizability},
		{"extended by the token of the lease that nobody was told of", append(slices.Clone(reopened), extend(7*s, 8*s, "b", 2, Okay), acquire(9*s, 10*s, "c", 2, Held)), Rules{}, ""},
		{"extended by one token, and refused by another", append(slices.Clone(reopened), extend(7*s, 8*s, "b", 2, Okay), acquire(9*s, 10*s, "c", 3, Held)), Rules{}, Linearizability},
		{"the token of another holder's lease, again", after(released, acquire(4*s, 5*s, "b", 1, Granted)), Rules{}, Linearizability + " and " + TokenOrder},

		{"a lower token is told before it is raised, without a clock", append(slices.Clone(reopened), acquire(7*s, 8*s, "d", 1, Held)), clockless, ""},
		{"a lower token than that of the lease is told, without a clock", History{acquire(0, s, "a", 5, Granted), acquire(2*s, 3*s, "b", 3, Held)}, clockless, ""},
		{"a lower token than that of the lease is told", History{acquire(0, s, "a", 5, Granted), acquire(2*s, 3*s, "b", 3, Held)}, Rules{}, Linearizability},
		{"a greater token than that of the lease is told, without a clock", History{acquire(0, s, "a", 5, Granted), acquire(2*s, 3*s, "b", 6, Held)}, clockless, Linearizability},
		{"a lower token is granted after one was released before it was raised, without a clock", History{acquire(0, s, "a", 5, Granted), release(2*s, 3*s, "a", 5, Okay),
			acquire(4*s, Never, "b", 0, Unknown), release(6*s, 7*s, "b", 3, Okay), acquire(8*s, 9*s, "c", 4, Granted)}, clockless, Linearizability + " and " + TokenOrder},

		{"an extension counts from its request", after(extend(8*s, 9*s, "a", 1, Okay), acquire(16*s, 17*s, "b", 2, Granted)), Rules{}, Linearizability},
		{"an extension ends", after(extend(8*s, 9*s, "a", 1, Okay), acquire(17*s, 18*s, "b", 2, Granted)), Rules{}, ""},
		{"a short extension does not shorten the lease", after(lasting(extend(2*s, 3*s, "a", 1, Okay), s), acquire(6*s, 7*s, "b", 1, Held)), Rules{}, ""},
		{"free after a short extension", after(lasting(extend(2*s, 3*s, "a", 1, Okay), s), acquire(6*s, 7*s, "b", 2, Granted)), Rules{}, Linearizability},
		{"lost after its end", after(extend(11*s, 12*s, "a", 1, Lost)), Rules{}, ""},
		{"lost when it may have ended", after(extend(9*s, 10*s, "a", 1, Lost)), Rules{}, ""},
		{"lost before its end", after(extend(9*s, 10*s-1, "a", 1, Lost)), Rules{}, Linearizability},
		{"lost after its release", after(lingers(released, 9*s), extend(4*s, 5*s, "a", 1, Lost)), Rules{}, ""},
		{"extended after its release", after(lingers(released, 9*s), extend(4*s, 5*s, "a", 1, Okay)), Rules{}, Linearizability},
		{"extended after a release that nobody was told of", after(release(2*s, Never, "a", 1, Unknown), extend(4*s, 5*s, "a", 1, Okay)), Rules{}, ""},
		{"an extension of what is released, which nobody was told of", after(released, extend(4*s, Never, "a", 1, Unknown)), Rules{}, ""},
		{"extended by a stranger", after(extend(2*s, 3*s, "b", 1, Okay)), Rules{}, Linearizability},
		{"lost to a stranger", after(extend(2*s, 3*s, "b", 1, Lost), release(4*s, 5*s, "b", 1, Lost)), Rules{}, ""},
		{"extended with another token", after(extend(2*s, 3*s, "a", 2, Okay)), Rules{}, Linearizability},

		{"released once more with its mark", after(marked(released, 1), marked(release(4*s, 5*s, "a", 1, Okay), 1)), Rules{}, ""},
		{"released once more with a greater mark", after(lingers(marked(released, 1), 9*s), marked(release(4*s, 5*s, "a", 1, Okay), 2)), Rules{}, Linearizability},
		{"lost when it is released once more with a greater mark", after(lingers(marked(released, 1), 9*s), marked(release(4*s, 5*s, "a", 1, Lost), 2)), Rules{}, ""},
		{"a release once more with a greater mark that nobody was told of", after(marked(released, 1), marked(release(4*s, Never, "a", 1, Unknown), 2)), Rules{}, ""},
		{"released once more, which does not prolong its linger", after(lingers(released, 5*s), lingers(release(6*s, 7*s, "a", 1, Okay), 5*s), acquire(9*s, 10*s, "b", 2, Granted)), Rules{}, ""},
		{"released once more, when another has it", after(released, acquire(4*s, 5*s, "b", 2, Granted), release(6*s, 7*s, "a", 1, Okay)), Rules{}, Linearizability},
		{"lingers until the last instant", after(lingers(released, 5*s), acquire(8*s, 9*s, "b", 1, Held)), Rules{}, ""},
		{"lingers for too long", after(lingers(released, 5*s), acquire(8*s+1, 9*s, "b", 1, Held)), Rules{}, Linearizability},

		{"held, though it is done", after(marked(extend(2*s, 3*s, "a", 1, Okay), 5), marked(acquire(4*s, 5*s, "b", 1, Held), 5)), Rules{}, Linearizability},
		{"held, and not done", after(marked(extend(2*s, 3*s, "a", 1, Okay), 5), marked(acquire(4*s, 5*s, "b", 1, Held), 6)), Rules{}, ""},
		{"done, and told no mark", after(marked(extend(2*s, 3*s, "a", 1, Okay), 5), seen(marked(acquire(4*s, 5*s, "b", 0, Done), 5), unseen)), Rules{}, ""},
		{"done, and told that nothing was done", after(marked(extend(2*s, 3*s, "a", 1, Okay), 5), seen(marked(acquire(4*s, 5*s, "b", 0, Done), 5), 0)), Rules{}, Linearizability},
		{"looked at, and told the state of a name without a mark", after(stated(extend(2*s, 3*s, "a", 1, Okay), 7), stated(looked(4*s, 5*s, 0), 7)), Rules{}, ""},
		{"looked at, and told another state of a name without a mark", after(stated(extend(2*s, 3*s, "a", 1, Okay), 7), stated(looked(4*s, 5*s, 0), 9)), Rules{}, Linearizability},
		{"done, and told the state", after(stated(marked(extend(2*s, 3*s, "a", 1, Okay), 5), 7), stated(looked(4*s, 5*s, 5), 7)), Rules{}, ""},
		{"done, and told another state", after(stated(marked(extend(2*s, 3*s, "a", 1, Okay), 5), 7), stated(looked(4*s, 5*s, 5), 9)), Rules{}, Linearizability},
		{"a mark is not lowered", after(marked(extend(2*s, 3*s, "a", 1, Okay), 5), marked(release(4*s, 5*s, "a", 1, Okay), 3), looked(6*s, 7*s, 5)), Rules{}, ""},
		{"a mark is lowered", after(marked(extend(2*s, 3*s, "a", 1, Okay), 5), marked(release(4*s, 5*s, "a", 1, Okay), 3), looked(6*s, 7*s, 3)), Rules{}, Linearizability},

		{"forgotten as soon as it may be", marked1(4*s, swept(5*s), seen(acquire(6*s, 7*s, "b", 2, Granted), 0)), Rules{}, ""},
		{"forgotten before it may be", marked1(4*s+1, swept(5*s), seen(acquire(6*s, 7*s, "b", 2, Granted), 0)), Rules{}, Linearizability},
		{"forgotten by a sweep that went on until it may be", marked1(5*s, Event{Kind: Swept, At: 5 * s, Until: 6 * s}, seen(acquire(6*s, 7*s, "b", 2, Granted), 0)), Rules{}, ""},
		{"forgotten by a sweep at the last instant", marked1(s, swept(7*s), seen(acquire(6*s, 7*s, "b", 2, Granted), 0)), Rules{}, ""},
		{"forgotten by a sweep after the answer", marked1(s, swept(7*s+1), seen(acquire(6*s, 7*s, "b", 2, Granted), 0)), Rules{}, Linearizability},
		{"forgotten by a sweep without an answer", marked1(4*s, unended, seen(acquire(6*s, 7*s, "b", 2, Granted), 0)), Rules{}, ""},
		{"forgotten by a sweep without an answer, before it may be", marked1(time.Hour, unended, seen(acquire(6*s, 7*s, "b", 2, Granted), 0)), Rules{}, Linearizability},
		{"forgotten by a sweep without an answer, just before it may be", marked1(6*s+1, unended, seen(acquire(6*s, 7*s, "b", 2, Granted), 0)), Rules{}, Linearizability},
		{"forgotten by a sweep without an answer, as soon as it may be", marked1(6*s, unended, seen(acquire(6*s, 7*s, "b", 2, Granted), 0)), Rules{}, ""},
		{"forgotten by a sweep without an answer, and to be remembered forever", marked1(Never, unended, seen(acquire(6*s, 7*s, "b", 2, Granted), 0)), Rules{}, Linearizability},
		{"forgotten before a claim without an answer either, and to be remembered forever", marked1(Never, unended, acquire(6*s, Never, "b", 0, Unknown), acquire(7*s, 8*s, "c", 2, Held), seen(acquire(30*s, 31*s, "c", 3, Granted), 0)), Rules{}, Linearizability},
		{"forgotten before a claim without an answer either, before it may be", untoldOf(time.Hour, 0), Rules{}, Linearizability},
		{"forgotten before a claim without an answer either, just before it may be", untoldOf(7*s+1, 0), Rules{}, Linearizability},
		{"forgotten before a claim without an answer either, as soon as it may be", untoldOf(7*s, 0), Rules{}, ""},
		{"remembered by a claim without an answer either, which came before it may be forgotten", untoldOf(time.Hour, 1), Rules{}, ""},
		{"forgotten long after a claim without an answer either", marked1(time.Hour, unended, acquire(6*s, Never, "b", 0, Unknown), seen(acquire(2*time.Hour, 2*time.Hour+s, "c", 3, Granted), 0)), Rules{}, ""},
		{"forgotten as it was seen, and remembered by who had asked before", marked1(s, swept(6*s), looked(5*s, 7*s, 0), looked(5*s, 6*s-1, 1)), Rules{}, ""},
		{"forgotten as it was seen, and as was seen by who had asked at the same time", marked1(s, swept(6*s), looked(5*s, 7*s, 0), looked(5*s, 6*s, 0)), Rules{}, ""},
		{"forgotten as it was seen, and as was seen by who had the answer before", marked1(s, swept(6*s), looked(5*s, 7*s, 0), looked(5*s, 6*s-1, 0)), Rules{}, Linearizability},
		{"forgotten when it lingers no more", after(marked(lingers(release(s, 2*s, "a", 1, Okay), 3*s), 1), swept(4*s), acquire(6*s, 7*s, "b", 2, Granted)), Rules{}, ""},
		{"forgotten while it lingers", after(marked(lingers(release(s, 2*s, "a", 1, Okay), 3*s), 1), swept(4*s-1), acquire(6*s, 7*s, "b", 2, Granted)), Rules{}, Linearizability},
		{"forgotten although it was not released", after(marked(extend(s, 2*s, "a", 1, Okay), 1), swept(15*s), acquire(20*s, 21*s, "b", 2, Granted)), Rules{}, Linearizability},
		{"remembered until it is released", after(marked(extend(s, 2*s, "a", 1, Okay), 1), swept(15*s), seen(acquire(20*s, 21*s, "b", 2, Granted), 1)), Rules{}, ""},
		{"forgotten, for a claim with its mark was granted", marked1(s, swept(5*s), marked(acquire(6*s, Never, "b", 0, Unknown), 1), acquire(7*s, 8*s, "c", 2, Held), acquire(30*s, 31*s, "c", 3, Granted)), Rules{}, ""},
		{"remembered, although a claim with its mark was granted", marked1(s, swept(5*s), marked(acquire(6*s, Never, "b", 0, Unknown), 1), acquire(7*s, 8*s, "c", 2, Held), seen(acquire(30*s, 31*s, "c", 3, Granted), 1)), Rules{}, Linearizability},

		{"a call without an end may end at any time", History{acquire(0, 0, "a", 2, Granted), acquire(s, 2*s, "b", 1, Granted), release(3*s, 4*s, "b", 1, Okay)}, Rules{}, ""},
		{"a call with an end has ended", History{acquire(0, 1, "a", 2, Granted), acquire(s, 2*s, "b", 1, Granted), release(3*s, 4*s, "b", 1, Okay)}, Rules{}, Linearizability + " and " + TokenOrder},
		{"a request that was given up takes effect later", History{acquire(0, s/2, "a", 0, Unknown), acquire(s, 2*s, "b", 1, Granted), release(3*s, 4*s, "b", 1, Okay), acquire(5*s, 6*s, "c", 2, Held)}, Rules{}, ""},
		{"what the store did not do, as those who watched it know", History{did(granted, Granted), did(released, Okay), acquire(4*s, Never, "b", 0, Unknown), did(acquire(6*s, 7*s, "c", 2, Held), Held)}, Rules{}, Linearizability},
		{"what the store refused, as those who watched it know", History{did(granted, Granted), did(marked(released, 5), Okay), untold(did(marked(acquire(4*s, 5*s, "b", 0, Done), 5), Done))}, Rules{}, ""},
		{"failed, and so nothing", after(acquire(2*s, 3*s, "b", 2, Failed), extend(4*s, 5*s, "b", 2, Failed), release(6*s, 7*s, "a", 1, Failed), acquire(8*s, 9*s, "c", 1, Held)), Rules{}, ""},
		{"locked, and so nothing", after(acquire(2*s, 3*s, "b", 0, Locked), acquire(8*s, 9*s, "c", 1, Held)), Rules{}, ""},
	})
}

// TestManySweeps: a record that may have been forgotten more often than can be told apart is still judged.
func TestManySweeps(t *testing.T) {
	h := History{acquire(0, s, "a", 1, Granted), stated(marked(release(s, 2*s, "a", 1, Okay), 9), 7)}
	at := 2 * s
	for token := range int64(6) {
		h = append(h, swept(at+s), acquire(at+2*s, Never, "b", 0, Unknown), marked(release(at+3*s, at+4*s, "b", token+2, Okay), 8-token))
		at += 4 * s
	}
	// What is the same, whether it was forgotten or not, takes the room of one.
	same := History{acquire(0, s, "a", 1, Granted), stated(marked(release(s, 2*s, "a", 1, Okay), 1), 7)}
	for token, left := range []struct {
		mark  int64
		state uint64
	}{{2, 8}, {3, 9}, {3, 0}} {
		begin := 4 * s * time.Duration(token+1)
		same = append(same, swept(begin), acquire(begin+s, Never, "b", 0, Unknown), stated(marked(release(begin+2*s, begin+3*s, "b", int64(token+2), Okay), left.mark), left.state))
	}
	judge(t, []judged{
		{"two were forgotten, the third was not", append(same, swept(16*s), with(acquire(17*s, 18*s, "c", 9, Granted), func(e *Event) { e.Seen = 3 })), Rules{}, ""},
		{"it was forgotten in the end", append(slices.Clone(h), swept(at), acquire(at+s, at+2*s, "c", 9, Granted)), Rules{}, ""},
		{"it was never forgotten", append(slices.Clone(h), swept(at), stated(with(acquire(at+s, at+2*s, "c", 9, Granted), func(e *Event) { e.Seen = 9 }), 7)), Rules{}, ""},
		{"it has what nobody wrote", append(slices.Clone(h), swept(at), stated(with(acquire(at+s, at+2*s, "c", 9, Granted), func(e *Event) { e.Seen = 9 }), 6)), Rules{}, Linearizability},
	})
}

// TestSteps shows what the search for an order costs. The order that is the most likely needs none.
func TestSteps(t *testing.T) {
	late := acquire(0, 20*s, "b", 2, Granted) // it was asked for first
	inTheEnd := History{late, acquire(s, 2*s, "a", 1, Granted), release(3*s, 4*s, "a", 1, Okay)}
	watched := History{with(acquire(0, 9*s, "a", 1, Granted), func(e *Event) { e.Did, e.DidToken, e.Took = Granted, 1, s }), did(acquire(2*s, 3*s, "b", 1, Held), Held)}
	// The one who was refused by a claim without an answer was told sooner than that claim took effect, as far as the ends of calls tell.
	unlikely := History{acquire(0, Never, "a", 0, Unknown), acquire(2*s, 3*s, "b", 7, Held)}
	many := History{acquire(0, s, "x", 1, Granted), acquire(90*s, 91*s, "x", 1, Held)} // the second of which is wrong
	for i := range 40 {
		many = append(many, acquire(2*s, Never, fmt.Sprint("h", i), 0, Unknown))
	}
	for _, test := range []struct {
		name             string
		h                History
		steps            int
		found, unchecked int
	}{
		{"in the order of the answers", inTheEnd, 1, 0, 0},
		{"in the order in which the store decided", watched, 1, 0, 0},
		{"in another order", unlikely, 100, 0, 0},
		{"in another order, which takes more steps", unlikely, 1, 0, 1},
		{"in none, which takes one step", History{acquire(0, s, "a", 1, Held)}, 1, 1, 0},
		{"in none, of more than anybody can try", many, 1000, 0, 1},
	} {
		if found, unchecked := Linearizable(test.h, Rules{Steps: test.steps}); len(found) != test.found || unchecked != test.unchecked {
			t.Errorf("%s: %d unchecked and %v, want %d and %d", test.name, unchecked, found, test.unchecked, test.found)
		}
	}
}

// TestExcerpts shows the shortest part of a history that tells a violation: what came just before, and what was under way.
func TestExcerpts(t *testing.T) {
	long := acquire(0, 90*s, "long", 40, Granted) // it explains who was refused at first
	refused := acquire(2*s, 3*s, "c", 40, Held)
	freed := release(20*s, 21*s, "long", 40, Okay)
	var turns History // of one second each
	for token := range int64(8) {
		at := 30*s + 2*s*time.Duration(token)
		turns = append(turns, acquire(at, at+s/2, "a", 41+token, Granted), release(at+s/2, at+s, "a", 41+token, Okay))
	}
	wrong := extend(43*s+s/2, 51*s, "a", 47, Okay)
	h := slices.Concat(History{long, refused, freed, wrong, belief(2*s, 3*s, "a", 1), {Kind: Take, Name: "n", At: 50 * s, Until: 51 * s, Result: Held}}, turns,
		History{acquire(51*s+1, 52*s, "a", 49, Granted), acquire(52*s, 53*s, "b", 0, Held)})
	found, _ := Linearizable(h, Rules{})
	if len(found) != 1 {
		t.Fatalf("%d violations: %v", len(found), found)
	}
	// The extension, the eleven operations before it, and the long call.
	if want := slices.Concat(History{long}, turns[len(turns)-11:], History{wrong}).byBegin(); !slices.Equal(found[0].Excerpt, want) {
		t.Errorf("%v\nwant %v", found[0], want)
	}

	h = nil
	for i := range 12 {
		h = append(h, with(acquire(0, s, "a", 1, Held), func(e *Event) { e.Name = fmt.Sprintf("n%02d", i) }))
	}
	found, _ = Linearizable(h, Rules{})
	if len(found) != 12 || len(found[9].Excerpt) != 1 || found[10].Excerpt != nil {
		t.Errorf("want 12 names, and excerpts of the first ten: %v", found)
	}
}
