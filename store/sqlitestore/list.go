package sqlitestore

import (
	"context"
	"errors"
	"iter"

	"github.com/soloist-dev/soloist/store"
)

const listPage = 128 // records read at a time, each with a state of up to 64 KiB

// List is as in store.Store. It reads a page at a time and keeps nothing locked or open while it yields.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		first := prefix
		var bad []error
		for {
			page, err := s.page(ctx, first, above(prefix))
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			for _, r := range page {
				if err := r.check(r.read); err != nil {
					bad = append(bad, err)
				} else if !yield(r.whole(r.read), nil) {
					return
				}
			}
			if len(page) < listPage {
				if len(bad) > 0 {
					yield(store.Record{}, s.at(errors.Join(bad...)))
				}
				return
			}
			first = page[len(page)-1].name + "\x00" // the next text there is
		}
	}
}

// A listed is a record, and when it was read.
type listed struct {
	record
	read int64
}

func (s *Store) page(ctx context.Context, first, last string) ([]listed, error) {
	if err := s.alive(ctx); err != nil {
		return nil, s.at(err)
	}
	var page []listed
	err := s.view(ctx, func(f *file, c *conn) error {
		page = page[:0]
		now := f.clock.now()
		return c.rows(ctx, sqlList, []any{first, last, listPage}, func(scan func(...any) error) error {
			r := listed{read: now}
			err := scan(&r.name, &r.holder, &r.releasedAs, &r.token, &r.mark, &r.state, &r.since, &r.until)
			r.released = r.releasedAs != 0
			page = append(page, r)
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
