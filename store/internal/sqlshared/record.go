package sqlshared

import (
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A Record is a row of a table of leases, as it was read. ShedLock can share the table: its statements change who has locked a row, and no other
// column of ours.
type Record struct {
	Holder   string // of the last grant by soloist, also after its release
	LockedBy string // of the last grant; it differs from Holder if that was not by soloist
	Released bool
	Token    int64
	Mark     int64
	Left     time.Duration // until the lease or the linger ends; 0 or less for a name that is free
	Age      time.Duration // since the last grant by soloist
	State    []byte        // nil unless it was read
}

// Foreign reports whether the last lease was acquired by statements that are not ours.
func (r *Record) Foreign() bool { return r.LockedBy != r.Holder }

// LiveFor reports whether holder has the lease.
func (r *Record) LiveFor(holder string) bool {
	return !r.Foreign() && !r.Released && r.Holder == holder && r.Left > 0
}

// Lease returns the record without its state, for a claim that is refused because of the lease.
func (r *Record) Lease(name string) store.Record {
	rec := store.Record{Name: name, Token: r.Token, Mark: r.Mark, Left: max(0, r.Left), Age: max(0, r.Age)}
	switch {
	case r.Foreign():
		if r.Left > 0 {
			rec.Holder = r.LockedBy // a lease that has ended counts as released
		}
	case !r.Released:
		rec.Holder = r.Holder
	}
	return rec
}

// Whole returns the record with its state.
func (r *Record) Whole(name string) store.Record {
	rec := r.Lease(name)
	rec.State = r.State
	return rec
}

// Grant returns the grant that the record is about.
func (r *Record) Grant() store.Grant {
	return store.Grant{Token: r.Token, Mark: r.Mark, State: r.State}
}

// Micros returns d in whole microseconds, rounded up: nothing ends before its time. d must be at least 0.
func Micros(d time.Duration) int64 {
	n := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		n++
	}
	return n
}
