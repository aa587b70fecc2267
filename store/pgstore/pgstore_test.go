package pgstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

// conform runs the suite on stores that open makes on their own tables.
func conform(t *testing.T, open func(t testing.TB) *Store) { storetest.Run(t, harness(open)) }

func harness(open func(t testing.TB) *Store) storetest.Harness {
	return storetest.Harness{
		TimedTokens: true,
		Open:        func(t testing.TB) store.Store { return open(t) },
		Reopen:      func(t testing.TB, s store.Store) store.Store { return reopen(t, s.(*Store)) },
		Writes:      func(t testing.TB, s store.Store) int64 { return walOf(t, s.(*Store).pool) },
	}
}

// reopen opens another handle on the same tables, as another process would.
func reopen(t testing.TB, s *Store) *Store {
	t.Helper()
	other, err := Open(background, s.pool.Config(), s.tables.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	return other
}

// ownServer starts a server for one run of the suite, which counts what is written to its log; the runs are parallel, for what they do
// most is wait.
func ownServer(t *testing.T) *servers.PostgresServer {
	s := servers.Postgres(t, quiet...)
	t.Parallel()
	return s
}

func TestStore(t *testing.T) {
	base := ownServer(t).URL
	conform(t, func(t testing.TB) *Store { return fresh(t, base) })
}

func TestStoreOnATableSharedWithShedLock(t *testing.T) {
	base := ownServer(t).URL
	conform(t, func(t testing.TB) *Store { return onTableOfShedLock(t, base) })
}

func onTableOfShedLock(t testing.TB, base string) *Store {
	s := open(t, base, "schema", newSchema(), "shedlock", "true")
	db := admin(t, base)
	run(t, db, "CREATE SCHEMA "+s.tables.schema)
	run(t, db, "CREATE TABLE "+s.tables.schema+"."+ddlOfShedLock)
	migrate(t, s)
	return s
}

// CockroachDB itself cannot be had here: its dialect is tested on PostgreSQL with serializable transactions, which gives real
// serialization failures.
func TestStoreInTheDialectOfCockroachDB(t *testing.T) {
	base := ownServer(t).URL
	conform(t, func(t testing.TB) *Store { return inDialectOfCockroachDB(t, base) })
}

func inDialectOfCockroachDB(t testing.TB, base string) *Store {
	u := "cockroach" + with(base, "schema", newSchema(), "options", "-c default_transaction_isolation=serializable")[len("postgres"):]
	s := open(t, u)
	migrate(t, s)
	return s
}

// Several have other statements than one.
func TestStoreInBatches(t *testing.T) {
	for name, open := range map[string]func(t testing.TB, base string) *Store{
		"PostgreSQL":  func(t testing.TB, base string) *Store { return fresh(t, base) },
		"ShedLock":    onTableOfShedLock,
		"CockroachDB": inDialectOfCockroachDB,
	} {
		t.Run(name, func(t *testing.T) {
			base := ownServer(t).URL
			h := harness(func(t testing.TB) *Store { return open(t, base) })
			h.Batches = true
			storetest.Run(t, h)
		})
	}
}

// A role that may do no more than the documentation says, with other names for the tables, and in a database whose sessions are
// serializable and in another time zone.
func TestStoreAsAnotherRole(t *testing.T) {
	base := ownServer(t).URL
	db := admin(t, base)
	run(t, db, "CREATE ROLE worker LOGIN PASSWORD '"+servers.PostgresPassword+"'")
	run(t, db, "ALTER ROLE worker SET default_transaction_isolation = 'serializable'")
	run(t, db, "ALTER ROLE worker SET TimeZone = 'America/St_Johns'")
	conform(t, func(t testing.TB) *Store {
		schema := newSchema()
		s := open(t, base, "schema", schema, "table", "leases_2")
		migrate(t, s)
		db := admin(t, base)
		run(t, db, "GRANT USAGE ON SCHEMA "+schema+" TO worker")
		run(t, db, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %[1]s.leases_2, %[1]s.leases_2_line, %[1]s.leases_2_floor TO worker", schema))
		run(t, db, fmt.Sprintf("GRANT SELECT ON %s.leases_2_meta TO worker", schema))
		return open(t, as(base, "worker"), "schema", schema, "table", "leases_2")
	})
}

func TestStoreThatPolls(t *testing.T) {
	base := ownServer(t).URL
	conform(t, func(t testing.TB) *Store { return fresh(t, base, "listen", "off") })
}

func TestStoreThroughAPooler(t *testing.T) {
	base := servers.PgBouncer(t, ownServer(t)).URL
	conform(t, func(t testing.TB) *Store { return fresh(t, base) })
}

const ddlOfShedLock = `shedlock(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL,
	locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))`

// Close ends a call that waits for the server, whose outcome is then unknown.
func TestCloseEndsCalls(t *testing.T) {
	s := fresh(t, server(t).URL)
	lease := take(t, s, "name", "a", time.Hour)
	db := admin(t, server(t).URL)
	tx, err := db.Begin(background)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(background)
	run(t, tx, "LOCK TABLE "+s.tables.records)
	ends := make(chan error, 2)
	go func() { ends <- tryExtend(s, lease, time.Hour) }()
	eventually(t, "the call waits", func() bool {
		return one[int](t, tx, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::text::regclass", s.tables.records) > 0
	})
	go func() { ends <- s.Close() }()
	for range 2 {
		select {
		case err := <-ends:
			if err != nil && (!errors.Is(err, store.ErrUnknown) || !errors.Is(err, store.ErrClosed)) {
				t.Error(err)
			}
		case <-time.After(servers.Patience):
			t.Fatal("a call or Close waits for the server")
		}
	}
}
