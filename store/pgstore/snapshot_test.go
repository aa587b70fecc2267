package pgstore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5"
)

// slowClock makes a schema whose clock waits while a test holds an advisory lock: so a statement stands still after it has taken its snapshot and before it
// reads the clock.
const slowClock = `CREATE SCHEMA IF NOT EXISTS slow;
CREATE OR REPLACE FUNCTION slow.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_catalog.pg_advisory_xact_lock_shared(` + slowLock + `);
  RETURN pg_catalog.clock_timestamp();
END $$`

const slowLock = "73218041"

// A changeOfLeases is what Extend or Release does to the leases of some names, in one of the statements that there are for that.
type changeOfLeases struct {
	base  string
	names []string
	verb  func([]store.Release) func(*Store) ([]error, error)
}

func changesOfLeases(t *testing.T) map[string]changeOfLeases {
	extends := func(leases []store.Release) func(*Store) ([]error, error) {
		var extensions []store.Extension
		for _, l := range leases {
			extensions = append(extensions, store.Extension{Name: l.Name, Holder: l.Holder, Token: l.Token, TTL: time.Hour})
		}
		return func(s *Store) ([]error, error) { return s.Extend(background, extensions) }
	}
	releases := func(leases []store.Release) func(*Store) ([]error, error) {
		return func(s *Store) ([]error, error) { return s.Release(background, leases) }
	}
	lined := server(t).URL
	plain := "cockroach" + lined[len("postgres"):] // in that dialect names have no lines
	return map[string]changeOfLeases{
		"extend":                             {lined, []string{"a"}, extends},
		"release one":                        {lined, []string{"a"}, releases},
		"release several":                    {lined, []string{"a", "b"}, releases},
		"release one of what has no lines":   {plain, []string{"a"}, releases},
		"release several that have no lines": {plain, []string{"a", "b"}, releases},
	}
}

