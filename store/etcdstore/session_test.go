package etcdstore

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestSessionNames: sessions of a lease of etcd whose ID is used again have different names, from which the lease can be told.
func TestSessionNames(t *testing.T) {
	a, b := newSession(0x1234567890abcdef), newSession(0x1234567890abcdef)
	if a == b || leaseOf(a) != 0x1234567890abcdef || leaseOf(b) != leaseOf(a) {
		t.Errorf("%q of %x and %q of %x", a, leaseOf(a), b, leaseOf(b))
	}
	for _, other := range []string{"", "x", "12", "12.", ".x", "0.x", "g.x"} {
		if id := leaseOf(other); id != clientv3.NoLease {
			t.Errorf("%q is the name of a session of the lease %x", other, id)
		}
	}
}

// While the machine is suspended the monotonic clock stands still and etcd does not: no name is attached to a lease that only the
// monotonic clock believes in, and such a lease is kept alive at once.
func TestSuspendedMachineOutlivesItsSessions(t *testing.T) {
	of := &session{name: "1.x", id: 1, ttl: time.Minute, class: 48, names: 1, used: time.Now()}
	of.keptUntil(time.Now().Add(of.ttl))
	s := &Store{sessions: map[string]*session{of.name: of}, classes: map[int64]*session{of.class: of}}
	want := func(lasts bool, what string) {
		t.Helper()
		if s.current(of.class, 10*time.Second) != nil != lasts {
			t.Errorf("%s: the session counts as one that lasts: %v", what, !lasts)
		}
		if due, _ := s.due(); (len(due) == 0) != lasts {
			t.Errorf("%s: %d sessions are to be kept alive", what, len(due))
		}
	}
	want(true, "a new session")
	of.wall = of.wall.Add(-time.Hour) // as after an hour in which the machine was suspended
	want(false, "after a suspend")
	of.keptUntil(time.Now().Add(of.ttl))
	want(true, "kept alive again")
	of.bound, of.wall = of.bound.Add(-time.Hour), of.wall.Add(time.Hour)
	want(false, "ended, and the wall clock was set back")
}
