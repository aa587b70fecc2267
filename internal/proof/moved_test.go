package proof

import (
	"slices"
	"testing"
)

// TestMoved gives histories of a fleet that moves between two stores. Each is judged as one of a move, and as one of a single store: in a move, less is asked
// of what has no outcome, and of what refusals tell. What was confirmed, and what a grant tells, is judged in both.
func TestMoved(t *testing.T) {
	lock := acquire(0, 1, "a1", 1, Granted)
	next := acquire(5*s, 6*s, "b1", 2, Granted)
	freed := func(result Result) Event { return stated(release(3*s, 4*s, "a1", 1, result), 8) }
	had := func(more ...Event) History {
		return append(History{lock, stated(extend(s, 2*s, "a1", 1, Okay), 7)}, more...)
	}
	refused := func(token int64) Event { return acquire(5*s, 6*s, "b1", token, Held) }
	told := func(mark int64, state uint64) Event { return stated(looked(5*s, 6*s, mark), state) }
	wrote := func(state uint64, result Result) Event {
		return stated(marked(extend(2*s, 3*s, "a1", 1, result), 5), state)
	}
	for _, test := range []struct {
		name               string
		h                  History
		inMove, inOneStore bool // whether it is good
	}{
		{"a release without an outcome frees the name alone", had(freed(Unknown), stated(next, 7)), true, false},
		{"a release without an outcome leaves a state", had(freed(Unknown), stated(next, 8)), true, true},
		{"a release without an outcome leaves a state that nobody wrote", had(freed(Unknown), stated(next, 9)), false, false},
		{"a release that was confirmed frees the name alone", had(freed(Okay), stated(next, 7)), false, false},
		{"an extension without an outcome frees the name", had(with(freed(Unknown), func(e *Event) { e.Kind = Extend }), stated(next, 7)), false, false},
		{"an extension without an outcome prolongs the lease alone", had(stated(extend(8*s, 9*s, "a1", 1, Unknown), 8), acquire(14*s, 15*s, "b1", 1, Held), stated(acquire(30*s, 31*s, "b1", 2, Granted), 7)), false, false},
		{"a release without an outcome frees the name before it lingers", had(lingers(freed(Unknown), 9*s), stated(next, 7)), true, false},
		{"a release without an outcome does not raise its mark", had(marked(freed(Unknown), 5), stated(next, 7)), true, false},
		{"a release without an outcome and a state does not raise its mark", had(marked(release(3*s, 4*s, "a1", 1, Unknown), 5), stated(next, 7)), false, false},
		{"a release without an outcome and a state raises its mark", had(marked(release(3*s, 4*s, "a1", 1, Unknown), 5), stated(with(next, func(e *Event) { e.Seen = 5 }), 7)), true, true},

		{"refused, and told the token of the lease", History{lock, refused(1)}, true, true},
		{"refused, and told a token that nobody was granted", History{lock, refused(9)}, true, false},
		{"refused, and told a token that was granted of another name", History{lock, refused(9), with(acquire(0, 1, "c1", 9, Granted), func(e *Event) { e.Name = "m" })}, true, false},
		{"refused, and told a token that is over", History{lock, release(s, 2*s, "a1", 1, Okay), acquire(3*s, 4*s, "c1", 2, Granted), refused(1)}, false, false},
		{"refused by nobody", History{lock, release(s, 2*s, "a1", 1, Okay), refused(1)}, false, false},
		{"granted a token that is too low", History{with(lock, func(e *Event) { e.Token = 3 }), release(s, 2*s, "a1", 3, Okay), next}, false, false},

		{"a refusal tells of what was written without an outcome, and then another does not", had(wrote(9, Unknown), told(5, 9), told(0, 7)), true, true},
		{"a refusal tells of what was written without an outcome, and the next grant does not", had(wrote(9, Unknown), told(5, 9), acquire(16*s, 17*s, "b1", 2, Granted)), false, false},
		{"a refusal tells of what was written without an outcome, and the lease after it has the state before",
			had(wrote(9, Unknown), told(5, 9), stated(acquire(16*s, 17*s, "b1", 2, Granted), 7)), true, false},
		{"a refusal tells of what was written and confirmed, and the lease after it has the state before",
			had(wrote(9, Okay), told(5, 9), stated(acquire(16*s, 17*s, "b1", 2, Granted), 7)), false, false},
		{"a refusal tells of what was written and confirmed, although more was", had(wrote(9, Okay), stated(extend(4*s, 4*s, "a1", 1, Okay), 10), told(5, 9)), false, false},
		{"a refusal tells of what was cleared without an outcome, and the lease after it has the state before",
			had(wrote(cleared, Unknown), told(5, 0), stated(acquire(16*s, 17*s, "b1", 2, Granted), 7)), true, false},
		{"a refusal tells of a state that nobody wrote", had(wrote(9, Unknown), told(0, 6)), false, false},
		{"a refusal tells of no state, and none was written without an outcome", had(marked(extend(2*s, 3*s, "a1", 1, Unknown), 5), told(5, 0)), false, false},
		{"a grant tells of what was written without an outcome, and the lease after it has the state before", had(wrote(9, Unknown), with(stated(acquire(16*s, 17*s, "b1", 2, Granted), 9), func(e *Event) { e.Seen = 5 }),
			release(18*s, 19*s, "b1", 2, Okay), stated(acquire(20*s, 21*s, "c1", 3, Granted), 7)), false, false},
	} {
		for _, judged := range []struct {
			where string
			h     History
			good  bool
		}{{"in a move", Moved(slices.Clone(test.h)), test.inMove}, {"in one store", test.h, test.inOneStore}} {
			v := Check(judged.h, Rules{Steps: 100_000})
			if good := len(v.Violations) == 0; good != judged.good || v.Unchecked > 0 {
				t.Errorf("%s, %s: %d unchecked, %v", test.name, judged.where, v.Unchecked, v.Violations)
			}
		}
	}
}
