package mysqlstore

import (
	"database/sql"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A record is what a row was when it was read. nil is a name without a row.
type record struct {
	holder   string // of the last grant by soloist, also after its release
	lockedBy string // of the last grant; somebody else's when it is not holder
	released bool
	token    int64
	mark     int64
	left     time.Duration // not above 0 for a name that nobody has
	age      time.Duration
	state    []byte
	wrong    string // what no store would have written; "" is nothing

	taken bool          // by this call
	from  time.Duration // > 0 when the lease before this one was never released: how long before this grant it was granted
}

// foreign reports whether the last lease was taken by statements that are not ours.
func (r *record) foreign() bool { return r.lockedBy != r.holder }

func (r *record) liveFor(holder string) bool {
	return !r.foreign() && !r.released && r.holder == holder && r.left > 0
}

// lease is the record without its state, for those who are refused because of the lease.
func (r *record) lease(name string) store.Record {
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

func (r *record) grant() store.Grant {
	return store.Grant{Token: r.token, Mark: r.mark, State: r.state}
}

const µs = time.Microsecond

// micros rounds up: nothing ends before its time.
func micros(d time.Duration) int64 { return int64((d-1)/µs) + 1 }

// fromMicros is a duration in a column of them; what is longer than a duration can be, is as long as one can be.
func fromMicros(n int64) time.Duration {
	const most = int64(store.Forever / µs)
	return time.Duration(min(max(n, -most), most)) * µs
}

// scan reads the columns from holder to the bytes of the state, and those that follow.
func (r *record) scan(rows *sql.Rows, before []any, after ...any) error {
	var n row
	var holder, lockedBy sql.NullString
	err := rows.Scan(slices.Concat(before, []any{&holder, &lockedBy, &n.released, &n.token, &n.mark, &n.left, &n.age, &n.bytes}, after)...)
	r.holder, r.lockedBy = holder.String, lockedBy.String
	r.fill(n)
	return err
}
