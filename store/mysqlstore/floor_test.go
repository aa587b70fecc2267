package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/go-sql-driver/mysql"
)

// ahead makes the token of a lease greater than any clock would.
func ahead(t *testing.T, db *sql.DB, s *Store, name string) int64 {
	t.Helper()
	const token = math.MaxInt64 / 2
	exec(t, db, "UPDATE "+s.table(s.cfg.Table)+" SET token = "+intLiteral(token)+" WHERE name = "+bytesLiteral(s.row(name)))
	return token
}

// What a sweep has forgotten is not granted with a lower token, be the clock as it may.
func TestTokensGrowOverASweep(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			db := connect(t, mariadb(t).URL, m.driver)
			s := open(t, db, m.config)
			const name = "ns/element/swept" // one that is forgotten in a table shared with ShedLock, too
			take(t, s, name, "a")
			token := ahead(t, db, s, name)
			release(t, s, store.Release{Name: name, Holder: "a", Token: token})
			if n, err := s.Sweep(context.Background(), 10); n != 1 || err != nil {
				t.Fatalf("a sweep has forgotten %d, %v", n, err)
			}
			if again := take(t, s, name, "b").Token; again <= token {
				t.Errorf("token %d follows %d", again, token)
			}
			if other := take(t, s, "other", "b").Token; other <= token {
				t.Errorf("token %d of a name that may have been forgotten, after %d", other, token)
			}
		})
	}
}

