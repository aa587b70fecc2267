package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

func completion(r store.Release, mark int64, state string) store.Completion {
	return store.Completion{Name: r.Name, Holder: r.Holder, Token: r.Token, Mark: mark, State: []byte(state)}
}

func recordOf(t testing.TB, s store.Store, name string) store.Record {
	t.Helper()
	for r, err := range s.List(background, name) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("there is no record of %q", name)
	return store.Record{}
}

func begin(t testing.TB, s *Store, options pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := s.pool.BeginTx(background, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback(background) })
	return tx
}

// blocks reports whether somebody waits for a transaction.
func blocks(t testing.TB, s *Store, tx pgx.Tx) bool {
	t.Helper()
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid))"
	return one[int](t, s.pool, waiting, int(tx.Conn().PgConn().PID())) > 0
}

func TestWorkAndMarkCommitTogether(t *testing.T) {
	s := fresh(t, server(t).URL)
	work := s.tables.schema + ".work"
	run(t, s.pool, "CREATE TABLE "+work+" (id text PRIMARY KEY)")
	done := func() int { return one[int](t, s.pool, "SELECT count(*) FROM "+work) }
	lease := take(t, s, "invoice", "a", time.Minute)

	tx := begin(t, s, pgx.TxOptions{})
	run(t, tx, "INSERT INTO "+work+" VALUES ('invoice')")
	if err := s.Complete(background, tx, completion(lease, 1, "paid")); err != nil {
		t.Fatal(err)
	}
	tx.Rollback(background)
	if r := recordOf(t, s, "invoice"); r.Mark != 0 || r.State != nil || done() != 0 {
		t.Fatalf("after a rollback: %+v, %d rows of work", r, done())
	}

	// The connection dies between the statement and the commit.
	tx = begin(t, s, pgx.TxOptions{})
	run(t, tx, "INSERT INTO "+work+" VALUES ('invoice')")
	if err := s.Complete(background, tx, completion(lease, 1, "paid")); err != nil {
		t.Fatal(err)
	}
	run(t, s.pool, "SELECT pg_terminate_backend($1)", int64(tx.Conn().PgConn().PID()))
	if err := tx.Commit(background); err == nil {
		t.Fatal("a commit on a dead connection")
	}
	if r := recordOf(t, s, "invoice"); r.Mark != 0 || done() != 0 {
		t.Fatalf("after the connection's death: %+v, %d rows of work", r, done())
	}

	tx = begin(t, s, pgx.TxOptions{})
	run(t, tx, "INSERT INTO "+work+" VALUES ('invoice')")
	if err := s.Complete(background, tx, completion(lease, 1, "paid")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(background); err != nil {
		t.Fatal(err)
	}
	if r := recordOf(t, s, "invoice"); r.Mark != 1 || string(r.State) != "paid" || done() != 1 || r.Holder != "a" {
		t.Fatalf("after the commit: %+v, %d rows of work", r, done())
	}

	// The answer to the commit was lost, and the work is tried again.
	tx = begin(t, s, pgx.TxOptions{})
	var was *store.DoneError
	if err := s.Complete(background, tx, completion(lease, 1, "again")); !errors.As(err, &was) || string(was.Record.State) != "paid" {
		t.Errorf("a completion that has been committed before: %v", err)
	}
	tx.Rollback(background)
	lease.Mark = 1
	release(t, s, lease)
}

// The completion of a plain lock writes nothing, and keeps the name until the transaction has ended all the same.
func TestCompletionKeepsTheName(t *testing.T) {
	s := fresh(t, server(t).URL)
	lease, tx := take(t, s, "plain", "a", time.Minute), begin(t, s, pgx.TxOptions{})
	if err := s.Complete(background, tx, store.Completion{Name: lease.Name, Holder: lease.Holder, Token: lease.Token}); err != nil {
		t.Fatal(err)
	}
	const lock = "SELECT name FROM %s WHERE name = 'plain' FOR NO KEY UPDATE SKIP LOCKED"
	free := func() bool {
		tag, err := s.pool.Exec(background, fmt.Sprintf(lock, s.tables.records))
		if err != nil {
			t.Fatal(err)
		}
		return tag.RowsAffected() == 1
	}
	if free() {
		t.Error("the row of the lease can be changed while the transaction is open")
	}
	if err := tx.Commit(background); err != nil {
		t.Fatal(err)
	}
	if !free() {
		t.Error("the row of the lease cannot be changed when the transaction has ended")
	}
}

func TestCompleteOfALostLease(t *testing.T) {
	s := fresh(t, server(t).URL)
	never := store.Release{Name: "never", Holder: "a", Token: 1}
	expired := take(t, s, "expired", "a", 20*time.Millisecond)
	taken := take(t, s, "taken", "a", 20*time.Millisecond)
	released := take(t, s, "released", "a", time.Minute)
	release(t, s, released)
	lingers := take(t, s, "lingers", "a", time.Minute)
	lingers.Linger = time.Hour
	release(t, s, lingers)
	eventually(t, "the name is taken over", func() bool { _, err := try(s, "taken", "b", time.Minute); return err == nil })
	other := take(t, s, "other", "a", time.Minute)
	other.Holder = "b"
	for _, lease := range []store.Release{never, expired, taken, released, lingers, other} {
		tx := begin(t, s, pgx.TxOptions{})
		if err := s.Complete(background, tx, completion(lease, 1, "x")); !errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: %v", lease.Name, err)
		}
		if err := tx.Commit(background); err != nil { // the transaction goes on
			t.Errorf("%s: %v", lease.Name, err)
		}
	}
	if r := recordOf(t, s, "taken"); r.Mark != 0 || r.Holder != "b" {
		t.Errorf("%+v", r)
	}
	if r := recordOf(t, s, "lingers"); r.Mark != 0 || r.State != nil {
		t.Errorf("%+v", r)
	}
	tx := begin(t, s, pgx.TxOptions{})
	if err := s.Complete(background, tx, store.Completion{Name: "taken", Holder: "b", Token: recordOf(t, s, "taken").Token, Mark: 1}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(background); err != nil {
		t.Fatal(err)
	}
	tx = begin(t, s, pgx.TxOptions{})
	if err := s.Complete(background, tx, completion(taken, 1, "x")); !errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrDone) {
		t.Errorf("of what the successor has completed: %v", err) // the work of the one who has lost the lease is not what is recorded
	}
	tx.Rollback(background)
	var invalid *store.InvalidError
	if err := s.Complete(background, nil, store.Completion{Name: "x", Holder: "a"}); !errors.As(err, &invalid) {
		t.Errorf("no token: %v", err)
	}
}