// A statement reads the clock later than the rows. A lease that was extended between is not lost, though the rows show an end that has passed.
func TestLeaseThatIsExtendedMeanwhileIsNotLost(t *testing.T) {
	db := admin(t, server(t).URL)
	for _, sql := range []string{"CREATE SCHEMA IF NOT EXISTS slow", slowClock} {
		if _, err := db.Exec(background, sql); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range changesOfLeases(t) {
		t.Run(name, func(t *testing.T) {
			s := fresh(t, c.base)
			slow := open(t, c.base, "schema", s.tables.schema, "search_path", "slow,pg_catalog")
			if err := slow.Ping(background); err != nil {
				t.Fatal(err)
			}
			for ttl := time.Second; ; ttl *= 2 { // on a slow machine a lease may end before it has been extended
				var leases []store.Release
				for _, name := range c.names {
					leases = append(leases, take(t, s, name, ttl.String(), ttl))
				}
				taken := time.Now()
				errs, extended := standStill(t, s, slow, leases, c.verb(leases), taken.Add(ttl+100*time.Millisecond))
				if extended {
					for i, err := range errs {
						if err != nil {
							t.Errorf("%s: %v", c.names[i], err)
						}
					}
					return
				}
				if ttl > time.Minute {
					t.Fatal("no lease of a minute could be extended before it ended")
				}
				run(t, s.pool, "DELETE FROM "+s.tables.records)
			}
		})
	}
}

// standStill runs a verb on a store whose clock is slow, extends the leases while it stands still, and lets it go on at an instant. It reports whether the
// leases could be extended.
func standStill(t *testing.T, s, slow *Store, leases []store.Release, verb func(*Store) ([]error, error), until time.Time) (errs []error, extended bool) {
	t.Helper()
	db := admin(t, server(t).URL)
	run(t, db, "SELECT pg_advisory_lock("+slowLock+")")
	done := make(chan error, 1)
	go func() {
		var err error
		errs, err = verb(slow)
		done <- err
	}()
	eventually(t, "the statement stands still", func() bool {
		return one[bool](t, db, "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = "+slowLock+" AND NOT granted)")
	})
	extended = true
	for _, l := range leases {
		if err := tryExtend(s, l, time.Hour); errors.Is(err, store.ErrLost) {
			extended = false
		} else if err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Until(until))
	run(t, db, "SELECT pg_advisory_unlock("+slowLock+")")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return errs, extended
}

// What changes a lease while a release of it has not been committed yet is not told that the lease is lost when that has ended meanwhile: the commit will count.
func TestReleaseThatIsNotCommittedYetIsNotLost(t *testing.T) {
	for name, c := range changesOfLeases(t) {
		t.Run(name, func(t *testing.T) {
			s := fresh(t, c.base)
			var leases []store.Release
			tx, err := s.pool.Begin(background)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(background)
			for _, name := range c.names {
				leases = append(leases, releaseInTime(t, s, tx, name))
			}
			verb := c.verb(leases)
			for _, name := range c.names {
				eventually(t, "the lease looks as if it had ended", func() bool { return recordOf(t, s, name).Left <= 0 })
			}
			errs, err := verb(s)
			if err != nil {
				t.Fatal(err)
			}
			for i, err := range errs {
				if !errors.Is(err, store.ErrUnknown) {
					t.Errorf("%s: %v before the release is committed, want an unknown outcome", leases[i].Name, err)
				}
			}
			if err := tx.Commit(background); err != nil {
				t.Fatal(err)
			}
			for _, l := range leases {
				if err := tryRelease(s, l); err != nil {
					t.Errorf("%s: released once more: %v", l.Name, err)
				}
			}
		})
	}
}

// releaseInTime takes a name and has a transaction release it before the lease ends.
func releaseInTime(t *testing.T, s *Store, tx pgx.Tx, name string) store.Release {
	t.Helper()
	for ttl := time.Second; ttl < servers.Patience; ttl *= 2 { // on a slow machine a lease may end before that
		lease := take(t, s, name, ttl.String(), ttl)
		statement, args := s.releaseSQL([]store.Release{lease}, false)
		run(t, tx, statement, args...)
		if one[bool](t, tx, "SELECT released FROM "+s.tables.records+" WHERE name = $1", name) {
			return lease
		}
		eventually(t, name+" is free", func() bool { return recordOf(t, s, name).Left <= 0 })
	}
	t.Fatal("no lease could be released before it ended")
	return store.Release{}
}

// A committing store has a transaction carry out the first claim, and does not commit it.
type committing struct {
	*Store
	tx    pgx.Tx
	first *atomic.Bool
	looks *atomic.Int32 // records that were read since
}

func (s committing) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if c := claims[0]; s.first.CompareAndSwap(true, false) {
		rows, err := s.tx.Query(context.WithoutCancel(ctx), s.sql.acquireOne, c.Name, c.Holder, sqlshared.Micros(c.TTL), c.Mark, nil, 0)
		if err == nil {
			rows.Close()
			err = rows.Err()
		}
		return nil, store.AsUnknown(errors.Join(errors.New("no reply"), err))
	}
	outs, err := s.Store.Acquire(ctx, claims)
	if err == nil && claims[0].Mark < 0 {
		s.looks.Add(1)
	}
	return outs, err
}

// A claim of a name that has no record yet, and so nothing to be locked, is given back when it is committed after its caller has been told that it is unknown.
func TestClaimOfANewNameThatCommitsSlowly(t *testing.T) {
	s := fresh(t, server(t).URL)
	tx, err := reopen(t, s).pool.Begin(background)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(background)
	slow := committing{s, tx, new(atomic.Bool), new(atomic.Int32)}
	slow.first.Store(true)
	c, err := soloist.New(slow, soloist.Config{TTL: time.Hour, RequestTimeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.TryLock(background, "x"); !errors.Is(err, soloist.ErrUnknown) {
		t.Fatalf("%v before the claim is committed, want an unknown outcome", err)
	}
	eventually(t, "the record is read", func() bool { return slow.looks.Load() > 0 })
	if err := tx.Commit(background); err != nil {
		t.Fatal(err)
	}
	if r := recordOf(t, s, "lock/x"); r.Token == 0 {
		t.Fatalf("nothing was granted: %+v", r)
	}
	eventually(t, "what nobody was told of is given back", func() bool { return recordOf(t, s, "lock/x").Free() })
}
