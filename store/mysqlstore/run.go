package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A carrier is how several statements come to the server.
type carrier int

const (
	compound carrier = iota // as one statement of MariaDB's: BEGIN NOT ATOMIC … END
	multi                   // as one request, where the connection has been opened with multiStatements
	steps                   // one by one
)

func (c carrier) String() string {
	return [...]string{"one compound statement", "one request of several statements (multiStatements)", "several requests, one statement each"}[c]
}

// A server is what was found out about the server and the connections to it, when it was first asked.
type server struct {
	version    string
	mariadb    bool
	carrier    carrier
	autocommit bool
	packet     int // max_allowed_packet, in bytes
}

// What follows in a session does not depend on its completion_type.
const (
	sqlRollback = "ROLLBACK AND NO CHAIN NO RELEASE"
	sqlCommit   = "COMMIT AND NO CHAIN NO RELEASE"
)

var (
	// Whatever was left open on a connection is given up and not committed. At READ COMMITTED nothing locks what it only reads, and
	// each statement sees what has been committed before it began; the setting is for the next transaction alone.
	beginChange = []string{sqlRollback, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE", "START TRANSACTION"}
	beginLook   = []string{sqlRollback, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"}
)

// sqlClock is an error (errClockSet) in a session whose clock has been set (SET timestamp): leases would be given by it, and end early or late. SYSDATE stays the server's. A DO
// would not do: MariaDB keeps its errors to itself.
const sqlClock = "SET @soloist_clock = IF(" + sqlClockSet + ", (" + sqlTwoRows + "), 0)"

// sqlClockCompound is sqlClock where there can be an IF: it takes the server a fifth of the time, for it makes no table for two rows.
const sqlClockCompound = "IF " + sqlClockSet + " THEN SET @soloist_clock = (" + sqlTwoRows + "); END IF"

const (
	sqlClockSet = "ABS(TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))) > 1000000"
	sqlTwoRows  = "SELECT 1 UNION SELECT 2"
)

// idle is after how many seconds the server gives up a transaction of several requests whose next one does not come: the process has stopped, or the network. Until then claims wait
// for what it has locked.
const idle = "10"

// A transaction of several requests begins with limitIdle, which looks at the clock by the way, and ends with restoreIdle: the session may be another's next.
const (
	limitIdle   = sqlClock + ", @soloist_idle = @@wait_timeout, wait_timeout = LEAST(@@wait_timeout, " + idle + ")"
	restoreIdle = "SET wait_timeout = @soloist_idle"
)

// A scanner reads a row.
type scanner[T any] func(*sql.Rows) (T, error)

// change runs statements in one transaction and returns the rows of those that have some. An error is ErrUnknown unless the transaction
// surely has not been committed.
func change[T any](ctx context.Context, s *Store, statements []string, scan scanner[T]) ([]T, error) {
	return run(ctx, s, nil, true, func(sv *server) []string {
		return sv.transaction(statements)
	}, scan)
}

// changeRows is change for rows of columns, one for each name. statements makes the statements; of gives it what to put in about the first of the
// columns. key identifies what statements makes.
func changeRows[T any](ctx context.Context, s *Store, key string, columns []column, rows [][]cell, statements func(of func([]column) fill) []string,
	scan scanner[T]) ([]T, error) {
	id := newCall()
	r := s.routineOf(key, shapeOf(columns, rows), statements).on(rows, id)
	return run(ctx, s, r, true, func(sv *server) []string {
		return sv.transaction(statements(func(columns []column) fill {
			f := batch(columns, rows, 0)
			f["call"] = id
			return f
		}))
	}, scan)
}

// transaction puts statements between the beginning and the end of a transaction.
func (sv *server) transaction(statements []string) []string {
	begin := sv.clock()
	if sv.carrier == steps {
		begin = limitIdle
	}
	return join([]string{begin}, beginChange, statements, []string{sqlCommit})
}

// clock returns the statement that looks at the clock of the session.
func (sv *server) clock() string {
	if sv.carrier == compound {
		return sqlClockCompound
	}
	return sqlClock
}

// look runs a statement that only reads.
func look[T any](ctx context.Context, s *Store, statement string, scan scanner[T]) ([]T, error) {
	return run(ctx, s, nil, false, func(sv *server) []string {
		if sv.carrier == steps && sv.autocommit {
			return []string{statement}
		}
		return join([]string{sv.clock()}, beginLook, []string{statement}, []string{sqlRollback})
	}, scan)
}

func join(parts ...[]string) (all []string) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// The server rolls back one of two transactions that wait for each other, and one that a cluster cannot certify: neither has taken effect.
const (
	conflicts     = 20
	conflictPause = 2 * time.Millisecond
)

// run runs statements on one connection. MariaDB is sent r instead, if it is not nil.
func run[T any](ctx context.Context, s *Store, r *routineCall, changes bool, statements func(*server) []string, scan scanner[T]) ([]T, error) {
	dead := 0
	for try := 1; ; try++ {
		if err := s.alive(ctx); err != nil {
			return nil, s.explain(err)
		}
		rows, sent, err := attempt(ctx, s, r, changes, statements, scan)
		if try == 1 && err != nil {
			dead = s.mayBeDead()
		}
		switch {
		case err == nil:
			return rows, nil
		case unfit(err) && try <= dead:
			continue
		case conflict(err) && try <= conflicts:
			if pause(ctx, rand.N(time.Duration(try)*conflictPause)) {
				continue
			}
		}
		err = s.explain(err)
		if changes && sent && !refused(err) {
			err = store.AsUnknown(err)
		}
		return nil, err
	}
}

// transact runs do between the beginning and the end of a transaction, again when it conflicts with others.
func (s *Store) transact(ctx context.Context, do func(*sql.Conn) error) error {
	dead := 0
	for try := 1; ; try++ {
		err := s.transaction(ctx, do)
		if try == 1 && err != nil {
			dead = s.mayBeDead()
		}
		again := unfit(err) && try <= dead
		if conflict(err) && try <= conflicts {
			again = pause(ctx, rand.N(time.Duration(try)*conflictPause))
		}
		if !again {
			return s.explain(err)
		}
	}
}

func (s *Store) transaction(ctx context.Context, do func(*sql.Conn) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer abandon(conn) // what is set for the session ends with it, and what an error has left open
	fit := func(conn *sql.Conn) error { return s.fit(ctx, conn) }
	for _, step := range []func(*sql.Conn) error{fit, execs(ctx, limitIdle), execs(ctx, beginChange...), do, execs(ctx, sqlCommit)} {
		if err := step(conn); err != nil {
			return err
		}
	}
	return nil
}

func execs(ctx context.Context, statements ...string) func(*sql.Conn) error {
	return func(conn *sql.Conn) error {
		for _, statement := range statements {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}
}

// unfit reports whether nothing has happened because of the connection alone, which is closed: it was found dead before anything was sent, or the clock of its session has been set.
func unfit(err error) bool { return errors.Is(err, driver.ErrBadConn) || code(err) == errClockSet }

// mayBeDead is how many more connections one call may find unfit, such as after a restart of the server: those of the pool, and one. A new one is not made again and again: with rejectReadOnly
// the driver takes each for dead while the server takes no writes.
func (s *Store) mayBeDead() int { return s.db.Stats().OpenConnections + 1 }

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt runs the statements once, on one connection. sent reports whether the server may have received some of them.
func attempt[T any](ctx context.Context, s *Store, r *routineCall, changes bool, statements func(*server) []string, scan scanner[T]) (
	all []T, sent bool, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, false, err
	}
	defer conn.Close()
	sv, err := s.serverAt(ctx, conn)
	if err != nil {
		abandon(conn)
		return nil, false, err
	}
	if changes {
		if err := s.fit(ctx, conn); err != nil {
			undo(conn, err)
			return nil, false, err
		}
	}
	if r != nil && sv.carrier == compound && !s.unprepared.Load() {
		if all, err = call(ctx, s, conn, r, scan); !errors.Is(err, errUnprepared) {
			if err != nil {
				undo(conn, err)
			}
			return all, true, err
		}
	}
	requests := statements(sv)
	switch sv.carrier {
	case compound:
		requests = []string{"BEGIN NOT ATOMIC\n" + strings.Join(requests, ";\n") + ";\nEND"}
	case multi:
		requests = []string{strings.Join(requests, ";\n")}
	}
	if requests[0] == limitIdle {
		defer leave(conn, restoreIdle)
	}
	for _, request := range requests {
		all, err = collect(ctx, conn, request, all, scan)
		if err != nil {
			undo(conn, err)
			return nil, true, err
		}
	}
	return all, true, nil
}

// collect sends a request and reads all of its results, without which it is not known whether it has been carried out to its end.
func collect[T any](ctx context.Context, conn *sql.Conn, request string, all []T, scan scanner[T]) ([]T, error) {
	rows, err := conn.QueryContext(ctx, request)
	if err != nil {
		return all, err
	}
	defer rows.Close()
	for {
		for rows.Next() {
			one, err := scan(rows)
			if err != nil {
				return all, err
			}
			all = append(all, one)
		}
		if !rows.NextResultSet() {
			return all, rows.Err()
		}
	}
}

// undo ends the transaction that an error has left open, so that the one that gets the connection next does not commit it.
func undo(conn *sql.Conn, err error) {
	if code(err) == errClockSet {
		abandon(conn)
		return
	}
	leave(conn, sqlRollback)
}

// leave leaves a session as a statement makes it, or ends it.
func leave(conn *sql.Conn, statement string) {
	ctx, cancel := context.WithTimeout(context.Background(), undoing)
	defer cancel()
	if _, err := conn.ExecContext(ctx, statement); err != nil {
		abandon(conn)
	}
}

const undoing = 2 * time.Second

// abandon has the pool close the connection instead of keeping it.
func abandon(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

// serverAt returns what is known of the server, and asks it if that is nothing yet.
func (s *Store) serverAt(ctx context.Context, conn *sql.Conn) (*server, error) {
	s.mu.Lock()
	sv := s.server
	s.mu.Unlock()
	if sv != nil {
		return sv, nil
	}
	sv = &server{}
	if err := conn.QueryRowContext(ctx, "SELECT VERSION(), @@autocommit, @@max_allowed_packet").Scan(
		&sv.version, &sv.autocommit, &sv.packet); err != nil {
		return nil, err
	}
	sv.mariadb = s.cfg.Dialect == MariaDB || s.cfg.Dialect == Detect && strings.Contains(strings.ToLower(sv.version), "mariadb")
	switch _, err := conn.ExecContext(ctx, "DO 0; DO 0"); {
	case sv.mariadb && (err == nil || code(err) == errSyntax):
	case err == nil:
		sv.carrier = multi
	case code(err) == errSyntax:
		sv.carrier = steps
	default:
		return nil, err
	}
	s.mu.Lock()
	s.server = sv
	s.mu.Unlock()
	return sv, nil
}
