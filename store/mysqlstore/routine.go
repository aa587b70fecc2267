package mysqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"strings"
)

// A routine is a change of one name as MariaDB prepares it: a compound statement with variables in place of the values. To parse the
// statements takes the server more than half of its time for them.
type routine struct {
	name string // contains a hash of text: what has this name in a session is this routine
	text string
}

// A routineCall is a call of a routine.
type routineCall struct {
	*routine
	values []string // literals
}

// routineOf returns the routine whose statements statements makes. The values are those of a row of columns, and the number of the call.
func (s *Store) routineOf(key string, columns []column, statements func(fill) []string) *routine {
	if r, ok := s.routines.Load(key); ok {
		return r.(*routine)
	}
	f := fill{"call": "c_call", "from": sqlFromOne, "on": "r.name = {c.row_name}", "c.i": "0"}
	var b strings.Builder
	b.WriteString("BEGIN NOT ATOMIC\nDECLARE c_call BIGINT DEFAULT ?;\n")
	for _, c := range columns {
		f["c."+c.name] = "c_" + c.name
		b.WriteString("DECLARE c_" + c.name + " " + variableTypes[c.kind] + " DEFAULT ?;\n")
	}
	b.WriteString(strings.Join(join(beginChange, statements(f), []string{sqlCommit}), ";\n"))
	b.WriteString(";\nEND")
	sum := sha256.Sum256([]byte(b.String()))
	r, _ := s.routines.LoadOrStore(key, &routine{"soloist_" + hex.EncodeToString(sum[:16]), b.String()})
	return r.(*routine)
}

// variableTypes are the types of the variables of a routine.
var variableTypes = [...]string{number: "BIGINT", binary: "VARBINARY(255)", blob: "MEDIUMBLOB"}

// on returns the call of r with a row's values.
func (r *routine) on(columns []column, row []cell, call string) *routineCall {
	values := []string{call}
	for i, c := range columns {
		values = append(values, row[i].literal(c.kind))
	}
	return &routineCall{r, values}
}

// errUnprepared is the error of a call of a routine that has not been carried out, because the server does not prepare it.
var errUnprepared = errors.New("the server does not prepare the statement")

// call carries out a routine. A session that does not know it yet prepares it: the first call on a connection is three requests.
func call[T any](ctx context.Context, s *Store, conn *sql.Conn, r *routineCall, scan scanner[T]) ([]T, error) {
	execute := "EXECUTE " + r.name + " USING " + strings.Join(r.values, ", ")
	all, err := collect(ctx, conn, execute, nil, scan)
	if code(err) != errUnknownStatement {
		return all, err
	}
	_, err = conn.ExecContext(ctx, "PREPARE "+r.name+" FROM CONVERT("+bytesLiteral(r.text)+" USING utf8mb4)")
	if err == nil {
		all, err = collect(ctx, conn, execute, nil, scan)
		if code(err) != errUnknownStatement {
			return all, err
		}
	}
	switch code(err) {
	case 0:
		return nil, err // from the connection or ctx
	case errUnknownStatement, errSyntax, errUnsupportedPrepared, errTooManyPrepared: // a proxy, the mode of the session, a limit
		s.unprepared.Store(true)
	}
	return nil, errUnprepared
}
