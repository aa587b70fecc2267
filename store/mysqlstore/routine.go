package mysqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"strings"
)

// A routine is a change of rows as MariaDB prepares it: a compound statement with variables in place of the values. To parse the
// statements takes the server a large part of its time for them: for one name more than half.
type routine struct {
	name  string // contains a hash of text: what has this name in a session is this routine
	text  string
	shape shape
}

// A routineCall is a call of a routine.
type routineCall struct {
	*routine
	values []string // literals
}

// routineOf returns the routine for rows of a shape, whose statements statements makes. Its values are the first number of the call, how many rows
// there are and the rows as JSON if they are many, and what they have in common.
func (s *Store) routineOf(key string, of shape, statements func(of func([]column) fill) []string) *routine {
	shaped := key + of.key()
	if r, ok := s.routines.Load(shaped); ok {
		return r.(*routine)
	}
	var b strings.Builder
	b.WriteString("BEGIN NOT ATOMIC\nDECLARE c_call BIGINT DEFAULT ?;\n")
	count := "1"
	if of.many {
		count = "c_count"
		b.WriteString("DECLARE c_count BIGINT DEFAULT ?;\nDECLARE c_rows LONGTEXT CHARACTER SET utf8mb4 DEFAULT ?;\n")
	}
	for i, c := range of.columns {
		if !of.own[i] {
			b.WriteString("DECLARE c_" + c.name + " " + variableTypes[c.kind] + " DEFAULT ?;\n")
		}
	}
	values := func(columns []column) fill {
		f := of.first(len(columns)).fill(func(i int) string { return "c_" + columns[i].name }, "c_rows", 0)
		f["call"] = "c_call"
		return f
	}
	all, short := statements(values), shortWays[key]
	f := values(of.columns)
	body := all[0] + "\n" + s.text(short.changed, f) + ";\nIF FOUND_ROWS() < " + count + " THEN\n" + strings.Join(all[1:], ";\n") + ";\nEND IF"
	if short.one != "" && !of.many && !s.cfg.ShedLock {
		f["general"], f["anew"] = body, strings.Join(beginChange, ";\n")
		body = s.text(short.one, f)
	}
	b.WriteString(strings.Join(join([]string{sqlClockCompound}, beginChange, []string{body, sqlCommit}), ";\n"))
	b.WriteString(";\nEND")
	sum := sha256.Sum256([]byte(b.String()))
	r, _ := s.routines.LoadOrStore(shaped, &routine{"soloist_" + hex.EncodeToString(sum[:16]), b.String(), of})
	return r.(*routine)
}

// A shortWay is how a routine does without some of its statements. The first of them changes rows; the others are for those that it has not changed.
type shortWay struct {
	changed string // what the first statement returns of the rows that it has changed
	one     string // for one name, if it is not shared with ShedLock
}

// shortWays are those of the routines, by what their statements make.
var shortWays = map[string]shortWay{
	acquires:   {sqlAcquireTaken, sqlAcquireUsual},
	sqlExtend:  {sqlLeaseChanged, ""},
	sqlRelease: {sqlLeaseChanged, sqlReleaseUsual},
}

// variableTypes are the types of the variables of a routine.
var variableTypes = [...]string{number: "BIGINT", binary: "VARBINARY(255)", blob: "MEDIUMBLOB"}

// on returns the call of r with the values of rows.
func (r *routine) on(rows [][]cell, call string) *routineCall {
	values := []string{call}
	if r.shape.many {
		values = append(values, intLiteral(int64(len(rows))), r.shape.json(rows))
	}
	for i, c := range r.shape.columns {
		if !r.shape.own[i] {
			values = append(values, rows[0][i].literal(c.kind))
		}
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
