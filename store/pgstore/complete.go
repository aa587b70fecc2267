package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5"
)

var _ store.Completer[pgx.Tx] = (*Store)(nil)

// Complete completes the work of a lease in tx, a transaction of the same database, as store.Completion says. It waits, as long as ctx
// lets it, for another transaction that has locked the record's row, and keeps the row locked until tx has ended: keep tx shorter than
// the lease's TTL, for meanwhile the lease is not renewed, though nobody can take it either. In a transaction of REPEATABLE READ or
// SERIALIZABLE a lease that has been renewed since the transaction began is a serialization failure (40001): run the transaction
// again.
func (s *Store) Complete(ctx context.Context, tx pgx.Tx, c store.Completion) error {
	return s.complete(ctx, c, func(args []any, into []any) error {
		if s.unnamed.Load() {
			args = unprepared(args)
		}
		return tx.QueryRow(ctx, s.sql.complete, args...).Scan(into...)
	})
}

// CompleteSQL is Complete for a transaction of database/sql with the driver pgx.
func (s *Store) CompleteSQL(ctx context.Context, tx *sql.Tx, c store.Completion) error {
	return s.complete(ctx, c, func(args []any, into []any) error {
		return tx.QueryRowContext(ctx, s.sql.complete, args...).Scan(into...)
	})
}

func (s *Store) complete(ctx context.Context, c store.Completion, row func(args, into []any) error) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	name, _ := s.row(c.Name)
	var live *bool
	there := true
	f := fields{there: &there}
	err := row([]any{name, c.Holder, c.Token, c.Mark, c.State != nil, c.State}, append([]any{&live}, f.listed()...))
	r, wrong := f.record()
	switch {
	case errors.Is(err, pgx.ErrNoRows), errors.Is(err, sql.ErrNoRows):
		return store.ErrLost
	case err != nil:
		return s.explain(err, false) // the caller commits, so nothing has happened yet
	case live == nil || wrong != "": // the caller does not commit
		if wrong == "" {
			wrong = notWritten
		}
		return fmt.Errorf("%s: an answer that cannot be, about %s: %s", s.tables.cfg.Dialect, shown(c.Name), wrong)
	case !*live:
		return store.ErrLost
	case c.Mark != 0 && r.Mark >= c.Mark:
		return &store.DoneError{Record: r.Whole(c.Name)}
	}
	return nil
}
