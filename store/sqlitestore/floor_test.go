package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"

	"modernc.org/sqlite"
)

// swept takes a name with a token greater than any clock would make, gives it back and has it forgotten.
func swept(t *testing.T, s *Store, name string, between func()) (token int64) {
	t.Helper()
	r := take(t, s, name, "a", time.Hour)
	r.Token, r.Retain = math.MaxInt64/2, 0
	exec(t, raw(t, s.path), "UPDATE records SET token = "+strconv.FormatInt(r.Token, 10)+" WHERE name = '"+name+"'")
	release(t, s, r)
	between()
	if n, err := s.Sweep(context.Background(), 10); n != 1 || err != nil {
		t.Fatalf("a sweep has forgotten %d, %v", n, err)
	}
	return r.Token
}

// used takes a name and gives it back, so that it may be forgotten.
func used(t *testing.T, s *Store, name string) (token int64) {
	t.Helper()
	r := take(t, s, name, "a", time.Hour)
	r.Retain = 0
	release(t, s, r)
	return r.Token
}

// What a sweep has forgotten is not granted with a lower token, be the clock as it may.
func TestTokensGrowOverASweep(t *testing.T) {
	s := openAt(t, newPath(t))
	token := swept(t, s, "x", func() {})
	for _, name := range []string{"x", "other"} {
		if again := take(t, s, name, "b", time.Hour); again.Token <= token {
			t.Errorf("token %d of %q follows %d", again.Token, name, token)
		}
	}
}

// A claim that has looked at a record decides again if that is forgotten before it writes.
func TestTokensGrowOverASweepDuringAClaim(t *testing.T) {
	s, late := openAt(t, newPath(t)), (*Store)(nil)
	late = openAt(t, s.path)
	claims, outcomes := claim("x", "late", time.Hour), make([]store.Outcome, 1)
	var found *record
	token := swept(t, s, "x", func() {
		must(t, late.view(background, func(f *file, c *conn) (err error) {
			_, found, err = answer(f.clock, c, claims, outcomes)
			return err
		}))
	})
	if found == nil {
		t.Fatal("the claim has not seen the record")
	}
	must(t, late.writing.take(background))
	done, err := late.quick(background, late.file, retake(found, claims[0], &outcomes[0]))
	if done || err != nil {
		t.Fatalf("a record that has been forgotten was granted: %+v, %v", outcomes[0], err)
	}
	must(t, late.write(background, late.file, func(tx *tx) error { return tx.acquire(claims, outcomes) }))
	late.writing.give()
	if outcomes[0].Err != nil || outcomes[0].Grant.Token <= token {
		t.Errorf("token %d follows %d (%v)", outcomes[0].Grant.Token, token, outcomes[0].Err)
	}
}

// A claim that has looked at a record decides again if that was changed before it writes, though its token is the same: a holder whose clock was read before its lease
// had ended extends or releases it that late.
func TestClaimOfARecordThatChanges(t *testing.T) {
	for _, change := range []string{"until = until + 1", "released = 1 - released"} {
		s, outcomes := openAt(t, newPath(t)), make([]store.Outcome, 1)
		release(t, s, take(t, s, "x", "a", time.Hour))
		must(t, s.writing.take(background))
		found, err := s.file.write.record("x", true, s.file.clock.now())
		must(t, err)
		n, err := s.file.write.exec("UPDATE records SET " + change)
		must(t, err)
		done, err := s.quick(background, s.file, retake(found, claim("x", "b", time.Hour)[0], &outcomes[0]))
		s.writing.give()
		if n != 1 || done || err != nil {
			t.Errorf("%s (%d): a record that has changed was granted: %+v, %v", change, n, outcomes[0], err)
		}
	}
}

// An interruptedConn is a connection on which something is done once, before a record is read with its state.
type interruptedConn struct {
	driver.Conn
	before *func()
}

func (c interruptedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if query != sqlRecord || err != nil {
		return s, err
	}
	return interruptedStmt{s, c.before}, nil
}

type interruptedStmt struct {
	driver.Stmt
	before *func()
}

