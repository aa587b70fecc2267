package sqlitestore

import (
	"errors"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A CorruptError reports that the record of a name was written by something else, so it cannot be used. It affects that name alone: nothing is
// granted, extended or released in it.
type CorruptError struct {
	Name string // of the record
	What string // is wrong with it
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("the record of %q is corrupt: %s; something else has written to the table records: "+
		"when nobody holds the name, delete its row", e.Name, e.What)
}

// corrupt reports whether err is about one record alone. If so, it sets *tell to err.
func corrupt(err error, tell *error) bool {
	var c *CorruptError
	if !errors.As(err, &c) {
		return false
	}
	*tell = err
	return true
}

// most is the longest that a record can be taken for, and as much again for clocks that were set.
const most = 2 * store.MaxTTL

// check looks whether the fields are such as a store writes.
func (r *record) check(now int64) error {
	is := func(format string, args ...any) error { return &CorruptError{r.name, fmt.Sprintf(format, args...)} }
	switch {
	case store.CheckName(r.name) != nil:
		return is("a name cannot be like that")
	case store.CheckName(r.holder) != nil:
		return is("its holder is %.60q", r.holder)
	case r.token <= 0:
		return is("its token is %d", r.token)
	case r.mark < 0:
		return is("its mark is %d", r.mark)
	case r.releasedAs != 0 && r.releasedAs != 1:
		return is("released is %d", r.releasedAs)
	case max(r.stateBytes, len(r.state)) > store.MaxState:
		return is("its state has %d bytes", max(r.stateBytes, len(r.state)))
	case now < r.until && r.until > after(now, most):
		return is("it is taken for %v", time.Duration(r.until-now).Round(time.Hour))
	}
	return nil
}
