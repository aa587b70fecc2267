package casstore

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestMoment: neither a system that was suspended nor a wall clock that was set back makes an instant younger.
func TestMoment(t *testing.T) {
	now := time.Now()
	for what, m := range map[string]Moment{
		"the system was suspended":    {counted: now, wall: now.Round(0).Add(-time.Hour)},
		"the wall clock was set back": {counted: now.Add(-time.Hour), wall: now.Round(0).Add(time.Hour)},
	} {
		if got := m.Since(); got < time.Hour {
			t.Errorf("%s: got %v, want an hour or more", what, got)
		}
	}
}

// TestMomentOfNow: where both clocks run, they say the same.
func TestMomentOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Now()
		time.Sleep(time.Hour)
		if got := m.Since(); got != time.Hour {
			t.Errorf("an hour later: %v", got)
		}
	})
}
