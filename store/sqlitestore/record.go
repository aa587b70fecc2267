package sqlitestore

import (
	"math"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A record is a row of the table records.
type record struct {
	name, holder string // holder is that of the last grant, also after its release
	released     bool
	releasedAs   int64 // as it stands in the row
	token, mark  int64
	stateBytes   int
	state        []byte // nil unless it was asked for
	since, until int64  // on the file's clock
}

func (r *record) liveFor(holder string, now int64) bool {
	return !r.released && r.holder == holder && now < r.until
}

// lease is the record without its state, for those who are refused because of the lease.
func (r *record) lease(now int64) store.Record {
	rec := store.Record{
		Name: r.name, Token: r.token, Mark: r.mark,
		Left: time.Duration(max(0, r.until-now)), Age: time.Duration(max(0, now-r.since)),
	}
	if !r.released {
		rec.Holder = r.holder
	}
	return rec
}

func (r *record) whole(now int64) store.Record {
	rec := r.lease(now)
	rec.State = r.state
	return rec
}

func (r *record) grant() store.Grant {
	return store.Grant{Token: r.token, Mark: r.mark, State: r.state}
}

// next is the grant that follows in a free record, at now and at wall, nanoseconds of the wall clock.
func (r *record) next(now, wall, above int64) (store.Grant, error) {
	last := max(r.token, above)
	if last == math.MaxInt64 {
		return store.Grant{}, store.ErrTokens
	}
	g := store.Grant{Token: max(last+1, wall/1e3), Mark: r.mark, State: r.state}
	if !r.released {
		g.ExpiredAge = max(1, time.Duration(now-r.since))
	}
	return g, nil
}

func (r *record) held(now int64) error { return &store.HeldError{Record: r.lease(now)} }

// after is now + d, or the end of time.
func after(now int64, d time.Duration) int64 {
	if now > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return now + int64(d)
}
