package pgstore

import (
	"fmt"
	"math"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/internal/sqlshared"

	"github.com/jackc/pgx/v5"
)

// The rows that a server returns are checked field by field: the server, or something between it and us, may be broken, and others can change
// rows, by triggers too. An impossible value makes the outcome unknown: of one name, if it is clear which one, or else of the whole request.

// impossible returns the error for a reply that cannot be right.
func (s *Store) impossible(format string, args ...any) error {
	return store.AsUnknown(fmt.Errorf("%s: an answer that cannot be: %s", s.tables.cfg.Dialect, fmt.Sprintf(format, args...)))
}

// notWritten is what is wrong if a trigger has changed what a statement has written. It must not be believed that it is there.
const notWritten = "the row is not as it was written; look for a trigger that somebody has put on the table, which soloist doctor names"

// read returns the row of a reply to a question that must have one row.
func read[T any](s *Store, rows []T, err error) (row T, _ error) {
	if err == nil && len(rows) != 1 {
		err = fmt.Errorf("%s: an answer that cannot be: %d rows where one is due", s.tables.cfg.Dialect, len(rows))
	}
	if err != nil {
		return row, err
	}
	return rows[0], nil
}

// only is read for a statement that may have changed something.
func only[T any](s *Store, rows []T, err error) (row T, _ error) {
	switch {
	case err != nil:
		return row, err
	case len(rows) != 1:
		return row, s.impossible("%d rows where one is due", len(rows))
	}
	return rows[0], nil
}

// An answer is a row that acquire.sql, queue.sql or choose.sql returns.
type answer struct {
	name   string // of the row
	token  *int64 // of the grant
	record record
	asked  int64 // of queue.sql: the instant of the request
	wrong  error // why it cannot be right; nil if it can
}

func (s *Store) scanAnswer(rows pgx.Rows) (*answer, error) {
	var a answer
	var f fields
	err := rows.Scan(append([]any{&a.name, &a.token}, f.all()...)...)
	a.check(s, &f)
	return &a, err
}

func (s *Store) scanQueued(rows pgx.Rows) (*answer, error) {
	var a answer
	var f fields
	var asked *int64
	err := rows.Scan(append(append([]any{&a.name, &a.token}, f.all()...), &asked)...)
	if a.check(s, &f); a.wrong == nil && (asked == nil || *asked < 0) {
		a.wrong = s.impossible("about %s: the instant of the request is %s", shown(a.name), number(asked))
	}
	if asked != nil {
		a.asked = *asked
	}
	return &a, err
}

// fields are the columns of a record. Each of them may be NULL.
type fields struct {
	there, released        *bool
	holder, lockedBy       *string
	token, mark, left, age *int64
	state                  []byte
}

// all are those that the statements have in common, from whether there was a row on.
func (f *fields) all() []any {
	return append([]any{&f.there}, f.listed()...)
}

// listed are those of list.sql.
func (f *fields) listed() []any {
	return []any{&f.holder, &f.lockedBy, &f.released, &f.token, &f.mark, &f.left, &f.age, &f.state}
}

// record returns the record of the fields, or an error that describes what is wrong with them.
func (f *fields) record() (r record, wrong string) {
	switch {
	case f.there == nil, f.released == nil, f.holder == nil, f.lockedBy == nil, f.token == nil, f.mark == nil, f.left == nil, f.age == nil:
		return record{}, "a field is NULL"
	case *f.token < 0:
		return record{}, "its token is " + number(f.token)
	case len(f.state) > store.MaxState:
		return record{}, fmt.Sprintf("its state has %d bytes", len(f.state))
	}
	return record{there: *f.there, Record: sqlshared.Record{Holder: *f.holder, LockedBy: *f.lockedBy, Released: *f.released, Token: *f.token, Mark: *f.mark,
		Left: span(*f.left), Age: span(*f.age), State: f.state}}, ""
}

// check sets the record, and checks the grant if there is one.
func (a *answer) check(s *Store, f *fields) {
	if a.token == nil && f.there != nil && !*f.there && f.token == nil { // the name is not there, and neither is what its token must be above
		a.wrong = fmt.Errorf("%s: %s cannot be taken, for %s is empty: soloist doctor tells how to fill it", s.tables.cfg.Dialect, shown(a.name), s.tables.floor)
		return
	}
	r, wrong := f.record()
	switch a.record = r; {
	case wrong != "":
	case a.token != nil && *a.token == 0:
		wrong = "it is granted with token 0: " + notWritten
	case a.token != nil && *a.token <= r.Token:
		wrong = fmt.Sprintf("it is granted with token %d after %d", *a.token, r.Token)
	case a.token == nil && r.there && r.Token == 0 && !r.Foreign() && !r.Released:
		wrong = "it is held with token 0, or with one that no grant has: " + notWritten
	}
	if wrong != "" {
		a.wrong = s.impossible("about %s: %s", shown(a.name), wrong)
	}
}

func number(n *int64) string {
	if n == nil {
		return "NULL"
	}
	return fmt.Sprint(*n)
}

// span returns a number of microseconds as a duration, or the longest duration if it is more.
func span(micros int64) time.Duration {
	const most = int64(math.MaxInt64 / µs)
	return time.Duration(max(-most, min(most, micros))) * µs
}
