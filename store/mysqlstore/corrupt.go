package mysqlstore

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A CorruptError reports that the row of a name was written by something else, so it cannot be used. It affects that name alone: nothing is
// granted, extended or released in it.
type CorruptError struct {
	Name string // of the record
	What string // is wrong with it
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("mysqlstore: the record of %q is corrupt: %s; something else has written to the table: when nobody holds the name, delete its row",
		e.Name, e.What)
}

// A row is what stands in the columns of a record that hold numbers.
type row struct{ released, token, mark, left, age, bytes sql.NullInt64 }

// fill sets a record from a row. The record contains what a store cannot have written, if there is something; see sql/sound.sql.
func (r *record) fill(n row) {
	r.Released, r.Token, r.Mark = n.released.Int64 != 0, n.token.Int64, n.mark.Int64
	r.Left, r.Age = fromMicros(n.left.Int64), fromMicros(n.age.Int64)
	const most = 20 * 366 * 24 * time.Hour
	switch {
	case !n.released.Valid, !n.token.Valid, !n.mark.Valid:
		r.wrong = "it has a NULL"
	case !n.left.Valid, !n.age.Valid:
		r.wrong = "it has a time that is none"
	case r.Holder != "" && store.CheckName(r.Holder) != nil:
		r.wrong = fmt.Sprintf("its holder is %.60q", r.Holder)
	case r.Token < 0, r.Token == 0 && r.Holder != "":
		r.wrong = fmt.Sprintf("its token is %d", r.Token)
	case r.Mark < 0:
		r.wrong = fmt.Sprintf("its mark is %d", r.Mark)
	case n.released.Int64 < 0, n.released.Int64 > 1:
		r.wrong = fmt.Sprintf("released is %d", n.released.Int64)
	case n.bytes.Int64 > store.MaxState:
		r.wrong = fmt.Sprintf("its state has %d bytes", n.bytes.Int64)
	case !r.Foreign() && r.Left > most:
		r.wrong = fmt.Sprintf("it is taken for %v", r.Left.Round(time.Hour))
	}
}
