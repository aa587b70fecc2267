package mysqlstore

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

// The server does not report releases: watched names are looked at, the more often the more has happened lately. A waiter whose turn it is learns of a
// release a twentieth of the time later that it has waited, at least watchLeast and at most watchMost. A release by this handle wakes at once.
const (
	watchLeast    = 2 * time.Millisecond
	watchMost     = 50 * time.Millisecond
	watchFraction = 20
)

func newWatches(ctx context.Context) *sqlshared.Watches[sight] {
	return sqlshared.NewWatches[sight](ctx, func(quiet time.Duration) time.Duration {
		return min(max(quiet/watchFraction, watchLeast), watchMost)
	})
}

// A sight is what a release changes about a record, be it one by ShedLock. A name without a row is the zero sight.
type sight struct {
	token    int64
	released bool
	free     bool
}

// Watch is as in store.Watcher.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := store.CheckNames(names); err != nil {
		return nil, err
	}
	if err := s.alive(ctx); err != nil {
		return nil, s.explain(err)
	}
	rows := make([]string, len(names))
	for i, name := range names {
		rows[i] = s.row(name)
	}
	slices.Sort(rows)
	rows = slices.Compact(rows)
	seen, err := s.sights(ctx, rows)
	if err != nil {
		return nil, err
	}
	wake, err := s.watches.Add(ctx, rows, seen, func(ctx context.Context, names func() []string) (map[string]sight, error) {
		return s.sights(ctx, s.turns.due(names()))
	})
	if err == nil && len(rows) == 1 {
		s.join(ctx, rows[0])
	}
	return wake, err
}

func (s *Store) sights(ctx context.Context, names []string) (map[string]sight, error) {
	type named struct {
		name string
		sight
	}
	seen := make(map[string]sight, len(names))
	for part := range slices.Chunk(names, maxBatch) {
		rows := make([][]cell, len(part))
		for i, name := range part {
			rows[i] = []cell{bytesCell(name)}
		}
		found, err := look(ctx, s, s.text(sqlSights, batch(claimColumns[:1], rows, 0)), func(rows *sql.Rows) (n named, err error) {
			return n, rows.Scan(&n.name, &n.token, &n.released, &n.free)
		})
		if err != nil {
			return nil, err
		}
		for _, name := range part {
			seen[name] = sight{}
		}
		for _, n := range found {
			seen[n.name] = n.sight
		}
	}
	return seen, nil
}