// A sweep leaves what others have locked for the next time, and does not wait for it. No token of what it has forgotten is above the floor, whatever the order.
func TestSweepLeavesWhatIsLocked(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	db := connect(t, mariadb(t).URL, nil)
	s := open(t, db, Config{})
	var greatest int64
	for _, name := range []string{"1", "2", "3"} {
		token := take(t, s, name, "a").Token
		if name == "1" {
			token = ahead(t, db, s, name)
			greatest = token
		}
		release(t, s, store.Release{Name: name, Holder: "a", Token: token})
	}
	tx := begin(t, db, nil)
	exec(t, tx, "SELECT token FROM "+s.table(s.cfg.Table)+" WHERE name = '2' FOR UPDATE")
	if n, err := s.Sweep(ctx, 10); n != 2 || err != nil {
		t.Fatalf("a sweep beside a locked row has forgotten %d, %v", n, err)
	}
	if token := take(t, s, "new", "b").Token; token <= greatest {
		t.Errorf("token %d of a name that may have been forgotten, after %d", token, greatest)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Sweep(ctx, 10); n != 1 || err != nil {
		t.Errorf("the next sweep has forgotten %d, %v", n, err)
	}
	// A name that was taken since the sweep has found it is held.
	if n, err := s.forget(ctx, []string{"new"}); n != 0 || err != nil {
		t.Errorf("of a name that has been taken, %d were forgotten, %v", n, err)
	}
	heldBy(t, s, "new", "b")
}

// A sweep of more records than it forgets at once forgets as many as it may. No token of any part is above the floor.
func TestSweepInParts(t *testing.T) {
	db := connect(t, mariadb(t).URL, nil)
	s := open(t, db, Config{})
	const greatest = math.MaxInt64 / 2
	exec(t, db, "INSERT INTO "+s.table(s.cfg.Table)+" (name, lock_until, locked_at, locked_by, holder, released, token) "+
		"SELECT CONCAT('n', seq), '2020-01-01', '2020-01-01', 'a', 'a', 1, "+intLiteral(greatest)+" - seq FROM seq_0_to_2299")
	for _, sweep := range []struct{ limit, want int }{{1500, 1500}, {1, 1}, {5000, 799}, {10, 0}} {
		if n, err := s.Sweep(t.Context(), sweep.limit); n != sweep.want || err != nil {
			t.Fatalf("a sweep of %d has forgotten %d, %v; want %d", sweep.limit, n, err, sweep.want)
		}
	}
	if token := take(t, s, "new", "b").Token; token <= greatest {
		t.Errorf("token %d of a name that may have been forgotten, after %d", token, int64(greatest))
	}
}

// A claim that stands still while one of its names is granted, released and swept has read the floor before, and the sweep waits for it.
func TestTokensGrowOverASweepDuringAClaim(t *testing.T) {
	ctx := context.Background()
	db := connect(t, mariadb(t).URL, nil)
	s := open(t, db, Config{})
	tx := begin(t, db, nil)
	exec(t, tx, "INSERT INTO "+s.table(s.cfg.Table)+" (name, lock_until, locked_at, locked_by) VALUES ('a', '2000-01-01', '2000-01-01', '')")
	waiting := func() (n int) {
		time.Sleep(200 * time.Millisecond) // InnoDB shows what it showed before to the one that looks again within 100 ms
		const query = "SELECT COUNT(*) FROM information_schema.innodb_trx AS t JOIN information_schema.innodb_locks AS l ON l.lock_id = t.trx_requested_lock_id " +
			"WHERE t.trx_state = 'LOCK WAIT' AND l.lock_table LIKE ?" // others wait on the same server, for other tables
		if err := db.QueryRowContext(ctx, query, "%"+s.cfg.Table+"%").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	claimed := make(chan []store.Outcome, 1)
	go func() { claimed <- acquire(t, s, claim("a", "late"), claim("b", "late")) }()
	servers.Wait(t, "the claim to stand still", func() bool { return waiting() == 1 })

	other := open(t, connect(t, mariadb(t).URL, nil), Config{Table: s.cfg.Table})
	take(t, other, "b", "early")
	token := ahead(t, db, s, "b")
	release(t, other, store.Release{Name: "b", Holder: "early", Token: token})
	swept := make(chan error, 1)
	go func() {
		_, err := other.Sweep(ctx, 10)
		swept <- err
	}()
	var done bool
	var err error
	servers.Wait(t, "the sweep to end, or to stand still", func() bool {
		select {
		case err = <-swept:
			done = true
		default:
		}
		return done || waiting() == 2
	})
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if !done {
		err = <-swept
	}
	if err != nil {
		t.Fatal(err)
	}
	out := (<-claimed)[1]
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	if out.Grant.Token <= token {
		t.Errorf("token %d follows %d", out.Grant.Token, token)
	}
}

// A process that stops in the middle of a sweep, or loses the network, does not keep the floor locked: claims of new names wait for it.
func TestSweepThatStandsStill(t *testing.T) {
	servers.Long(t)
	db := connect(t, mariadb(t).URL, func(c *mysql.Config) { c.Params = map[string]string{"innodb_lock_wait_timeout": "1"} })
	s := open(t, db, Config{})
	take(t, s, "known", "a")
	locked, stopped, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		ended <- s.transact(t.Context(), func(conn *sql.Conn) error {
			err := conn.QueryRowContext(t.Context(), s.text(sqlSweepFloor, nil)).Scan(new(int64))
			once.Do(func() { close(locked) })
			<-stopped
			return err
		})
	}()
	<-locked
	if _, err := s.Acquire(t.Context(), []store.Claim{claim("new", "a")}); code(err) != errLockTimeout {
		t.Errorf("while the floor is locked a claim of a new name answers %v", err)
	}
	servers.Wait(t, "a new name", func() bool {
		out, err := s.Acquire(t.Context(), []store.Claim{claim("new", "a")})
		return err == nil && out[0].Err == nil
	})
	close(stopped)
	if err := <-ended; err != nil && code(err) != 0 {
		t.Errorf("the sweep that stood still: %v", err)
	}
}

// A claim of a new name that waits without success, for the floor or for another who makes the name, waits once, and says for what.
func TestClaimOfANewNameWaitsOnce(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			db := connect(t, mariadb(t).URL, func(c *mysql.Config) {
				if m.driver != nil {
					m.driver(c)
				}
				c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
			})
			s := open(t, db, m.config)
			take(t, s, "known", "a")
			tx := begin(t, db, nil)
			exec(t, tx, "SELECT floor FROM "+s.table(s.cfg.Table+"_meta")+" FOR UPDATE")
			if out, err := s.Acquire(t.Context(), []store.Claim{claim("new", "b")}); code(err) != errLockTimeout || errors.Is(err, store.ErrUnknown) {
				t.Errorf("answered %+v, %v, want the server's error", out, err)
			}
		})
	}
}
