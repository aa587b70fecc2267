// Package pgfence guards what is written in a PostgreSQL database by pgx: a table remembers the greatest fencing token of each
// resource, and refuses lower ones in the transaction that writes. It is fence/sqlfence for those who do not go through database/sql.
package pgfence

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/soloist-dev/soloist/fence"

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

var tableName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,62}$`)

// New makes a guard that keeps its tokens in a table, "fences" if table is "", which must be there: see Schema. db stays the caller's.
func New(db Beginner, table string) (*Guard, error) {
	if table == "" {
		table = "fences"
	}
	if !tableName.MatchString(table) {
		return nil, fmt.Errorf("table %.60q: write a name, or schema.name, of a to z, 0 to 9 and _", table)
	}
	return &Guard{db: db, table: table,
		advance: "INSERT INTO " + table + " AS f (resource, token) VALUES ($1::text, $2::bigint) " +
			"ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token",
		seen: "SELECT token FROM " + table + " WHERE resource = $1::text FOR UPDATE",
	}, nil
}

// Schema answers the statement that makes the table.
func (g *Guard) Schema() string {
	return "CREATE TABLE IF NOT EXISTS " + g.table + " (resource text NOT NULL PRIMARY KEY, token bigint NOT NULL)"
}

// Check refuses a token lower than one seen for the resource, with a *fence.StaleError; the caller then rolls tx back. Otherwise the
// token counts as seen once tx has been committed, and no other is let in for the resource until tx has ended. It waits for those
// that are in, as long as ctx lets it.
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

// DoTx runs write in a transaction of its own, after Check, and commits. What write answers is passed on, after a rollback; the token
// is then claimed by itself, so that it counts as seen all the same.
func (g *Guard) DoTx(ctx context.Context, resource string, token int64, write func(pgx.Tx) error) error {
	tx, err := g.db.Begin(ctx)
	if err != nil {
		return fmt.Errorf("beginning to write to %q: %w", resource, err)
	}
	rollback := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = tx.Rollback(ctx)
	}
	defer rollback() // also when write panics; after a commit it does nothing
	if err := g.Check(ctx, tx, resource, token); err != nil {
		return err
	}
	if err := write(tx); err != nil {
		rollback()
		return errors.Join(err, g.claimAfter(ctx, resource, token))
	}
	if err := tx.Commit(ctx); err != nil {
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
func Tx(ctx context.Context) pgx.Tx {
	tx, _ := ctx.Value(key{}).(pgx.Tx)
	return tx
}

// Do is as in fence.Guard: DoTx with the transaction in the context of write, see Tx.
func (g *Guard) Do(ctx context.Context, resource string, token int64, write func(context.Context) error) error {
	return g.DoTx(ctx, resource, token, func(tx pgx.Tx) error { return write(context.WithValue(ctx, key{}, tx)) })
}

// Claim is as in fence.Guard.
func (g *Guard) Claim(ctx context.Context, resource string, token int64) error {
	return g.DoTx(ctx, resource, token, func(pgx.Tx) error { return nil })
}
