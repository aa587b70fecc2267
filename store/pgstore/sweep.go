package pgstore

import "context"

const sweepBatch = 1000 // records forgotten in one statement, so that nobody waits long for their rows

// Sweep is as in store.Sweeper. A name that was granted within the last second is left for the next time. In a table shared with ShedLock
// a row that ShedLock may know of is never forgotten: it would go on updating what is no longer there.
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
		n, err := change(ctx, s, s.sql.sweep, []any{int64(min(limit-total, sweepBatch)), s.tables.cfg.ShedLock}, scanInt)
		if err != nil {
			return total, err
		}
		if total += int(n[0]); n[0] == 0 {
			break
		}
	}
	return total, nil
}
