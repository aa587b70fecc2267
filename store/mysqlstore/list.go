package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"iter"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"
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
				if r.wrong != "" {
					bad = append(bad, &CorruptError{r.name, r.wrong})
				} else if !yield(r.whole(r.name), nil) {
					return
				}
			}
			if len(page) < listPage {
				if len(bad) > 0 {
					yield(store.Record{}, errors.Join(bad...))
				}
				return
			}
			first = page[len(page)-1].name + "\x00" // the next text there is
		}
	}
}

// A listed is a record with its name.
type listed struct {
	name string
	record
}

func (s *Store) page(ctx context.Context, first, last string) ([]listed, error) {
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
	return look(ctx, s, s.text(statement, f), func(rows *sql.Rows) (listed, error) {
		var r listed
		err := r.scan(rows, []any{&r.name}, &r.state)
		return r, err
	})
}