// A completion that is refused has changed nothing, and so nothing comes of it where the caller commits all the same.
func TestRefusedCompletionChangesNothing(t *testing.T) {
	s := fresh(t, server(t).URL)
	lease := take(t, s, "name", "a", time.Hour)
	complete := func(c store.Completion) error {
		tx := begin(t, s, pgx.TxOptions{})
		err := s.Complete(background, tx, c)
		if err := tx.Commit(background); err != nil {
			t.Fatal(err)
		}
		return err
	}
	if err := complete(completion(lease, 5, "first")); err != nil {
		t.Fatal(err)
	}
	other, former := lease, lease
	other.Holder, former.Token = "b", lease.Token-1
	for _, c := range []store.Completion{completion(lease, 5, "again"), completion(lease, 4, "earlier"), completion(other, 6, "other"), completion(former, 6, "former")} {
		if err := complete(c); !errors.Is(err, store.ErrDone) && !errors.Is(err, store.ErrLost) {
			t.Errorf("%s: %v", c.State, err)
		}
		if r := recordOf(t, s, "name"); r.Mark != 5 || string(r.State) != "first" || r.Holder != "a" {
			t.Errorf("after a completion that was refused, with state %q: %+v", c.State, r)
		}
	}
}

// completing begins to complete a lease in a transaction that is rolled back after that, and returns when it waits for another one that has locked the row.
func completing(t *testing.T, s *Store, lease store.Release) (locks pgx.Tx, done <-chan error) {
	t.Helper()
	locks, tx := begin(t, s, pgx.TxOptions{}), begin(t, s, pgx.TxOptions{})
	if _, err := locks.Exec(background, "SELECT FROM "+s.tables.records+" FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := s.Complete(background, tx, completion(lease, 1, "x"))
		ended <- errors.Join(err, tx.Rollback(background))
	}()
	eventually(t, "the completion waits for the row", func() bool {
		return one[int](t, s.pool, "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = $1", int(tx.Conn().PgConn().PID())) > 0
	})
	return locks, ended
}

