package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/fence/sqlfence"
	"github.com/soloist-dev/soloist/store"

	"github.com/go-sql-driver/mysql"
)

// The isolation levels of a caller's transaction. At REPEATABLE READ, the servers' default, all reads but locking ones show what was
// committed before the first of them.
var isolations = []sql.IsolationLevel{
	sql.LevelDefault, sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable,
}

func snapshots(level sql.IsolationLevel) bool {
	return level == sql.LevelDefault || level == sql.LevelRepeatableRead
}

// A counter is a row that holders add to by reading and writing it, as an application's code would.
type counter struct {
	t     *testing.T
	db    *sql.DB
	table string
}

func newCounter(t *testing.T, db *sql.DB) *counter {
	c := &counter{t, db, newTable(t) + "_counter"}
	exec(t, db, "CREATE TABLE "+c.table+" (n INT NOT NULL) ENGINE = InnoDB", "INSERT INTO "+c.table+" VALUES (0)",
		"CREATE TABLE "+c.table+"_other (n INT NOT NULL) ENGINE = InnoDB")
	t.Cleanup(func() { exec(t, db, "DROP TABLE "+c.table, "DROP TABLE "+c.table+"_other") })
	return c
}

func (c *counter) read(from interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (n int) {
	c.t.Helper()
	if err := from.QueryRowContext(context.Background(), "SELECT n FROM "+c.table).Scan(&n); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// early begins a transaction that has read something.
func (c *counter) early(level sql.IsolationLevel) *sql.Tx {
	c.t.Helper()
	tx := begin(c.t, c.db, &sql.TxOptions{Isolation: level})
	var n int
	if err := tx.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM "+c.table+"_other").Scan(&n); err != nil {
		c.t.Fatal(err)
	}
	return tx
}

// add adds 1 in tx and commits, if check lets it.
func (c *counter) add(tx *sql.Tx, check func(*sql.Tx) error) error {
	c.t.Helper()
	n := c.read(tx)
	if err := check(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	exec(c.t, tx, fmt.Sprintf("UPDATE %s SET n = %d", c.table, n+1))
	return tx.Commit()
}

// A transaction that does not see what the holder before has committed cannot be completed: what it has read is out of date.
func TestCompletionInAnOlderSnapshot(t *testing.T) {
	for _, level := range isolations {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v/the name is known: %t", level, known), func(t *testing.T) {
				ctx := context.Background()
				db := connect(t, mariadb(t).URL, nil)
				s, c := open(t, db, Config{}), newCounter(t, db)
				completing := func(holder string, token, mark int64) func(*sql.Tx) error {
					return func(tx *sql.Tx) error {
						return s.Complete(ctx, tx, store.Completion{Name: "x", Holder: holder, Token: token, Mark: mark})
					}
				}
				var first store.Grant
				next := "b"
				if known {
					first = take(t, s, "x", "a")
					next = "a" // the same holder, whose lease before is what an older transaction shows
				}
				late, unmarked := c.early(level), c.early(level)
				if !known {
					first = take(t, s, "x", "a")
				}
				if err := c.add(c.early(level), completing("a", first.Token, 1)); err != nil {
					t.Fatal(err)
				}
				release(t, s, store.Release{Name: "x", Holder: "a", Token: first.Token})
				second := take(t, s, "x", next)
				if err := completing("a", first.Token, 2)(unmarked); !errors.Is(err, store.ErrLost) {
					t.Errorf("completing the lease before: %v, want ErrLost", err)
				}
				for _, mark := range []int64{0, 2} {
					if err := completing(next, second.Token, mark)(unmarked); errors.Is(err, ErrSnapshot) != snapshots(level) {
						t.Errorf("a transaction older than the lease, mark %d: %v", mark, err)
					}
				}
				_ = unmarked.Rollback()
				want := 2
				if err := c.add(late, completing(next, second.Token, 2)); err != nil {
					want = 1
					if !errors.Is(err, ErrSnapshot) || !snapshots(level) {
						t.Errorf("adding in a transaction older than the lease: %v", err)
					}
				}
				if n := c.read(db); n != want {
					t.Fatalf("the counter is %d after two holders, want %d", n, want)
				}
				if err := c.add(c.early(level), completing(next, second.Token, 3)); err != nil {
					t.Errorf("a transaction begun under the lease: %v", err)
				}
				if n := c.read(db); n != want+1 {
					t.Errorf("the counter is %d, want %d", n, want+1)
				}
			})
		}
	}
}

