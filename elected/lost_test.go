package elected

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/soloist-dev/soloist/soloisttest"
)

// A lease that has ended is no leadership, although Run has not noticed that yet.
func TestLostLeaseIsNoLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := soloisttest.NewClient(t)
		lease, err := c.TryLock(t.Context(), "api")
		if err != nil {
			t.Fatal(err)
		}
		e := New(c, "api")
		e.lease.Store(lease)
		if err := e.Check(); err != nil {
			t.Fatalf("the lease is live, and Check returned %v", err)
		}
		soloisttest.LoseLease(t, s, lease)
		if err := e.Check(); !errors.Is(err, ErrNotLeader) {
			t.Errorf("the lease is lost, and Check returned %v", err)
		}
		if _, _, err := e.Leading(t.Context()); !errors.Is(err, ErrNotLeader) {
			t.Errorf("the lease is lost, and Leading returned %v", err)
		}
	})
}