// A completion waits for who has locked the row, and goes by the time after that: a lease that has ended meanwhile is lost.
func TestCompletionThatWaitedUntilTheLeaseWasOver(t *testing.T) {
	s := fresh(t, server(t).URL)
	lease := take(t, s, "name", "a", time.Hour)
	locks, done := completing(t, s, lease)
	if _, err := locks.Exec(background, "UPDATE "+s.tables.records+" SET lock_until = clock_timestamp() AT TIME ZONE 'UTC'"); err != nil {
		t.Fatal(err)
	}
	if err := locks.Commit(background); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, store.ErrLost) {
		t.Errorf("completing a lease that has ended before its row was free: %v", err)
	}
}

// A lease that ends by itself meanwhile is lost too, though nobody has changed its row. If the machine is so busy that it has ended before the completion waits, the
// next lease is longer.
func TestCompletionThatWaitedWhileTheLeaseRanOut(t *testing.T) {
	s := fresh(t, server(t).URL)
	live := func() bool {
		return one[bool](t, s.pool, "SELECT lock_until > clock_timestamp() AT TIME ZONE 'UTC' FROM "+s.tables.records)
	}
	for ttl, waited := time.Second, false; !waited; ttl *= 2 {
		lease := take(t, s, "name", "a", ttl)
		locks, done := completing(t, s, lease)
		waited = live()
		eventually(t, "the lease ends", func() bool { return !live() })
		if err := locks.Rollback(background); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, store.ErrLost) {
			t.Errorf("completing a lease that has ended before its row was free: %v", err)
		}
	}
}

