package sqlitestore

import "testing"

// At the instant at which a lease ends it is over, for its holder as for everybody else.
func TestLeaseIsOverAtItsEnd(t *testing.T) {
	r := &record{holder: "a", until: 10}
	for now, want := range map[int64]bool{9: true, 10: false, 11: false} {
		if live := r.liveFor("a", now); live != want {
			t.Errorf("live at %d: %t; want %t", now, live, want)
		}
	}
	if r.liveFor("b", 9) {
		t.Error("it is live for another holder")
	}
}
