// Package sqlfence guards what is written in a SQL database: a table remembers the greatest fencing token of each resource, and
// refuses lower ones in the transaction that writes.
//
//	guard, err := sqlfence.New(db, sqlfence.Config{Dialect: sqlfence.PostgreSQL})
//	…
//	err = guard.DoTx(ctx, "ledger", lease.Token(), func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE ledger SET …")
//		return err
//	})
//
// The row of the resource stays locked until the transaction ends, so no write of a stale holder lands after one of its successor. It
// needs no driver of its own and no more than database/sql.
package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/soloist-dev/soloist/fence"
)

// ErrSnapshot refuses a transaction of MySQL or MariaDB at REPEATABLE READ that read something before another wrote to the resource: its
// reads do not show that write.
var ErrSnapshot = errors.New("the transaction reads as of before another's write: call Check before anything else in it, or begin it at READ COMMITTED")

// A Dialect is what the database understands.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota // CockroachDB too
	MySQL                     // MariaDB too
	SQLite
)

// A Config says where the tokens are kept.
type Config struct {
	Dialect Dialect
	Table   string // "" is fences. Letters a to z, digits and _, and a schema's name with a dot before it
}

// A Guard is a fence.Guard whose memory is a table. It is safe for use by many goroutines at once.
type Guard struct {
	db  *sql.DB
	cfg Config

	enter   string // MySQL: locks the row of a resource, and adds it if there is none
	count   string // MySQL: how many writes the reads of the transaction show
	advance string // raises the token of a resource, or adds it
	seen    string // reads it
}

var _ fence.Guard = (*Guard)(nil)

