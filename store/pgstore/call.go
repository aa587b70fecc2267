package pgstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// look reads rows. Its error is never ErrUnknown.
func look[T any](ctx context.Context, s *Store, sql string, args []any, scan func(pgx.Rows) (T, error)) ([]T, error) {
	return fetch(ctx, s, sql, args, scan, func(error) bool { return false })
}

// change runs a statement that may change rows. Its error is ErrUnknown when it may have done so.
func change[T any](ctx context.Context, s *Store, sql string, args []any, scan func(pgx.Rows) (T, error)) ([]T, error) {
	if err := s.fit(ctx); err != nil {
		return nil, err
	}
	return fetch(ctx, s, sql, args, scan, uncertain)
}

// fetch runs one statement, its own transaction, and again for as long as the server says that it had no effect and might have
// one the next time. One that may have had an effect is left to the caller: what another has done meanwhile may look as if it had none.
func fetch[T any](ctx context.Context, s *Store, sql string, args []any, scan func(pgx.Rows) (T, error),
	uncertain func(error) bool) ([]T, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx) // ended by Close too
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	for try := 0; ; try++ {
		rows, err := once(ctx, s, sql, args, scan)
		if err == nil {
			return rows, nil
		}
		if open := uncertain(err); open || !s.again(err) || pause(ctx, try) != nil {
			return nil, s.explain(err, open)
		}
	}
}

func once[T any](ctx context.Context, s *Store, sql string, args []any, scan func(pgx.Rows) (T, error)) ([]T, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, notSent{err}
	}
	defer conn.Release()
	if err := otherEncoding(conn.Conn().PgConn()); err != nil {
		return nil, notSent{err}
	}
	if s.unnamed.Load() {
		args = unprepared(args)
	}
	seen := noticesOf(conn.Conn().PgConn())
	seen.clear()
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		drop(conn, err)
		return nil, err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) { return scan(rows) })
	switch {
	case err != nil:
		drop(conn, err)
		return nil, err
	case seen.syncCancelled():
		return nil, errNotReplicated
	}
	return found, nil
}

// drop closes a connection to a server that must be looked for again: one that has become a standby, or is going down.
func drop(conn *pgxpool.Conn, err error) {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (onStandby(pg) || fatal(pg)) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Conn().Close(ctx)
	}
}

// again reports whether to run a statement again that has failed.
func (s *Store) again(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case codeSerialization, codeDeadlock:
		return true
	case codeUnsupported:
		return stalePlan(pg)
	case codeNoStatement, codeStatementExists:
		// The server that has the prepared statement is not the one that was asked to run it: a pooler is in between.
		s.unnamed.Store(true)
		return true
	}
	return false
}

// pause waits a little longer with each try, by chance so that those who collided do not meet again.
func pause(ctx context.Context, try int) error {
	longest := time.Millisecond << min(try, 5)
	t := time.NewTimer(rand.N(longest) + longest/8)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// uncertain reports whether a statement that failed with err may have taken effect.
func uncertain(err error) bool {
	var pg *pgconn.PgError
	var unsent notSent
	switch {
	case errors.Is(err, store.ErrUnknown):
		return true
	case errors.As(err, &unsent):
		return false
	case errors.As(err, &pg):
		// The server ends the transaction before it reports an error, unless it ends the session.
		// One without a code is not that of a server.
		return fatal(pg) || pg.Code == codeAmbiguous || pg.Code == "" || strings.HasPrefix(pg.Code, classConnection)
	}
	return !pgconn.SafeToRetry(err)
}

func fatal(pg *pgconn.PgError) bool {
	return pg.SeverityUnlocalized == "FATAL" || pg.SeverityUnlocalized == "PANIC" || pg.Severity == "FATAL" || pg.Severity == "PANIC"
}

// notSent is an error before anything was sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }
