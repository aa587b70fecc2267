package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

// Complete is as in store.Completion: part of tx, a transaction of the caller's on the same server. The row of the lease is locked until
// tx ends; renewals of the client's other leases go on meanwhile, and that of this one when tx has ended, so tx should end well
// within the TTL. A tx at REPEATABLE READ, the servers' default, must not have read anything before the lease was taken, or the error is
// ErrSnapshot.
func (s *Store) Complete(ctx context.Context, tx *sql.Tx, c store.Completion) error {
	if err := s.alive(ctx); err != nil {
		return s.explain(err)
	}
	if err := c.Check(); err != nil {
		return err
	}
	f := fill{
		"name": bytesLiteral(s.row(c.Name)), "holder": bytesLiteral(c.Holder), "token": intLiteral(c.Token),
		"mark": intLiteral(c.Mark), "state": stateLiteral(c.State), "call": newCall(),
	}
	if err := s.mayComplete(ctx, tx, c, f); err != nil || c.Mark == 0 && c.State == nil {
		return err
	}
	_, err := tx.ExecContext(ctx, s.text(sqlComplete, f))
	return s.explain(err)
}

// mayComplete locks the row of a lease. It returns the reason why the lease cannot be completed, or nil.
func (s *Store) mayComplete(ctx context.Context, tx *sql.Tx, c store.Completion, f fill) error {
	r := sqlshared.Record{Holder: c.Holder, LockedBy: c.Holder, Token: c.Token}
	var live, seen bool
	var left, age int64
	err := tx.QueryRowContext(ctx, s.text(sqlCompleteLook, f)).Scan(&live, &seen, &r.Released, &r.Mark, &left, &age, &r.State)
	r.Left, r.Age = fromMicros(left), fromMicros(age)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && !live:
		return store.ErrLost
	case code(err) == errRecordChanged: // the server has rolled tx back
		return s.explain(fmt.Errorf("%w; with innodb_snapshot_isolation the lease must not have been extended since the transaction's first read either: %w", ErrSnapshot, err))
	case err != nil:
		return s.explain(err)
	case c.Mark > 0 && r.Mark >= c.Mark:
		return &store.DoneError{Record: r.Whole(c.Name)}
	case !seen:
		return s.explain(ErrSnapshot)
	}
	return nil
}