func (s interruptedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if do := *s.before; args[1].Value == true && do != nil {
		*s.before = nil
		do()
	}
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}

type interrupted struct {
	driver.Connector
	before *func()
}

func (i interrupted) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := i.Connector.Connect(ctx)
	return interruptedConn{c, i.before}, err
}

// A record that looks free is read again for its state. If another has taken it in between, it is held.
func TestRecordIsTakenBeforeItsStateIsRead(t *testing.T) {
	other := openAt(t, newPath(t))
	r := take(t, other, "x", "a", time.Hour)
	r.State = []byte("left")
	release(t, other, r)
	s, err := newStore(other.path)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	var before func()
	s.connector = func(dsn string) (driver.Connector, error) {
		c, err := sqlite.NewConnector(dsn)
		return interrupted{c, &before}, err
	}
	must(t, s.start())
	release(t, s, take(t, s, "beside", "a", time.Hour)) // so that one statement may do
	var theirs store.Release
	before = func() { theirs = take(t, other, "x", "b", time.Hour) }
	var held *store.HeldError
	g, err := try(s, "x", "c", time.Hour)
	if !errors.As(err, &held) || held.Record.Holder != "b" || held.Record.Token != theirs.Token {
		t.Errorf("answered %+v, %v; want that another has it, with the token %d", g, err, theirs.Token)
	}
	release(t, other, theirs)
}

// A sweep has looked for what may be forgotten without the file's lock, and looks again with it.
func TestSweepLooksAgain(t *testing.T) {
	for _, change := range []string{"retain = 9223372036854775807", "until = 9223372036854775807", "released = 0"} {
		s := openAt(t, newPath(t))
		used(t, s, "x")
		names, err := s.forgettable(background, 10)
		must(t, err)
		n := 0
		must(t, s.transact(background, func(tx *tx) (err error) {
			if _, err = tx.exec("UPDATE records SET " + change); err == nil {
				n, err = tx.forget(names)
			}
			return err
		}))
		if len(names) != 1 || n != 0 {
			t.Errorf("%s: of %q, which could be forgotten before, %d were", change, names, n)
		}
	}
}

// A sweep of more records than it forgets at once forgets as many as it may. No token of any part is above the floor.
func TestSweepInParts(t *testing.T) {
	s := openAt(t, newPath(t))
	const greatest = math.MaxInt64 / 2
	exec(t, raw(t, s.path), "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 2299) "+
		"INSERT INTO records (name, holder, released, token, mark, state, since, until) "+
		"SELECT 'n' || i, 'a', 1, "+strconv.Itoa(greatest)+" - i, 0, x'', 0, 0 FROM n")
	for _, sweep := range []struct{ limit, want int }{{1500, 1500}, {1, 1}, {5000, 799}, {10, 0}} {
		if n, err := s.Sweep(background, sweep.limit); n != sweep.want || err != nil {
			t.Fatalf("a sweep of %d has forgotten %d, %v; want %d", sweep.limit, n, err, sweep.want)
		}
	}
	if token := take(t, s, "new", "b", time.Hour).Token; token <= greatest {
		t.Errorf("token %d of a name that may have been forgotten, after %d", token, int64(greatest))
	}
}

// The floor is the greatest token that was ever forgotten, be it in one sweep or in several.
func TestFloorIsTheGreatestToken(t *testing.T) {
	for _, limit := range []int{2, 1} {
		s := openAt(t, newPath(t))
		used(t, s, "second")
		greatest := used(t, s, "first") // a sweep goes by name
		for range 2 / limit {
			if n, err := s.Sweep(background, limit); n != limit || err != nil {
				t.Fatalf("a sweep of %d has forgotten %d, %v", limit, n, err)
			}
		}
		var floor int64
		must(t, s.view(background, func(_ *file, c *conn) error { return c.row(sqlFloor, nil, &floor) }))
		if floor != greatest {
			t.Errorf("after sweeps of %d: the floor is %d, and the greatest token that was forgotten is %d", limit, floor, greatest)
		}
	}
}
