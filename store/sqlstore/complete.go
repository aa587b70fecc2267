package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/soloist-dev/soloist/store"
)

// Complete is as in store.Completion: part of tx, a transaction of the caller's on the same server. The row of the lease is locked until
// tx ends; renewals of the client's other leases go on meanwhile, and that of this one when tx has ended, so tx should end well
// within the TTL.
func (s *Store) Complete(ctx context.Context, tx *sql.Tx, c store.Completion) error {
	if err := s.alive(ctx); err != nil {
		return s.explain(err)
	}
	if err := c.Check(); err != nil {
		return err
	}
	f := fill{
		"name": bytesLiteral(s.row(c.Name)), "holder": bytesLiteral(c.Holder), "token": intLiteral(c.Token),
		"mark": intLiteral(c.Mark), "state": stateLiteral(c.State),
	}
	if c.Mark > 0 {
		done, err := tx.ExecContext(ctx, s.text(sqlComplete, f))
		if err != nil {
			return s.explain(err)
		}
		if n, err := done.RowsAffected(); n > 0 || err != nil { // the mark has grown, so the row counts as changed and as found alike
			return s.explain(err)
		}
	}
	return s.completed(ctx, tx, c, f)
}

// completed locks the row of a lease whose mark was not to be raised or could not be, and says why.
func (s *Store) completed(ctx context.Context, tx *sql.Tx, c store.Completion, f fill) error {
	r := record{holder: c.Holder, lockedBy: c.Holder, token: c.Token}
	var live bool
	var left, age int64
	err := tx.QueryRowContext(ctx, s.text(sqlCompleteLook, f)).Scan(&live, &r.released, &r.mark, &left, &age, &r.state)
	r.left, r.age = fromMicros(left), fromMicros(age)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && !live:
		return store.ErrLost
	case err != nil:
		return s.explain(err)
	case c.Mark > 0:
		return &store.DoneError{Record: r.whole(c.Name)}
	case c.State != nil:
		_, err = tx.ExecContext(ctx, s.text(sqlCompleteState, f))
	}
	return s.explain(err)
}
