package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5"
)

// uncommitted begins to insert rows, which makes those who insert the same names wait until it is rolled back.
func uncommitted(t *testing.T, s *Store, names ...string) (rollback func()) {
	t.Helper()
	tx, err := s.pool.Begin(background)
	if err != nil {
		t.Fatal(err)
	}
	run(t, tx, "INSERT INTO "+s.tables.records+" (name, lock_until, locked_at, locked_by) SELECT n, 'epoch', 'epoch', '' FROM unnest($1::text[]) AS n", names)
	rollback = sync.OnceFunc(func() {
		if err := tx.Rollback(background); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(rollback)
	return rollback
}

// waiter waits for a statement of an application that waits for somebody's transaction, and returns its backend's process.
func waiter(t *testing.T, db *pgx.Conn, application string) (pid int) {
	t.Helper()
	eventually(t, "a statement of "+application+" waits", func() bool {
		return db.QueryRow(background, `SELECT pid FROM pg_stat_activity
			WHERE application_name = $1 AND wait_event_type = 'Lock' AND wait_event = 'transactionid'`, application).Scan(&pid) == nil
	})
	return pid
}

// sweepAll makes what may be forgotten look old, and sweeps once.
func sweepAll(t *testing.T, s *Store) int {
	t.Helper()
	run(t, s.pool, "UPDATE "+s.tables.records+" SET locked_at = locked_at - interval '1 hour', lock_until = lock_until - interval '1 hour', "+
		"retain_until = retain_until - interval '1 hour' WHERE released")
	n, err := s.Sweep(background, 100)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A claim that found no record of the name stands still before it inserts one. Meanwhile the name is granted, released and swept. The
// claim's token must be greater all the same.
func TestTokensGrowOverASweepDuringAClaim(t *testing.T) {
	claims := func(names ...string) (batch []store.Claim) {
		for _, name := range names {
			batch = append(batch, claim(name, "slow", time.Minute))
		}
		return batch
	}
	for what, c := range map[string]struct {
		open  func(t testing.TB, base string, options ...string) *Store
		claim func(s *Store) (store.Outcome, error)
	}{
		"one": {fresh, func(s *Store) (store.Outcome, error) {
			out, err := s.Acquire(background, claims("x"))
			return out[0], err
		}},
		"several": {fresh, func(s *Store) (store.Outcome, error) {
			out, err := s.Acquire(background, claims("y", "x"))
			return out[1], err
		}},
		"several in the dialect of CockroachDB": {freshCockroach, func(s *Store) (store.Outcome, error) {
			out, err := s.Acquire(background, claims("y", "x"))
			return out[1], err
		}},
		"choice": {fresh, func(s *Store) (store.Outcome, error) {
			_, grant, err := s.Choose(background, []string{"x"}, claim("", "slow", time.Minute))
			return store.Outcome{Grant: grant, Err: err}, nil
		}},
		"choice in the dialect of CockroachDB": {freshCockroach, func(s *Store) (store.Outcome, error) {
			_, grant, err := s.Choose(background, []string{"x"}, claim("", "slow", time.Minute))
			return store.Outcome{Grant: grant, Err: err}, nil
		}},
		"line": {fresh, func(s *Store) (store.Outcome, error) {
			grant, _, err := s.Queue(background, claim("x", "slow", time.Minute))
			return store.Outcome{Grant: grant, Err: err}, nil
		}},
	} {
		t.Run(what, func(t *testing.T) {
			base := server(t).URL
			s, db := c.open(t, base), admin(t, base)
			cfg := s.pool.Config()
			application := "slow in " + s.tables.schema
			cfg.ConnConfig.RuntimeParams["application_name"] = application
			slow, err := Open(background, cfg, s.tables.cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { slow.Close() })
			rollback := uncommitted(t, s, "x")
			result := make(chan store.Outcome, 1)
			go func() {
				out, err := c.claim(slow)
				for errors.Is(out.Err, store.ErrHeld) { // the name was in motion for longer than a claim waits
					out, err = c.claim(slow)
				}
				if err != nil {
					t.Error(err)
				}
				result <- out
			}()
			pid := waiter(t, db, application)
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Skipf("stopping a backend: %v", err)
			}
			resume := sync.OnceFunc(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
			defer resume()
			rollback()
			lease := take(t, s, "x", "fast", time.Minute)
			lease.Retain = 0
			release(t, s, lease)
			sweepAll(t, s)
			resume()
			if out := <-result; out.Err != nil || out.Grant.Token <= lease.Token {
				t.Errorf("granted with token %d, %v; after a grant with token %d", out.Grant.Token, out.Err, lease.Token)
			}
			release(t, s, store.Release{Name: "x", Holder: "slow", Token: recordOf(t, s, "x").Token})
			eventually(t, "the name is forgotten when nobody is claiming it", func() bool {
				sweepAll(t, s)
				return one[int](t, s.pool, "SELECT count(*) FROM "+s.tables.records+" WHERE name = 'x'") == 0
			})
			if n := one[int](t, s.pool, "SELECT count(*) FROM "+s.tables.floor); n != 1 {
				t.Errorf("%d floors are left", n)
			}
		})
	}
}

func freshCockroach(t testing.TB, base string, _ ...string) *Store {
	return inDialectOfCockroachDB(t, base)
}

// Batches of names that come and go, sweeps, and backends that stand still for a moment at any point of a statement: tokens grow.
func TestTokensGrowInARaceOfClaimsAndSweeps(t *testing.T) {
	srv := servers.Postgres(t, quiet...)
	s, db := fresh(t, srv.URL), admin(t, srv.URL)
	names := strings.Split("abcdefghijkl", "")
	ctx, stop := context.WithTimeout(background, time.Minute)
	defer stop()
	var forgotten, grants, stopped atomic.Int64
	var mu sync.Mutex
	last := map[string]int64{} // the token of the last grant
	var work sync.WaitGroup
	for worker := range 4 {
		work.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				var batch []store.Claim
				for _, i := range rand.Perm(len(names))[:1+rand.IntN(3)] {
					batch = append(batch, claim(names[i], fmt.Sprint(worker, "/", n), time.Hour))
				}
				out, err := s.Acquire(ctx, batch)
				if err != nil {
					return
				}
				var mine []store.Release
				mu.Lock()
				for i, o := range out {
					if o.Err != nil {
						continue
					}
					name, token := batch[i].Name, o.Grant.Token
					if token <= last[name] {
						t.Errorf("%q was granted with token %d after %d", name, token, last[name])
					}
					last[name] = token
					grants.Add(1)
					mine = append(mine, store.Release{Name: name, Holder: batch[i].Holder, Token: token})
				}
				mu.Unlock()
				if _, err := s.Release(ctx, mine); err != nil {
					return
				}
			}
		})
	}
	for range 2 {
		work.Go(func() {
			for ctx.Err() == nil {
				n, _ := s.Sweep(ctx, 100)
				forgotten.Add(int64(n))
			}
		})
	}
	for ctx.Err() == nil && !t.Failed() && (forgotten.Load() < 1500 || stopped.Load() < 100 || grants.Load() < 400) {
		var pid int
		if db.QueryRow(ctx, `SELECT pid FROM pg_stat_activity WHERE application_name = 'soloist' AND state = 'active' AND pid <> pg_backend_pid()
			ORDER BY random() LIMIT 1`).Scan(&pid) != nil {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			stop()
			work.Wait()
			t.Skipf("stopping a backend: %v", err)
		}
		_ = pause(ctx, 5)
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
		stopped.Add(1)
	}
	stop()
	work.Wait()
	t.Logf("%d grants, %d records forgotten, %d stops of a backend", grants.Load(), forgotten.Load(), stopped.Load())
}

