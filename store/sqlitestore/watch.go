package sqlitestore

import (
	"context"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

// watchInterval is how often the file is checked for commits of others, while there are watches.
const watchInterval = 5 * time.Millisecond

func newWatches(ctx context.Context) *sqlshared.Watches[sight] {
	return sqlshared.NewWatches[sight](ctx, func(time.Duration) time.Duration { return watchInterval })
}

// A sight is what a release changes about a record.
type sight struct {
	token    int64
	released bool
}

// A change is a number that differs from the last one if another process has committed.
type change struct {
	file    *file
	version int64
}

// Watch is as in store.Watcher.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := store.CheckNames(names); err != nil {
		return nil, err
	}
	if err := s.alive(ctx); err != nil {
		return nil, s.at(err)
	}
	names = slices.Clone(names)
	var first change
	var seen map[string]sight
	err := s.view(ctx, func(f *file, c *conn) (err error) {
		if first, err = f.change(c); err == nil {
			seen, err = c.sights(names, f.clock.now())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.watches.Add(ctx, names, seen, s.changesAfter(first))
}

// changesAfter returns what looks at the names whenever anybody has committed since the last look.
func (s *Store) changesAfter(last change) sqlshared.Look[sight] {
	return func(ctx context.Context, names func() []string) (seen map[string]sight, err error) {
		err = s.view(ctx, func(f *file, c *conn) error {
			now, err := f.change(c)
			if err != nil || now == last {
				return err
			}
			if seen, err = c.sights(names(), f.clock.now()); err == nil {
				last = now
			}
			return err
		})
		return seen, err
	}
}

func (f *file) change(c *conn) (change, error) {
	var version int64
	err := c.row(sqlVersion, nil, &version)
	return change{f, version}, err
}

func (c *conn) sights(names []string, now int64) (map[string]sight, error) {
	seen := make(map[string]sight, len(names))
	for _, name := range names {
		r, err := c.record(name, false, now)
		if err != nil && !corrupt(err, new(error)) {
			return nil, err
		}
		seen[name] = sight{} // forgotten: it was released, and then swept before anybody looked
		if r != nil {
			seen[name] = sight{r.token, r.released}
		}
	}
	return seen, nil
}
