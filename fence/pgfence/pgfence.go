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

// A Guard is a fence.Guard whose memory is a table. It is safe for use by many goroutines at once if db is.
type Guard struct {
	db            Beginner
	table         string
	advance, seen string
}

var _ fence.Guard = (*Guard)(nil)

// A Config says where the tokens are kept.
type Config struct {
	Table string // the default is fences. Letters a to z, digits and _, and a schema's name with a dot before it
}

// New returns a guard of a database. The table must exist: see Schema. The caller closes db.
func New(db Beginner, cfg Config) (*Guard, error) {
	table, err := transaction.Table(cfg.Table)
	if err != nil {
		return nil, fmt.Errorf("pgfence: %w", err)
	}
	if db == nil {
		return nil, errors.New("pgfence: the database is nil: give a *pgxpool.Pool")
	}
	return &Guard{db: db, table: table,
		advance: "INSERT INTO " + table + " AS f (resource, token) VALUES ($1::text, $2::bigint) " +
			"ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token",
		seen: "SELECT token FROM " + table + " WHERE resource = $1::text FOR UPDATE",
	}, nil
}

// Schema returns the statement that creates the table.
func (g *Guard) Schema() string {
	return "CREATE TABLE IF NOT EXISTS " + g.table + " (resource text NOT NULL PRIMARY KEY, token bigint NOT NULL)"
}

// Check refuses a token lower than one seen for the resource, with a *fence.StaleError; the caller then rolls tx back. Otherwise the
// token counts as seen once tx has been committed, and no other is let in for the resource until tx has ended. It waits for those
// that are in, as long as ctx lets it. In a transaction of REPEATABLE READ or SERIALIZABLE that began before another token's write was
// committed, it is a serialization failure (40001): run the transaction again.
func (g *Guard) Check(ctx context.Context, tx pgx.Tx, resource string, token int64) error {
	if token <= 0 {
		return &fence.TokenError{Token: token}
	}
	done, err := tx.Exec(ctx, g.advance, resource, token)
	if err != nil {
		return fmt.Errorf("showing token %d to the guard of %q: %w", token, resource, err)
	}
	if done.RowsAffected() > 0 {
		return nil
	}
	var seen int64
	if err := tx.QueryRow(ctx, g.seen, resource).Scan(&seen); err != nil {
		return fmt.Errorf("asking the guard of %q: %w", resource, err)
	}
	return &fence.StaleError{Resource: resource, Token: token, Seen: seen}
}

// DoTx runs write in a transaction, after Check, and commits it. It returns the error of write, after a rollback. The token counts as
// seen however write ends, be it with an error or by a panic: without a commit DoTx claims the token by itself.
func (g *Guard) DoTx(ctx context.Context, resource string, token int64, write func(pgx.Tx) error) error {
	return g.steps().DoTx(ctx, resource, token, write)
}

// Do is as in fence.Guard. write finds the transaction to write in with Tx.
func (g *Guard) Do(ctx context.Context, resource string, token int64, write func(context.Context) error) error {
	return g.DoTx(ctx, resource, token, func(tx pgx.Tx) error { return write(transaction.In(ctx, tx)) })
}

// Tx returns the transaction of Do from the context of its write; nil elsewhere.
func Tx(ctx context.Context) pgx.Tx { return transaction.From[pgx.Tx](ctx) }

// Claim is as in fence.Guard.
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