func TestCompleteThroughDatabaseSQL(t *testing.T) {
	s := fresh(t, server(t).URL)
	db := stdlib.OpenDBFromPool(s.pool)
	defer db.Close()
	lease := take(t, s, "name", "a", time.Minute)
	for i, want := range []error{nil, store.ErrDone} {
		tx, err := db.BeginTx(background, &sql.TxOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CompleteSQL(background, tx, completion(lease, 5, "state")); !errors.Is(err, want) {
			t.Errorf("%d: %v, want %v", i, err, want)
		}
		tx.Commit()
	}
	if r := recordOf(t, s, "name"); r.Mark != 5 || string(r.State) != "state" {
		t.Errorf("%+v", r)
	}
}

// A lease is lost through database/sql as through pgx, also where its record has been forgotten.
func TestCompleteOfALostLeaseThroughDatabaseSQL(t *testing.T) {
	s := fresh(t, server(t).URL)
	db := stdlib.OpenDBFromPool(s.pool)
	defer db.Close()
	released := take(t, s, "released", "a", time.Minute)
	release(t, s, released)
	for _, lease := range []store.Release{{Name: "never", Holder: "a", Token: 1}, released} {
		tx, err := db.BeginTx(background, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CompleteSQL(background, tx, completion(lease, 1, "x")); !errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: %v", lease.Name, err)
		}
		if err := tx.Commit(); err != nil { // the transaction goes on
			t.Errorf("%s: %v", lease.Name, err)
		}
	}
}

// A transaction that completes a lease and stays open holds up nothing else of the client's, and nobody takes that name meanwhile.
func TestOpenTransactionHoldsUpNobodyElse(t *testing.T) {
	s := fresh(t, server(t).URL)
	other := reopen(t, s)
	const n = 1000
	begun := time.Now()
	leases := granted(t, s, batchOf(n, "a"))
	usual := time.Since(begun) // for a batch of that size, on this machine
	slow, tx := completedInTime(t, s, "slow")
	for round := range 6 {
		begun := time.Now()
		errs, err := s.Extend(background, append(extensionsOf(leases, time.Minute), extensionsOf([]store.Release{slow}, time.Minute)...))
		if err != nil {
			t.Fatal(err)
		}
		allNil(t, errs[:n], nil)
		// Once its time is over it is lost; until then the answer is that it is not known.
		if errs[n] == nil || !errors.Is(errs[n], store.ErrUnknown) && !errors.Is(errs[n], store.ErrLost) {
			t.Errorf("round %d: the lease of the open transaction: %v", round, errs[n])
		}
		claims := append([]store.Claim{claim("slow", "b", time.Minute)}, batchOf(n, "b")...)
		for i := range claims[1:] {
			claims[i+1].Name = fmt.Sprintf("more/%d/%d", round, i)
		}
		out, err := other.Acquire(background, claims)
		if err != nil || !errors.Is(out[0].Err, store.ErrHeld) {
			t.Fatalf("round %d: somebody else asks for the name: %v, %v", round, out[0], err)
		}
		for _, o := range out[1:] {
			if o.Err != nil {
				t.Fatalf("round %d: %v", round, o.Err)
			}
		}
		if took := time.Since(begun); took > time.Minute+20*usual { // who is held up waits until the transaction ends
			t.Errorf("round %d took %v, where taking a batch took %v", round, took, usual)
		}
		time.Sleep(50 * time.Millisecond)
	}
	eventually(t, "the lease of the open transaction is over", func() bool {
		var held *store.HeldError
		_, err := try(other, "slow", "b", time.Minute)
		return errors.As(err, &held) && held.Record.Left == lockPatience
	})
	errs, err := s.Release(background, leases)
	allNil(t, errs, err)
	if err := tx.Commit(background); err != nil {
		t.Fatal(err)
	}
	out, err := other.Acquire(background, []store.Claim{{Name: "slow", Holder: "b", TTL: time.Minute, Mark: 1}})
	if err != nil || !errors.Is(out[0].Err, store.ErrDone) {
		t.Errorf("after the commit: %v, %v", out, err)
	}
}

// A choice passes by a free name whose row somebody has locked, and is refused soon if there is no other.
func TestChoicePassesByALockedName(t *testing.T) {
	s := fresh(t, server(t).URL)
	release(t, s, take(t, s, "locked", "a", time.Minute))
	release(t, s, take(t, s, "free", "a", time.Minute))
	tx := begin(t, s, pgx.TxOptions{})
	run(t, tx, "SELECT FROM "+s.tables.records+" WHERE name = 'locked' FOR UPDATE")
	choose := func(names ...string) (i int, grant store.Grant, err error) {
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			i, grant, err = s.Choose(background, names, claim("", "b", time.Hour))
		}()
		eventually(t, "the choice answers, or waits", func() bool {
			select {
			case <-answered:
				return true
			default:
			}
			if !blocks(t, s, tx) {
				return false
			}
			t.Errorf("a choice among %q waits for the transaction", names)
			return tx.Rollback(background) == nil
		})
		<-answered
		return i, grant, err
	}
	if i, grant, err := choose("locked", "free"); err != nil || i != 1 || grant.Token == 0 {
		t.Errorf("number %d, token %d, %v; want number 1, which is not locked", i, grant.Token, err)
	}
	var held *store.HeldError
	if i, _, err := choose("locked"); i != 0 || !errors.As(err, &held) || held.Record.Left != lockPatience {
		t.Errorf("number %d, %v; want a refusal for %v", i, err, lockPatience)
	}
}

// completedInTime has a lease that ends soon, and a transaction that completes it, stays open, and was in time for it.
func completedInTime(t *testing.T, s *Store, name string) (store.Release, pgx.Tx) {
	t.Helper()
	for ttl := time.Second; ; ttl *= 4 { // a slow machine needs longer
		lease, tx := take(t, s, name, "a", ttl), begin(t, s, pgx.TxOptions{})
		err := s.Complete(background, tx, completion(lease, 1, "done"))
		if err == nil {
			return lease, tx
		}
		if !errors.Is(err, store.ErrLost) || ttl > servers.Patience {
			t.Fatal(err)
		}
		if err := tx.Rollback(background); err != nil {
			t.Fatal(err)
		}
	}
}

