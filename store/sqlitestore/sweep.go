package sqlitestore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/soloist-dev/soloist/store/internal/tokens"
)

const sweepBatch = 1000 // records forgotten in one transaction, so that claims need not wait long

// Sweep is as in store.Sweeper. It looks for what may be forgotten without the file's lock.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if err := s.alive(ctx); err != nil {
		return 0, s.at(err)
	}
	total := 0
	for total < limit {
		names, err := s.forgettable(ctx, min(limit-total, sweepBatch))
		if err != nil || len(names) == 0 {
			return total, err
		}
		n := 0
		if err := s.transact(ctx, func(t *tx) (err error) { n, err = t.forget(names); return err }); err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

func (s *Store) forgettable(ctx context.Context, limit int) ([]string, error) {
	var names []string
	err := s.view(ctx, func(f *file, c *conn) error {
		names = names[:0]
		return c.rows(ctx, sqlForgettable, []any{f.clock.now(), limit, int64(tokens.Forgettable)}, func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			names = append(names, name)
			return err
		})
	})
	return names, err
}

// forget deletes those of the names that may still be forgotten, and keeps the greatest of their tokens.
func (t *tx) forget(names []string) (n int, err error) {
	var floor int64
	for _, name := range names {
		var token int64
		err := t.row(sqlForget, []any{name, t.now, int64(tokens.Forgettable)}, &token)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return 0, err
		}
		n++
		floor = max(floor, token)
	}
	if n == 0 {
		return 0, nil
	}
	t.changed = true
	_, err = t.exec(sqlMetaFloor, floor)
	return n, err
}
