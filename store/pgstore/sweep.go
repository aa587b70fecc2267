package pgstore

import (
	"context"
	"time"
)

const sweepBatch = 1000 // records forgotten in one statement, so that nobody waits long for their rows

// Sweep is as in store.Sweeper. A record of which somebody goes by a floor below its token, since a claim of a new name is under way, is
// left for the next time. In a table shared with ShedLock a row that ShedLock may know of is never forgotten: it would go on updating
// what is no longer there.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if err := s.alive(ctx); err != nil {
		return 0, err
	}
	if s.sql.passed != "" {
		if _, err := change(ctx, s, s.sql.passed, nil, scanInt); err != nil {
			return 0, err
		}
	}
	total := 0
	for total < limit {
		n, err := s.forget(ctx, min(limit-total, sweepBatch))
		if total += n; err != nil || n == 0 {
			return total, err
		}
	}
	return total, nil
}

// forget forgets records, at most count. For a tenth of a second it tries again when what may be forgotten is in somebody's way: claims
// of new names take no longer than that, as a rule.
func (s *Store) forget(ctx context.Context, count int) (int, error) {
	args := []any{int64(count), s.tables.cfg.ShedLock}
	start := time.Now()
	for try := 0; ; try++ {
		rows, err := change(ctx, s, s.sql.sweepRaise, args, scanInt)
		if may, err := only(s, rows, err); err != nil || may <= 0 {
			return 0, err
		}
		if _, err := change(ctx, s, s.sql.sweepSettle, nil, scanInt); err != nil {
			return 0, err
		}
		rows, err = change(ctx, s, s.sql.sweep, args, scanInt)
		n, err := only(s, rows, err)
		switch {
		case err != nil:
			return 0, err
		case n < 0 || n > int64(count):
			return 0, s.impossible("%d records were forgotten, of at most %d", n, count)
		case n > 0 || time.Since(start) > lockPatience:
			return int(n), nil
		}
		s.collided(ctx, try)
	}
}
