package soloist

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store/memstore"
)

// In a suspend the monotonic clock stands still and the lease runs out all the same: the holder must notice when it wakes up.
func TestSuspendEndsALease(t *testing.T) {
	defer func() { suspended = kernelSuspended }()
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		suspended = func() (atLeast, atMost time.Duration) {
			d := time.Duration(slept.Load())
			return d, d
		}
		c, err := New(memstore.New(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l, err := c.TryLock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		slept.Add(int64(20 * time.Second))
		if err := l.Err(); err != nil {
			t.Fatalf("after a suspend of 20 s: %v", err)
		}
		slept.Add(int64(time.Hour))
		if err := l.Err(); !errors.Is(err, ErrLost) {
			t.Fatalf("after a suspend of an hour: %v", err)
		}
		// Who only waits for the context is told soon after, too.
		m, err := c.TryLock(t.Context(), "y")
		if err != nil {
			t.Fatal(err)
		}
		slept.Add(int64(time.Hour))
		woke := time.Now()
		<-m.Context().Done()
		if late := time.Since(woke); late > lookout {
			t.Errorf("told %v after waking up", late)
		}
	})
}

func TestKernelSuspendedIsSteady(t *testing.T) {
	atLeast, atMost := kernelSuspended()
	if atMost < atLeast || atMost-atLeast > time.Second {
		t.Errorf("between %v and %v", atLeast, atMost)
	}
}

// Two readings of the suspends differ by some nanoseconds. No event has a negative duration for that.
func TestDurationsAreNotNegative(t *testing.T) {
	defer func() { suspended = kernelSuspended }()
	synctest.Test(t, func(t *testing.T) {
		var readings atomic.Int64
		suspended = func() (atLeast, atMost time.Duration) {
			d := time.Hour - 4*time.Duration(readings.Add(1))
			return d, d
		}
		told := 0
		c, err := New(memstore.New(), Config{Observe: func(e Event) {
			if told++; e.Duration < 0 || e.Delay < 0 {
				t.Errorf("%+v", e)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l, err := c.TryLock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(); err != nil || told == 0 {
			t.Errorf("%v; told of %d events", err, told)
		}
	})
}
