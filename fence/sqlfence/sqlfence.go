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
		// VALUES is old and works everywhere; MariaDB has no other way.
		g.advance = "INSERT INTO " + cfg.Table + " (resource, token) VALUES (?, ?) ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))"
		g.seen = "SELECT token FROM " + cfg.Table + " WHERE resource = ? FOR UPDATE"
	default:
		return nil, fmt.Errorf("dialect %d: give PostgreSQL, MySQL or SQLite", cfg.Dialect)
	}
	return g, nil
}

// Schema answers the statement that makes the table.
func (g *Guard) Schema() string {
	resource := map[Dialect]string{PostgreSQL: "text", MySQL: "varbinary(767)", SQLite: "text"}[g.cfg.Dialect]
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (resource %s NOT NULL PRIMARY KEY, token bigint NOT NULL)", g.cfg.Table, resource)
}

// Check refuses a token lower than one seen for the resource, with a *fence.StaleError; the caller then rolls tx back. Otherwise the
// token counts as seen once tx has been committed, and no other is let in for the resource until tx has ended. It waits for those
// that are in, as long as ctx lets it.
func (g *Guard) Check(ctx context.Context, tx *sql.Tx, resource string, token int64) error {
	if token <= 0 {
		return &fence.TokenError{Token: token}
	}
	done, err := tx.ExecContext(ctx, g.advance, resource, token)
	if err != nil {
		return fmt.Errorf("showing token %d to the guard of %q: %w", token, resource, err)
	}
	// MySQL's count does not tell a lower token from the same one.
	if n, err := done.RowsAffected(); err == nil && n > 0 && g.cfg.Dialect != MySQL {
		return nil
	}
	var seen int64
	if err := tx.QueryRowContext(ctx, g.seen, resource).Scan(&seen); err != nil {
		return fmt.Errorf("asking the guard of %q: %w", resource, err)
	}
	if seen > token {
		return &fence.StaleError{Resource: resource, Token: token, Seen: seen}
	}
	return nil
}

// DoTx runs write in a transaction of its own, after Check, and commits. What write answers is passed on, after a rollback; the token
// is then claimed by itself, so that it counts as seen all the same.
func (g *Guard) DoTx(ctx context.Context, resource string, token int64, write func(*sql.Tx) error) error {
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning to write to %q: %w", resource, err)
	}
	defer func() { _ = tx.Rollback() }() // also when write panics; after a commit it does nothing
	if err := g.Check(ctx, tx, resource, token); err != nil {
		return err
	}
	if err := write(tx); err != nil {
		_ = tx.Rollback()
		return errors.Join(err, g.claimAfter(ctx, resource, token))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing what was written to %q: %w", resource, err)
	}
	return nil
}

// claimAfter claims the token of a write that has failed, perhaps because ctx has ended.
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
	return g.DoTx(ctx, resource, token, func(*sql.Tx) error { return nil })
}
