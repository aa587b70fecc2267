package soloist

import (
	"testing"
	"time"
)

func TestKernelSuspendedIsSteady(t *testing.T) {
	atLeast, atMost, ok := kernelSuspended()
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
		})
		if ok {
			t.Errorf("without clock %d the suspends are known", bad)
		}
	}
}
