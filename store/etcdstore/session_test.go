package etcdstore

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// While the machine is suspended the monotonic clock stands still and etcd does not: no name is attached to a lease that only the
// monotonic clock believes in, and such a lease is kept alive at once.
func TestSuspendedMachineOutlivesItsSessions(t *testing.T) {
	of := &session{id: 1, ttl: time.Minute, class: 48, names: 1, used: time.Now()}
	of.keptUntil(time.Now().Add(of.ttl))
	s := &Store{sessions: map[clientv3.LeaseID]*session{of.id: of}, classes: map[int64]*session{of.class: of}}
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
