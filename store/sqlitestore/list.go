package sqlitestore

import (
	"context"
	"iter"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

// List is as in store.Store. It reads a page at a time and keeps nothing locked or open while it yields.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

// ListAfter is as in store.Pager.
func (s *Store) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	page := func(first, last string) ([]listed, error) { return s.page(ctx, first, last) }
	return sqlshared.List(prefix, after, page, listed.whole, s.at)
}

// A listed is a record, and when it was read.
type listed struct {
	record
	read int64
}

func (r listed) whole() (store.Record, error) {
	if err := r.check(r.read); err != nil {
		return store.Record{Name: r.name}, err
	}
	return r.record.whole(r.read), nil
}

func (s *Store) page(ctx context.Context, first, last string) ([]listed, error) {
	if err := s.alive(ctx); err != nil {
		return nil, s.at(err)
	}
	var page []listed
	err := s.view(ctx, func(f *file, c *conn) error {
		page = page[:0]
		now := f.clock.now()
		return c.rows(ctx, sqlList, []any{first, last, sqlshared.PageSize}, func(scan func(...any) error) error {
			r := listed{read: now}
			err := scan(&r.name, &r.holder, &r.releasedAs, &r.token, &r.mark, &r.state, &r.since, &r.until)
			r.released = r.releasedAs != 0
			page = append(page, r)
			return err
		})
	})
	return page, err
}
