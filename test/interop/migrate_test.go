//go:build unix

package interop

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"
)

// A table that ShedLock has used for long is taken over while ShedLock goes on: nothing that it holds is lost, nothing that it
// does fails, and then both contend.
func TestMigratingWhileShedLockRuns(t *testing.T) {
	servers.Long(t)
	for _, on := range []string{"PostgreSQL", "MariaDB", "MariaDB, driver of MySQL in another zone"} {
		t.Run(on, func(t *testing.T) {
			f := shedlockField(t, providers()[on](t))
			released := javaLock(t, f.a, "released", long, 0)
			must(t, released.Unlock())
			lingering := javaLock(t, f.a, "lingering", long, long)
			must(t, lingering.Unlock())
			const heldFor = 2 * long
			held := javaLock(t, f.a, "held", heldFor, 0)

			n := newNumber(t)
			const ours, part = 300, 50 // the peers count in parts, before, during and after the migration
			var counting sync.WaitGroup
			var migrated atomic.Bool
			var theirs atomic.Int64
			for _, p := range []*Peer{f.a, f.b} {
				counting.Go(func() {
					for last := false; !last; {
						last = migrated.Load()
						if err := p.Count("counter", n.file, part); err != nil {
							t.Error(err)
							return
						}
						theirs.Add(part)
					}
				})
			}
			servers.Wait(t, "the peers to count", func() bool { was, _ := n.get(); return was > 10 })
			f.migrateAtOnce(t)
			migrated.Store(true)

			// On a slow disk ours may not get its turn before theirs have ended: who polls has no place in a line.
			c := f.client(t, soloist.Options{Wait: -1})
			for range ours {
				must(t, c.Do(t.Context(), "counter", func(context.Context, *soloist.Lease) error { return n.increment() }))
			}
			counting.Wait()
			n.is(t, int(theirs.Load())+ours)

			if r := ourRefused(t, c, "held"); !strings.Contains(r.Holder, f.hostA) || r.Left <= heldFor/2 || r.Left > heldFor {
				t.Errorf("what was held before the migration is held by %q for another %v", r.Holder, r.Left)
			}
			if r := ourRefused(t, c, "lingering"); r.Left <= 0 || r.Left > long {
				t.Errorf("what lingered before the migration is taken for another %v", r.Left)
			}
			must(t, ourLock(t, c, "released").Release())
			must(t, held.Extend(2*heldFor, 0))
			must(t, held.Unlock())
			must(t, ourLock(t, c, "held").Release())
			must(t, javaLock(t, f.a, "held", long, 0).Unlock())
		})
	}
}

// migrateAtOnce has several replicas migrate at the same time, as those do that start together.
func (f *field) migrateAtOnce(t testing.TB) {
	t.Helper()
	var all sync.WaitGroup
	for range 4 {
		m, _ := store.As[store.Migrator](f.open(t))
		all.Go(func() {
			if _, err := m.Migrate(bounded(t)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
