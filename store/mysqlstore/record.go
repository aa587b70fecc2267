package mysqlstore

import (
	"database/sql"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"
)

// A record is what a row was when it was read. nil is a name without a row.
type record struct {
	sqlshared.Record
	wrong string // what no store would have written; "" is nothing

	taken   bool          // by this call
	altered bool          // its token is not one that a call gives
	from    time.Duration // > 0 when the lease before this one was never released: how long before this grant it was granted
}

const µs = time.Microsecond

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
	r.Holder, r.LockedBy = holder.String, lockedBy.String
	r.fill(n)
	return err
}
