package proof

import (
	"slices"
	"testing"
)

// In a move, a release without an outcome may have freed the name alone. One that was confirmed has written its state.
func TestReleaseInPart(t *testing.T) {
	history := func(released Result) History {
		lock := acquire(0, 1, "a1", 1, Granted)
		lock.TTL = 100 * s
		next := acquire(5*s, 6*s, "b1", 2, Granted)
		next.TTL = 100 * s
		return History{lock, stated(extend(s, 2*s, "a1", 1, Okay), 7), stated(release(3*s, 4*s, "a1", 1, released), 8), stated(next, 7)}
	}
	for _, c := range []struct {
		what     string
		released Result
		change   func(History) History
		broken   bool
	}{
		{"in a move, without an outcome", Unknown, Moved, false},
		{"in a move, confirmed", Okay, Moved, true},
		{"in one store", Unknown, func(h History) History { return h }, true},
	} {
		v := Check(c.change(history(c.released)), Rules{Steps: 100_000})
		if broken := slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Checker == Linearizability }); broken != c.broken {
			t.Errorf("%s: %v", c.what, v.Violations)
		}
	}
}