// Batches that overlap in every way, sweeps and completions at once: no deadlock comes to light.
func TestNoDeadlocks(t *testing.T) {
	s := fresh(t, server(t).URL, "pool_max_conns", "16")
	ctx, cancel := context.WithTimeout(background, 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				if err := churn(s, worker, round); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := one[int](t, s.pool, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n > 0 {
		t.Errorf("%d deadlocks at the server", n)
	}
}

func churn(s *Store, worker, round int) error {
	const names, batch = 60, 30
	holder := fmt.Sprintf("worker %d round %d", worker, round)
	claims := make([]store.Claim, batch)
	for i := range claims {
		at := (i*(2*worker+7) + round) % names
		if worker%2 == 1 {
			at = names - 1 - at
		}
		claims[i] = claim(fmt.Sprintf("n%02d/%d", at, round/20), holder, time.Hour)
	}
	out, err := s.Acquire(background, claims)
	if err != nil {
		return err
	}
	var mine []store.Release
	for i, o := range out {
		if o.Err == nil {
			mine = append(mine, store.Release{Name: claims[i].Name, Holder: holder, Token: o.Grant.Token})
		} else if !errors.Is(o.Err, store.ErrHeld) {
			return o.Err
		}
	}
	if len(mine) > 0 {
		tx, err := s.pool.Begin(background)
		if err != nil {
			return err
		}
		if err := errors.Join(s.Complete(background, tx, completion(mine[0], time.Now().UnixNano(), "x")), tx.Commit(background)); err != nil {
			return err
		}
	}
	if err := untilAnswered(mine, func(mine []store.Release) ([]error, error) {
		return s.Extend(background, extensionsOf(mine, time.Hour))
	}); err != nil {
		return err
	}
	if err := untilAnswered(mine, func(mine []store.Release) ([]error, error) { return s.Release(background, mine) }); err != nil {
		return err
	}
	_, err = s.Sweep(background, 100)
	return err
}

// untilAnswered asks about leases, and again about those whose rows somebody has kept locked for as long as a request waits for them.
func untilAnswered(leases []store.Release, ask func([]store.Release) ([]error, error)) error {
	for end := time.Now().Add(servers.Patience); len(leases) > 0; {
		errs, err := ask(leases)
		if err != nil {
			return err
		}
		var again []store.Release
		for i, err := range errs {
			switch {
			case err == nil:
			case errors.Is(err, errLocked) && time.Now().Before(end):
				again = append(again, leases[i])
			default:
				return err
			}
		}
		leases = again
	}
	return nil
}

// Two holders, one after the other, each add 1 to what they read, and complete. The second has begun its transaction, and read, before
// the first has committed, and so before its own lease: the counter is 2, or one of them gets an error.
func TestCompletionInAnOlderSnapshot(t *testing.T) {
	s := fresh(t, server(t).URL)
	counters := s.tables.schema + ".counters"
	run(t, s.pool, "CREATE TABLE "+counters+" (id text PRIMARY KEY, n bigint)")
	for _, level := range []pgx.TxIsoLevel{pgx.ReadUncommitted, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		for _, known := range []bool{false, true} { // whether there is a record of the name
			name := fmt.Sprint(level, " ", known)
			run(t, s.pool, "INSERT INTO "+counters+" VALUES ($1, 0)", name)
			if known {
				release(t, s, take(t, s, name, "before", time.Minute))
			}
			n := func(tx interface {
				QueryRow(context.Context, string, ...any) pgx.Row
			}) int64 {
				return one[int64](t, tx, "SELECT n FROM "+counters+" WHERE id = $1", name)
			}
			add := func(tx pgx.Tx, lease store.Release) error {
				if err := s.Complete(background, tx, completion(lease, 0, "state")); err != nil {
					if errors.Is(err, store.ErrUnknown) {
						t.Errorf("%s: unknown before a commit: %v", name, err)
					}
					return err
				}
				if _, err := tx.Exec(background, "UPDATE "+counters+" SET n = $2 WHERE id = $1", name, n(tx)+1); err != nil {
					return err
				}
				return tx.Commit(background)
			}
			first := take(t, s, name, "a", time.Minute)
			second := begin(t, s, pgx.TxOptions{IsoLevel: level})
			n(second)
			if err := add(begin(t, s, pgx.TxOptions{IsoLevel: level}), first); err != nil {
				t.Fatal(err)
			}
			release(t, s, first)
			err := add(second, take(t, s, name, "b", time.Minute))
			if got := n(s.pool); got != 2 && err == nil {
				t.Errorf("%s: two holders have added 1 each, and the counter is %d", name, got)
			}
			if err != nil && level != pgx.RepeatableRead && level != pgx.Serializable {
				t.Errorf("%s: %v", name, err)
			}
			_ = second.Rollback(background)
		}
	}
}
