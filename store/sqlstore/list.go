package sqlstore

import (
	"context"
	"database/sql"
	"iter"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/shedlock"
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
		return nil, s.explain(err)
	}
	f := fill{"first": bytesLiteral(first), "last": bytesLiteral(last), "count": intLiteral(listPage)}
	statement := sqlList
	if s.cfg.ShedLock {
		statement = sqlListShared
		bareFirst, bareLast := bareRange(first, last)
		f["lock"], f["bare_first"], f["bare_last"] = bytesLiteral(shedlock.Lock), bytesLiteral(bareFirst), bytesLiteral(bareLast)
	}
	return look(ctx, s, s.text(statement, f), func(rows *sql.Rows) (store.Record, error) {
		var name string
		var r record
		err := r.scan(rows, []any{&name}, &r.state)
		return r.whole(name), err
	})
}
