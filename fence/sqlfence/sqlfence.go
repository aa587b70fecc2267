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
// The row of the resource stays locked until the transaction ends, so no write of a stale holder is committed after one
// of its successor. The package uses database/sql only.
package sqlfence

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/fence/internal/transaction"
)

// ErrSnapshot reports that a REPEATABLE READ transaction of MySQL or MariaDB read something before another transaction
// wrote to the resource, so its reads do not show that write. Run the transaction again.
var ErrSnapshot = errors.New("the transaction reads as of before another's write: call Check before anything else in it, or begin it at READ COMMITTED")

// A Dialect is the SQL dialect of a database. The zero value is invalid.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota + 1 // CockroachDB too
	MySQL                         // MariaDB too
	SQLite
)

// A Config configures where the tokens are kept.
type Config struct {
	Dialect Dialect // required
	Table   string  // the default is fences. Use a to z, 0 to 9 and _; a schema can stand before it, with a dot
}

// A Guard is a fence.Guard that keeps its tokens in a table. It is safe for concurrent use.
type Guard struct {
	db  *sql.DB
	cfg Config

	enter   string // MySQL: locks the row of a resource, and adds it if there is none
	count   string // MySQL: how many writes the reads of the transaction show
	advance string // raises the token of a resource, or adds it
	seen    string // reads it
}

var _ fence.Guard = (*Guard)(nil)

// New returns a guard that keeps its tokens in a database. The table must exist: see Schema. The caller must close db.
func New(db *sql.DB, cfg Config) (*Guard, error) {
	table, err := transaction.Table(cfg.Table)
	if err != nil {
		return nil, fmt.Errorf("sqlfence: %w", err)
	}
	if db == nil {
		return nil, errors.New("sqlfence: the database is nil: give an open *sql.DB")
	}
	cfg.Table = table
	g := &Guard{db: db, cfg: cfg}
	switch cfg.Dialect {
	case PostgreSQL:
		g.advance = "INSERT INTO " + cfg.Table + " AS f (resource, token) VALUES (convert_from($1::bytea, 'UTF8'), $2) " +
			"ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token"
		g.seen = "SELECT token FROM " + cfg.Table + " WHERE resource = convert_from($1::bytea, 'UTF8') FOR UPDATE"
	case SQLite:
		g.advance = "INSERT INTO " + cfg.Table + " (resource, token) VALUES (?1, ?2) " +
			"ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE token <= excluded.token"
		g.seen = "SELECT token FROM " + cfg.Table + " WHERE resource = ?1"
	case MySQL:
		g.enter = "INSERT INTO " + cfg.Table + " (resource, token, writes) VALUES (UNHEX(?), 0, 0) ON DUPLICATE KEY UPDATE writes = writes"
		g.count = "SELECT writes FROM " + cfg.Table + " WHERE resource = UNHEX(?)"
		g.advance = "UPDATE " + cfg.Table + " SET token = ?, writes = writes + 1 WHERE resource = UNHEX(?) AND token <= ? AND writes = ?"
		g.seen = "SELECT token FROM " + cfg.Table + " WHERE resource = UNHEX(?) FOR UPDATE"
	default:
		return nil, fmt.Errorf("sqlfence: dialect %d: give sqlfence.PostgreSQL, sqlfence.MySQL or sqlfence.SQLite", cfg.Dialect)
	}
	return g, nil
}

// Schema returns the statement that creates the table.
func (g *Guard) Schema() string {
	columns := "resource text NOT NULL PRIMARY KEY, token bigint NOT NULL"
	if g.cfg.Dialect == MySQL {
		columns = "resource varbinary(767) NOT NULL PRIMARY KEY, token bigint NOT NULL, writes bigint NOT NULL"
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s)", g.cfg.Table, columns)
}

// Check returns a *fence.StaleError if the token is lower than one seen for the resource; the caller must then roll tx
// back. Otherwise the token counts as seen once tx has been committed, and other tokens for the resource wait until tx
// has ended. Check waits for other transactions under the guard until ctx ends. Call Check first in tx: rows that tx
// has read before can be out of date. If the reads of tx do not show what others have written under the guard, Check
// fails: with an error of the database, or with ErrSnapshot in MySQL and MariaDB.
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
	if err := tx.QueryRowContext(ctx, g.seen, g.key(resource)).Scan(&seen); err != nil {
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

// raise raises the token of a resource, and reports whether it did.
func (g *Guard) raise(ctx context.Context, tx *sql.Tx, resource string, token int64) (bool, error) {
	key := g.key(resource)
	args := []any{key, token}
	if g.cfg.Dialect == MySQL {
		// At REPEATABLE READ the servers let a transaction change rows whose newest version its reads do not show. So each
		// write is counted, and the count that the transaction reads must be the newest one. It reads after it has locked the
		// row, so its first read shows the newest version.
		if _, err := tx.ExecContext(ctx, g.enter, key); err != nil {
			return false, err
		}
		writes := int64(-1) // if the row was added since
		err := tx.QueryRowContext(ctx, g.count, key).Scan(&writes)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return false, err
		}
		args = []any{token, key, token, writes}
	}
	done, err := tx.ExecContext(ctx, g.advance, args...)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return err == nil && n > 0, nil
}

// key returns the parameter that names a resource. PostgreSQL and MySQL have its bytes from it, so that no encoding of a connection makes
// it another name.
func (g *Guard) key(resource string) any {
	switch g.cfg.Dialect {
	case PostgreSQL:
		return []byte(resource)
	case MySQL:
		return hex.EncodeToString([]byte(resource))
	}
	return resource
}

// DoTx begins a transaction, calls Check and write, and commits. If write returns an error, DoTx rolls back and returns
// it. The token counts as seen even if write fails or panics: if DoTx does not commit, it claims the token in another
// transaction.
func (g *Guard) DoTx(ctx context.Context, resource string, token int64, write func(*sql.Tx) error) error {
	return g.steps().DoTx(ctx, resource, token, write)
}

// Do implements fence.Guard. In write, Tx returns the transaction to use: other tokens for the resource wait until it has
// ended. What write does in another way is not guarded if the transaction ends before it, as when its connection is lost.
func (g *Guard) Do(ctx context.Context, resource string, token int64, write func(context.Context) error) error {
	return g.DoTx(ctx, resource, token, func(tx *sql.Tx) error { return write(transaction.In(ctx, tx)) })
}

// Tx returns the transaction of Do from the context of its write; nil elsewhere.
func Tx(ctx context.Context) *sql.Tx { return transaction.From[*sql.Tx](ctx) }

// Claim implements fence.Guard.
func (g *Guard) Claim(ctx context.Context, resource string, token int64) error {
	return g.steps().Claim(ctx, resource, token)
}

func (g *Guard) steps() transaction.Guard[*sql.Tx] {
	return transaction.Guard[*sql.Tx]{
		Begin:    func(ctx context.Context) (*sql.Tx, error) { return g.db.BeginTx(ctx, nil) },
		Check:    g.Check,
		Commit:   func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		Rollback: func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
	}
}
