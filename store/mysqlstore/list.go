package mysqlstore

import (
	"context"
	"database/sql"
	"iter"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

// List is as in store.Store. It reads a page at a time and keeps nothing locked or open while it yields.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

// ListAfter is as in store.Pager.
func (s *Store) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	page := func(first, last string) ([]listed, error) { return s.page(ctx, first, last) }
	return sqlshared.List(prefix, after, page, listed.read, func(err error) error { return err })
}

// A listed is a record with its name.
type listed struct {
	name string
	record
}

func (r listed) read() (store.Record, error) {
	if r.wrong != "" {
		return store.Record{Name: r.name}, &CorruptError{r.name, r.wrong}
	}
	return r.Whole(r.name), nil
}

func (s *Store) page(ctx context.Context, first, last string) ([]listed, error) {
	if err := s.alive(ctx); err != nil {
		return nil, s.explain(err)
	}
	f := fill{"first": bytesLiteral(first), "last": bytesLiteral(last), "count": intLiteral(sqlshared.PageSize)}
	statement := sqlList
	if s.cfg.ShedLock {
		statement = sqlListShared
		bareFirst, bareLast := bareRange(first, last)
		f["lock"], f["bare_first"], f["bare_last"] = bytesLiteral(shedlock.Lock), bytesLiteral(bareFirst), bytesLiteral(bareLast)
	}
	return look(ctx, s, s.text(statement, f), func(rows *sql.Rows) (listed, error) {
		var r listed
		err := r.scan(rows, []any{&r.name}, &r.State)
		return r, err
	})
}