var tableName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,62}$`)

// New makes a guard of a database, which stays the caller's to close. The table must be there: see Schema.
func New(db *sql.DB, cfg Config) (*Guard, error) {
	if cfg.Table == "" {
		cfg.Table = "fences"
	}
	if !tableName.MatchString(cfg.Table) {
		return nil, fmt.Errorf("table %.60q: write a name, or schema.name, of a to z, 0 to 9 and _", cfg.Table)
	}
	g := &Guard{db: db, cfg: cfg}
	switch cfg.Dialect {
	case PostgreSQL:
		g.advance = "INSERT INTO " + cfg.Table + " AS f (resource, token) VALUES ($1, $2) " +
			"ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token"
		g.seen = "SELECT token FROM " + cfg.Table + " WHERE resource = $1 FOR UPDATE"
	case SQLite:
		g.advance = "INSERT INTO " + cfg.Table + " (resource, token) VALUES (?1, ?2) " +
			"ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE token <= excluded.token"
		g.seen = "SELECT token FROM " + cfg.Table + " WHERE resource = ?1"
	case MySQL:
		g.enter = "INSERT INTO " + cfg.Table + " (resource, token, writes) VALUES (?, 0, 0) ON DUPLICATE KEY UPDATE writes = writes"
		g.count = "SELECT writes FROM " + cfg.Table + " WHERE resource = ?"
		g.advance = "UPDATE " + cfg.Table + " SET token = ?, writes = writes + 1 WHERE resource = ? AND token <= ? AND writes = ?"
		g.seen = "SELECT token FROM " + cfg.Table + " WHERE resource = ? FOR UPDATE"
	default:
		return nil, fmt.Errorf("dialect %d: give PostgreSQL, MySQL or SQLite", cfg.Dialect)
	}
	return g, nil
}

// Schema answers the statement that makes the table.
func (g *Guard) Schema() string {
	columns := "resource text NOT NULL PRIMARY KEY, token bigint NOT NULL"
	if g.cfg.Dialect == MySQL {
		columns = "resource varbinary(767) NOT NULL PRIMARY KEY, token bigint NOT NULL, writes bigint NOT NULL"
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s)", g.cfg.Table, columns)
}

// Check refuses a token lower than one seen for the resource, with a *fence.StaleError; the caller then rolls tx back. Otherwise the
// token counts as seen once tx has been committed, and no other is let in for the resource until tx has ended. It waits for those
// that are in, as long as ctx lets it. Make it first in tx: what tx has read before can be out of date by then. A tx whose reads do not
// show what others have written under the guard is refused: by the database itself, and with ErrSnapshot in MySQL and MariaDB.
func (g *Guard) Check(ctx context.Context, tx *sql.Tx, resource string, token int64) error {
	if token <= 0 {
		return &fence.TokenError{Token: token}
	}
	advanced, err := g.raise(ctx, tx, resource, token)
	if err != nil {
		return fmt.Errorf("showing token %d to the guard of %q: %w", token, resource, err)
	}
	if advanced {
		return nil
	}
	var seen int64
	if err := tx.QueryRowContext(ctx, g.seen, resource).Scan(&seen); err != nil {
		return fmt.Errorf("asking the guard of %q: %w", resource, err)
	}
	switch {
	case seen > token:
		return &fence.StaleError{Resource: resource, Token: token, Seen: seen}
	case g.cfg.Dialect == MySQL:
		return fmt.Errorf("showing token %d to the guard of %q: %w", token, resource, ErrSnapshot)
	}
	return nil
}

// raise raises the token of a resource, and says whether that was done.
func (g *Guard) raise(ctx context.Context, tx *sql.Tx, resource string, token int64) (bool, error) {
	args := []any{resource, token}
	if g.cfg.Dialect == MySQL {
		// At REPEATABLE READ the servers let a transaction change what its reads do not show. So each write is counted, and the count that
		// the transaction reads must be the one that is there. It reads with the row locked, so its first read shows all there is.
		if _, err := tx.ExecContext(ctx, g.enter, resource); err != nil {
			return false, err
		}
		writes := int64(-1) // of a row that has been added since
		err := tx.QueryRowContext(ctx, g.count, resource).Scan(&writes)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return false, err
		}
		args = []any{token, resource, token, writes}
	}
	done, err := tx.ExecContext(ctx, g.advance, args...)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return err == nil && n > 0, nil
}

// DoTx runs write in a transaction of its own, after Check, and commits. What write answers is passed on. However it ends without a
// commit, be it by a panic, the transaction is rolled back and the token is claimed by itself, so that it counts as seen all the same.
func (g *Guard) DoTx(ctx context.Context, resource string, token int64, write func(*sql.Tx) error) (err error) {
	tx, err := g.begin(ctx, resource, token)
	if err != nil {
		return err
	}
	committed := false
	defer func() {
		if !committed {
			_ = tx.Rollback()
			err = errors.Join(err, g.claimAfter(ctx, resource, token))
		}
	}()
	if err := write(tx); err != nil {
		return err
	}
	if err := commit(tx, resource); err != nil {
		return err
	}
	committed = true
	return nil
}

// begin begins a transaction that has passed Check.
func (g *Guard) begin(ctx context.Context, resource string, token int64) (*sql.Tx, error) {
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("beginning to write to %q: %w", resource, err)
	}
	if err := g.Check(ctx, tx, resource, token); err != nil {
		_ = tx.Rollback()
		return nil, err
	}
	return tx, nil
}

func commit(tx *sql.Tx, resource string) error {
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing what was written to %q: %w", resource, err)
	}
	return nil
}

// claimAfter claims the token of a write that has not been committed, perhaps because ctx has ended.
func (g *Guard) claimAfter(ctx context.Context, resource string, token int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := g.Claim(ctx, resource, token)
	if errors.Is(err, fence.ErrStale) {
		return nil // a greater one has been seen meanwhile
	}
	return err
}

type key struct{}

// Tx answers the transaction to write in, within the function that Do was given; nil elsewhere.
func Tx(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(key{}).(*sql.Tx)
	return tx
}

// Do is as in fence.Guard: DoTx with the transaction in the context of write, see Tx.
func (g *Guard) Do(ctx context.Context, resource string, token int64, write func(context.Context) error) error {
	return g.DoTx(ctx, resource, token, func(tx *sql.Tx) error { return write(context.WithValue(ctx, key{}, tx)) })
}

// Claim is as in fence.Guard.
func (g *Guard) Claim(ctx context.Context, resource string, token int64) error {
	tx, err := g.begin(ctx, resource, token)
	if err != nil {
		return err
	}
	return commit(tx, resource)
}
