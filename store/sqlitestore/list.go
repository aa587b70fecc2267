package sqlitestore

import (
	"context"
	"iter"

	"github.com/soloist-dev/soloist/store"
)

const listPage = 128 // records read at a time, each with a state of up to 64 KiB

// List is as in store.Store. It reads a page at a time and keeps nothing locked or open while it yields.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		first := prefix
		for {
			page, err := s.page(ctx, first, above(prefix))
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
			}
			if len(page) < listPage {
				return
			}
			first = page[len(page)-1].Name + "\x00" // the next text there is
		}
	}
}

func (s *Store) page(ctx context.Context, first, last string) ([]store.Record, error) {
	if err := s.alive(ctx); err != nil {
		return nil, s.at(err)
	}
	var page []store.Record
	err := s.view(ctx, func(f *file, c *conn) error {
		page = page[:0]
		now := f.clock.now()
		return c.rows(ctx, sqlList, []any{first, last, listPage}, func(scan func(...any) error) error {
			var r record
			err := scan(&r.name, &r.holder, &r.released, &r.token, &r.mark, &r.state, &r.since, &r.until)
			page = append(page, r.whole(now))
			return err
		})
	})
	return page, err
}

// above is the least text that is above every name that begins with prefix.
func above(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return "\xff" // no name has this byte
}
