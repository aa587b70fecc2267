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
