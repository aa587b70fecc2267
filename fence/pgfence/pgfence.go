// Package pgfence guards what is written in a PostgreSQL database by pgx: a table remembers the greatest fencing token of each
// resource, and refuses lower ones in the transaction that writes. It is sqlfence for programs that use pgx without database/sql.
//
//	guard, err := pgfence.New(pool, pgfence.Config{})
//	…
//	err = guard.DoTx(ctx, "ledger", lease.Token(), func(tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, "UPDATE ledger SET …")
//		return err
//	})
package pgfence

import (
	"context"
	"errors"
	"fmt"

	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/fence/internal/transaction"

	"github.com/jackc/pgx/v5"
)

// A Beginner begins transactions, as *pgxpool.Pool and *pgx.Conn do.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// A Guard is a fence.Guard that keeps its tokens in a table. It is safe for concurrent use if db is.
type Guard struct {
	db            Beginner
	table         string
	advance, seen string
}

var _ fence.Guard = (*Guard)(nil)

// A Config configures where the tokens are kept.
type Config struct {
	Table string // the default is fences. Use a to z, 0 to 9 and _; a schema can stand before it, with a dot
}

// New returns a guard that keeps its tokens in a database. The table must exist: see Schema. The caller must close db.
func New(db Beginner, cfg Config) (*Guard, error) {
	table, err := transaction.Table(cfg.Table)
	if err != nil {
		return nil, fmt.Errorf("pgfence: %w", err)
	}
	if db == nil {
		return nil, errors.New("pgfence: the database is nil: give a *pgxpool.Pool")
	}
	return &Guard{db: db, table: table,
		advance: "INSERT INTO " + table + " AS f (resource, token) VALUES (" + nameOf + ", $2::bigint) " +
			"ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token",
		seen: "SELECT token FROM " + table + " WHERE resource = " + nameOf + " FOR UPDATE",
	}, nil
}

// nameOf is the text of the first parameter, which is the bytes of a name: it is the same text whatever client_encoding a connection has.
const nameOf = "convert_from($1::bytea, 'UTF8')"

// Schema returns the statement that creates the table.
func (g *Guard) Schema() string {
	return "CREATE TABLE IF NOT EXISTS " + g.table + " (resource text NOT NULL PRIMARY KEY, token bigint NOT NULL)"
}

// Check returns a *fence.StaleError if the token is lower than one seen for the resource; the caller must then roll tx
// back. Otherwise the token counts as seen once tx has been committed, and other tokens for the resource wait until tx
// has ended. Check waits for other transactions under the guard until ctx ends. In a REPEATABLE READ or SERIALIZABLE
// transaction that began before another token's write was committed, it fails with a serialization failure (40001): run
// the transaction again.
func (g *Guard) Check(ctx context.Context, tx pgx.Tx, resource string, token int64) error {
	if token <= 0 {
		return &fence.TokenError{Token: token}
	}
	done, err := tx.Exec(ctx, g.advance, []byte(resource), token)
	if err != nil {
		return fmt.Errorf("showing token %d to the guard of %q: %w", token, resource, err)
	}
	if done.RowsAffected() > 0 {
		return nil
	}
	var seen int64
	if err := tx.QueryRow(ctx, g.seen, []byte(resource)).Scan(&seen); err != nil {
		return fmt.Errorf("asking the guard of %q: %w", resource, err)
	}
	return &fence.StaleError{Resource: resource, Token: token, Seen: seen}
}

// DoTx begins a transaction, calls Check and write, and commits. If write returns an error, DoTx rolls back and returns
// it. The token counts as seen even if write fails or panics: if DoTx does not commit, it claims the token in another
// transaction.
func (g *Guard) DoTx(ctx context.Context, resource string, token int64, write func(pgx.Tx) error) error {
	return g.steps().DoTx(ctx, resource, token, write)
}

// Do implements fence.Guard. In write, Tx returns the transaction to use: other tokens for the resource wait until it has
// ended. What write does in another way is not guarded if the transaction ends before it, as when its connection is lost.
func (g *Guard) Do(ctx context.Context, resource string, token int64, write func(context.Context) error) error {
	return g.DoTx(ctx, resource, token, func(tx pgx.Tx) error { return write(transaction.In(ctx, tx)) })
}

// Tx returns the transaction of Do from the context of its write; nil elsewhere.
func Tx(ctx context.Context) pgx.Tx { return transaction.From[pgx.Tx](ctx) }

// Claim implements fence.Guard.
func (g *Guard) Claim(ctx context.Context, resource string, token int64) error {
	return g.steps().Claim(ctx, resource, token)
}

func (g *Guard) steps() transaction.Guard[pgx.Tx] {
	return transaction.Guard[pgx.Tx]{
		Begin:    g.db.Begin,
		Check:    g.Check,
		Commit:   func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		Rollback: func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
	}
}