// A sweep forgets the places of those who have not come back, which nobody else does, and no other ones.
func TestSweepForgetsPlaces(t *testing.T) {
	s := fresh(t, server(t).URL)
	run(t, s.pool, "INSERT INTO "+s.tables.line+` (name, holder, asked, since, ttl, inbox, told, until)
		SELECT 'name', h, n, 1, 1, 1, now(), now() AT TIME ZONE 'UTC' + i
		FROM (VALUES ('gone', 1, interval '-1 second'), ('waits', 1, '1 hour'), ('asked again', 1, '-1 second'),
			('asked again', 2, '1 hour')) AS v (h, n, i)`)
	if n, err := s.Sweep(background, 10); n != 0 || err != nil {
		t.Errorf("%d records forgotten, %v", n, err)
	}
	const left = "SELECT array_agg(holder || asked ORDER BY holder, asked) FROM "
	if got := one[[]string](t, s.pool, left+s.tables.line); !slices.Equal(got, []string{"asked again2", "waits1"}) {
		t.Errorf("%q are in the line", got)
	}
}

// A sweep waits for nobody, and forgets no record that somebody is taking at this moment, though it looks as it may
// be forgotten.
func TestSweepLeavesWhatIsBeingTaken(t *testing.T) {
	s := fresh(t, server(t).URL)
	for _, name := range []string{"free", "taken"} {
		lease := take(t, s, name, "a", time.Hour)
		lease.Retain = 0
		release(t, s, lease)
	}
	run(t, s.pool, "INSERT INTO "+s.tables.line+" VALUES ('taken', 'gone', 1, 1, 1, 1, 'epoch', 'epoch')")
	tx := begin(t, s, pgx.TxOptions{})
	c := claim("taken", "b", time.Hour)
	run(t, tx, s.sql.acquireOne, c.Name, c.Holder, sqlshared.Micros(c.TTL), c.Mark, nil, c.Above)
	run(t, tx, "SELECT FROM "+s.tables.line+" FOR UPDATE")
	type result struct {
		n   int
		err error
	}
	swept := make(chan result, 1)
	go func() {
		n, err := s.Sweep(background, 10)
		swept <- result{n, err}
	}()
	eventually(t, "the sweep is over, or waits", func() bool {
		if len(swept) > 0 {
			return true
		}
		if !blocks(t, s, tx) {
			return false
		}
		t.Error("the sweep waits for a claim")
		return true
	})
	if err := tx.Commit(background); err != nil {
		t.Fatal(err)
	}
	if got := <-swept; got.n != 1 || got.err != nil {
		t.Errorf("%d records forgotten, %v; want the one that nobody takes", got.n, got.err)
	}
	heldBy(t, s, "taken", "c")
	if r := recordOf(t, s, "taken"); r.Holder != "b" {
		t.Errorf("%+v; want it b's", r)
	}
	if n, err := s.Sweep(background, 10); n != 0 || err != nil {
		t.Errorf("%d records forgotten, %v", n, err)
	}
	if left := inLine(t, s, "taken"); len(left) > 0 {
		t.Errorf("%q are in the line", left)
	}
}
