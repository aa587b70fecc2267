// Package transaction has what the guards of databases share: a write in a transaction that begins with a check of its
// token.
package transaction

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/soloist-dev/soloist/fence"
)

// A Guard has the steps of a guard, for transactions of type Tx.
type Guard[Tx any] struct {
	Begin    func(ctx context.Context) (Tx, error)
	Check    func(ctx context.Context, tx Tx, resource string, token int64) error
	Commit   func(ctx context.Context, tx Tx) error
	Rollback func(ctx context.Context, tx Tx) error
}

// bound limits the requests that must be made after the caller's context has ended.
const bound = 5 * time.Second

// DoTx runs write in a transaction, after Check, and commits it. If the transaction is not committed, because of an error, a panic or
// runtime.Goexit, DoTx rolls it back and claims the token by itself.
func (g Guard[Tx]) DoTx(ctx context.Context, resource string, token int64, write func(Tx) error) (err error) {
	tx, err := g.begin(ctx, resource, token)
	if err != nil {
		return err
	}
	committed := false
	defer func() {
		if !committed {
			g.rollback(ctx, tx)
			err = errors.Join(err, g.claimAfter(ctx, resource, token))
		}
	}()
	if err := write(tx); err != nil {
		return err
	}
	if err := g.commit(ctx, tx, resource); err != nil {
		return err
	}
	committed = true
	return nil
}

// Claim commits a transaction that contains only Check.
func (g Guard[Tx]) Claim(ctx context.Context, resource string, token int64) error {
	tx, err := g.begin(ctx, resource, token)
	if err != nil {
		return err
	}
	if err := g.commit(ctx, tx, resource); err != nil {
		g.rollback(ctx, tx)
		return err
	}
	return nil
}

// begin returns a transaction that has passed Check.
func (g Guard[Tx]) begin(ctx context.Context, resource string, token int64) (Tx, error) {
	var none Tx
	tx, err := g.Begin(ctx)
	if err != nil {
		return none, fmt.Errorf("beginning to write to %q: %w", resource, err)
	}
	if err := g.Check(ctx, tx, resource, token); err != nil {
		g.rollback(ctx, tx)
		return none, err
	}
	return tx, nil
}

func (g Guard[Tx]) commit(ctx context.Context, tx Tx, resource string) error {
	if err := g.Commit(ctx, tx); err != nil {
		return fmt.Errorf("committing what was written to %q: %w", resource, err)
	}
	return nil
}

func (g Guard[Tx]) rollback(ctx context.Context, tx Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	_ = g.Rollback(ctx, tx)
}

// claimAfter claims the token of a write that has not been committed, perhaps because ctx has ended.
func (g Guard[Tx]) claimAfter(ctx context.Context, resource string, token int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	err := g.Claim(ctx, resource, token)
	if errors.Is(err, fence.ErrStale) {
		return nil // a greater one has been seen meanwhile
	}
	return err
}

type key[Tx any] struct{}

// In returns a context that carries tx.
func In[Tx any](ctx context.Context, tx Tx) context.Context {
	return context.WithValue(ctx, key[Tx]{}, tx)
}

// From returns the transaction that In has put into ctx, or the zero value.
func From[Tx any](ctx context.Context) Tx {
	tx, _ := ctx.Value(key[Tx]{}).(Tx)
	return tx
}

var tableName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,62}$`)

// Table returns the configured table, by default "fences", or an error if it is not a valid name.
func Table(configured string) (string, error) {
	if configured == "" {
		return "fences", nil
	}
	if !tableName.MatchString(configured) {
		return "", fmt.Errorf("table %.60q: write a name, or schema.name, of a to z, 0 to 9 and _", configured)
	}
	return configured, nil
}
