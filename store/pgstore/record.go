package pgstore

import (
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/shedlock"

	"github.com/jackc/pgx/v5"
)

// A record is what a row was when it was read.
type record struct {
	there    bool
	holder   string // of the last grant by soloist, also after its release
	lockedBy string // of the last grant; somebody else's when it is not holder
	released bool
	token    int64 // of a name without a row: the floor
	mark     int64
	left     time.Duration // not above 0 for a name that nobody has
	age      time.Duration
	state    []byte // where it was asked for
	known    bool   // the state was asked for
	wrong    error  // it cannot be so
}

// foreign reports whether the last lease was taken by statements that are not ours.
func (r *record) foreign() bool { return r.there && r.lockedBy != r.holder }

func (r *record) liveFor(holder string) bool {
	return r.there && !r.foreign() && !r.released && r.holder == holder && r.left > 0
}

// lease is the record without its state, for those who are refused because of the lease.
func (r *record) lease(name string) store.Record {
	if !r.there {
		return store.Record{Name: name}
	}
	rec := store.Record{Name: name, Token: r.token, Mark: r.mark, Left: max(0, r.left), Age: max(0, r.age)}
	switch {
	case r.foreign():
		if r.left > 0 {
			rec.Holder = r.lockedBy // one that is over counts as released
		}
	case !r.released:
		rec.Holder = r.holder
	}
	return rec
}

func (r *record) whole(name string) store.Record {
	rec := r.lease(name)
	rec.State = r.state
	return rec
}

// abandoned is how long before a grant the lease before it was granted, if that was never released.
func (r *record) abandoned() time.Duration {
	if !r.there || r.released || r.foreign() {
		return 0
	}
	return max(1, r.age)
}

const µs = time.Microsecond

// micros rounds up: nothing ends before its time.
func micros(d time.Duration) int64 {
	n := int64(d / µs)
	if d%µs > 0 {
		n++
	}
	return n
}

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
