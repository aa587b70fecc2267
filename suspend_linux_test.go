package soloist

import (
	"testing"
	"time"
)

func TestKernelSuspendedIsSteady(t *testing.T) {
	atLeast, atMost, ok := kernelSuspended(0)
	if !ok || atMost < atLeast || atMost-atLeast > time.Second {
		t.Errorf("between %v and %v, %t", atLeast, atMost, ok)
	}
}

// A clock that cannot be read is not one that stands at 0.
func TestEitherClockMayFail(t *testing.T) {
	if _, ok := kernelClock(1 << 20); ok {
		t.Error("a clock that there is not was read")
	}
	for _, bad := range []uintptr{clockMonotonic, clockBoottime} {
		_, _, ok := suspendedBy(func(id uintptr) (time.Duration, bool) {
			if id == bad {
				return 0, false
			}
			return time.Hour, true
		}, 0)
		if ok {
			t.Errorf("without clock %d the suspends are known", bad)
		}
	}
}

// A sum that has not grown takes two readings. One that may have grown, or that was wrong, is read again.
func TestKnownSuspends(t *testing.T) {
	const sum = time.Hour
	for known, want := range map[time.Duration]struct {
		atLeast  time.Duration
		readings int
	}{
		sum:                        {sum, 2},
		sum - sameSum/2:            {sum - sameSum/2, 2},
		sum - sameSum:              {sum, 3},
		sum - time.Minute:          {sum, 3},
		sum + time.Nanosecond:      {sum, 3},
		0:                          {sum, 3},
		sum + 100*24*365*time.Hour: {sum, 3},
	} {
		readings := 0
		atLeast, atMost, ok := suspendedBy(func(id uintptr) (time.Duration, bool) {
			readings++
			if id == clockBoottime {
				return 2*time.Hour + sum, true
			}
			return 2 * time.Hour, true
		}, known)
		if !ok || atLeast != want.atLeast || atMost != sum || readings != want.readings {
			t.Errorf("known as %v: between %v and %v, %t, after %d readings", known, atLeast, atMost, ok, readings)
		}
	}
}

// Readings between which the process was paused are repeated: they tell little. When it is paused each time, what they tell is used all the same.
func TestReadingsThatArePaused(t *testing.T) {
	for paused, want := range map[int]time.Duration{0: 0, 1: 0, 4: 0, 5: time.Second, 100: time.Second} {
		var now time.Duration
		readings := 0
		atLeast, atMost, ok := suspendedBy(func(id uintptr) (time.Duration, bool) {
			if readings++; readings <= 3*paused {
				now += 500 * time.Millisecond
			}
			if id == clockBoottime {
				return now + time.Hour, true
			}
			return now, true
		}, 0)
		if !ok || atLeast > time.Hour || atMost < time.Hour || atMost-atLeast != want {
			t.Errorf("paused in %d of its attempts: between %v and %v, %t; want a difference of %v", paused, atLeast, atMost, ok, want)
		}
	}
}
