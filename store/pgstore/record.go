package pgstore

import (
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"

	"github.com/jackc/pgx/v5"
)

// A record is what a row was when it was read.
type record struct {
	there            bool
	sqlshared.Record       // of a name without a row: the token is the floor
	known            bool  // the state was asked for
	wrong            error // it cannot be so
	unsure           error // why the grant that it shows could not be confirmed
}

// Lease returns the record without its state.
func (r *record) Lease(name string) store.Record {
	if !r.there {
		return store.Record{Name: name}
	}
	return r.Record.Lease(name)
}

// Whole returns the record with its state.
func (r *record) Whole(name string) store.Record {
	if !r.there {
		return store.Record{Name: name}
	}
	return r.Record.Whole(name)
}

// abandoned returns the ExpiredAge of a grant of the name: how long ago the last lease was granted, if it was never released; else 0.
func (r *record) abandoned() time.Duration {
	if !r.there || r.Released || r.Foreign() {
		return 0
	}
	return max(1, r.Age)
}

const µs = time.Microsecond

func scanInt(rows pgx.Rows) (n int64, err error) { return n, rows.Scan(&n) }

// row returns the name of a record's row, and the record's name for its column, nil where that is not kept. In a table shared with
// ShedLock the lock and the job of a name are its row.
func (s *Store) row(name string) (row string, record *string) {
	if !s.tables.cfg.ShedLock {
		return name, nil
	}
	row, _ = shedlock.Bare(name)
	return row, &name
}

// mayShare returns an error about a name whose row would be that of a record of soloist's own.
func (s *Store) mayShare(name string) error {
	if !s.tables.cfg.ShedLock {
		return nil
	}
	return shedlock.Check(name)
}
