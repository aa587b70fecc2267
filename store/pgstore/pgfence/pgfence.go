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

// DoTx runs write in a transaction of its own, after Check, and commits. It returns write's error, after a rollback. The token counts as
// seen when write fails or panics, and when the commit fails: it is then claimed by itself.
func (g *Guard) DoTx(ctx context.Context, resource string, token int64, write func(pgx.Tx) error) (err error) {
	tx, err := g.begin(ctx, resource, token)
	if err != nil {
		return err
	}
	committed := false
	defer func() {
		if !committed {
			rollback(ctx, tx)
			err = errors.Join(err, g.claimAfter(ctx, resource, token))
		}
	}()
	if err := write(tx); err != nil {
		return err
	}
	if err := commit(ctx, tx, resource); err != nil {
		return err
	}
	committed = true
	return nil
}

// begin begins a transaction that has passed Check.
func (g *Guard) begin(ctx context.Context, resource string, token int64) (pgx.Tx, error) {
	tx, err := g.db.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("beginning to write to %q: %w", resource, err)
	}
	if err := g.Check(ctx, tx, resource, token); err != nil {
		rollback(ctx, tx)
		return nil, err
	}
	return tx, nil
}

func commit(ctx context.Context, tx pgx.Tx, resource string) error {
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("committing what was written to %q: %w", resource, err)
	}
	return nil
}

func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = tx.Rollback(ctx)
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
	tx, err := g.begin(ctx, resource, token)
	if err != nil {
		return err
	}
	if err := commit(ctx, tx, resource); err != nil {
		rollback(ctx, tx)
		return err
	}
	return nil
}