// Where the server refuses to lock what the transaction does not see, as MariaDB does by default from 11.6.2 on, the error is the same.
func TestCompletionWithSnapshotIsolation(t *testing.T) {
	ctx := context.Background()
	db := connect(t, mariadb(t).URL, func(c *mysql.Config) { c.Params = map[string]string{"innodb_snapshot_isolation": "ON"} })
	s, c := open(t, db, Config{}), newCounter(t, db)
	late := c.early(sql.LevelRepeatableRead)
	g := take(t, s, "x", "a")
	early, committed := c.early(sql.LevelRepeatableRead), c.early(sql.LevelReadCommitted)
	errs, err := s.Extend(ctx, []store.Extension{{Name: "x", Holder: "a", Token: g.Token, TTL: time.Hour}})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	for what, tx := range map[string]*sql.Tx{"older than the lease": late, "older than its extension": early} {
		if err := s.Complete(ctx, tx, store.Completion{Name: "x", Holder: "a", Token: g.Token, Mark: 1}); !errors.Is(err, ErrSnapshot) {
			t.Errorf("a transaction %s: %v, want ErrSnapshot", what, err)
		}
	}
	if err := s.Complete(ctx, committed, store.Completion{Name: "x", Holder: "a", Token: g.Token, Mark: 1}); err != nil {
		t.Errorf("a transaction at READ COMMITTED: %v", err)
	}
}

// The guard, too, refuses a transaction that does not see what has been written under it, whatever token that had shown before.
func TestFenceInAnOlderSnapshot(t *testing.T) {
	for _, level := range isolations {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v/the resource is known: %t", level, known), func(t *testing.T) {
				ctx := context.Background()
				db := connect(t, mariadb(t).URL, nil)
				c := newCounter(t, db)
				table := newTable(t)
				guard, err := sqlfence.New(db, sqlfence.Config{Dialect: sqlfence.MySQL, Table: table})
				if err != nil {
					t.Fatal(err)
				}
				exec(t, db, guard.Schema())
				defer exec(t, db, "DROP TABLE "+table)
				checking := func(token int64) func(*sql.Tx) error {
					return func(tx *sql.Tx) error { return guard.Check(ctx, tx, "r", token) }
				}
				if known {
					if err := guard.Claim(ctx, "r", 1); err != nil {
						t.Fatal(err)
					}
				}
				late, same := c.early(level), c.early(level)
				if err := c.add(c.early(level), checking(1)); err != nil {
					t.Fatal(err)
				}
				// A token that was seen is not stale, though a transaction that shows it may be too old.
				if err := checking(1)(same); errors.Is(err, sqlfence.ErrSnapshot) != snapshots(level) || errors.Is(err, fence.ErrStale) {
					t.Errorf("a transaction older than another's write with the same token: %v", err)
				}
				_ = same.Rollback()
				want := 2
				if err := c.add(late, checking(2)); err != nil {
					want = 1
					if !errors.Is(err, sqlfence.ErrSnapshot) || !snapshots(level) {
						t.Errorf("adding in a transaction older than another's write: %v", err)
					}
				}
				if n := c.read(db); n != want {
					t.Fatalf("the counter is %d after two holders, want %d", n, want)
				}
				twice := func(tx *sql.Tx) error { return errors.Join(checking(2)(tx), checking(2)(tx)) }
				if err := c.add(c.early(level), twice); err != nil {
					t.Errorf("a transaction begun after that: %v", err)
				}
				if n := c.read(db); n != want+1 {
					t.Errorf("the counter is %d, want %d", n, want+1)
				}
			})
		}
	}
}
