package casstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/tokens"
)

// List implements store.Store. A lease that this process has not seen before is listed with the whole of its TTL left.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if err := s.ready(ctx); err != nil {
			yield(store.Record{}, err)
			return
		}
		var unreadable error
		for item, err := range s.backend.List(ctx, prefix) {
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			if item.Name == FloorName {
				continue
			}
			item = s.checked(item.Name, item)
			if item.Err == nil && store.CheckName(item.Name) != nil {
				item.Err = fmt.Errorf("casstore: the record of %q is that of no name: something else has written it", item.Name)
			}
			if item.Err != nil {
				unreadable = errors.Join(unreadable, item.Err)
				continue
			}
			if !yield(view(s.sights.see(item), time.Now(), true), nil) {
				return
			}
		}
		if unreadable != nil {
			yield(store.Record{}, &store.UnreadableError{Err: unreadable})
		}
	}
}

// How many records one call of Sweep reads, and how many in one request.
const (
	sweepLook  = 1000
	sweepBatch = 100
)

// sweepFailures is how often in turn a backend may fail to go on from a cursor. Then the next sweep begins anew: the backend may not know that
// cursor any more, and never will.
const sweepFailures = 3

// Sweep implements store.Sweeper: it raises the floor, if there is one, to the tokens of the records that may be forgotten, and then
// deletes them. One call reads up to 1,000 records, and the next continues where it ended.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	select {
	case s.sweeping <- struct{}{}:
		defer func() { <-s.sweeping }()
	case <-ctx.Done(): // another call may have longer
		return 0, ctx.Err()
	}
	forgotten, unreadable := 0, error(nil)
	for looked := 0; looked < sweepLook && forgotten < limit; {
		items, next, err := s.backend.Walk(ctx, s.cursor, sweepBatch)
		if err != nil {
			if s.failed++; s.failed == sweepFailures {
				s.cursor, s.failed = "", 0
			}
			return forgotten, errors.Join(err, unreadable)
		}
		s.failed = 0
		var batch []Item
		full := false // the limit is reached before the end of this page
		for _, item := range items {
			if item = s.checked(item.Name, item); item.Err != nil && item.Name != FloorName {
				unreadable = errors.Join(unreadable, item.Err)
			} else if item.Name != FloorName && s.forgettable(item) {
				if full = forgotten+len(batch) == limit; full {
					break
				}
				batch = append(batch, item)
			}
		}
		n, err := s.forget(ctx, batch)
		if !full || n == 0 || err != nil { // a record that cannot be deleted would keep all those after it
			s.cursor = next
		}
		if forgotten += n; err != nil {
			return forgotten, errors.Join(err, unreadable)
		}
		looked += max(1, len(items)) // a backend that returns nothing, again and again, is left at some time
		if next == "" {
			break
		}
	}
	return forgotten, unreadable
}

// forgettable reports whether a record may be forgotten: it was released, nobody holds the name, its Retain has
// passed, and the floor can be raised to its token.
func (s *Store) forgettable(item Item) bool {
	now := time.Now()
	if !s.cfg.Sequenced && item.Record.Token > tokens.Forgettable {
		return false
	}
	return item.Record.Released && s.sights.see(item).left(now) == 0 && !item.Record.Forget.IsZero() && !now.Before(item.Record.Forget)
}

// forget deletes items, after the floor has been raised to their tokens.
func (s *Store) forget(ctx context.Context, items []Item) (forgotten int, err error) {
	if len(items) == 0 {
		return 0, nil
	}
	floor := int64(0)
	changes := make([]Change, len(items))
	for i, item := range items {
		floor = max(floor, item.Record.Token)
		changes[i] = Change{Name: item.Name, Version: item.Version}
	}
	if !s.cfg.Sequenced {
		if err := s.raiseFloor(ctx, floor); err != nil {
			return 0, err
		}
	}
	results, err := s.change(ctx, changes)
	if err != nil {
		return 0, err
	}
	for i, r := range results {
		switch {
		case r.Err == nil:
			s.sights.see(Item{Name: items[i].Name})
			forgotten++
		case !errors.Is(r.Err, ErrConflict): // after a conflict the record is in use again
			err = errors.Join(err, r.Err)
		}
	}
	return forgotten, err
}
