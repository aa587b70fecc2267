package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// A conn is one connection with the statements prepared on it. It is for one goroutine at a time.
//
// The driver interrupts a statement when its context ends, and what a COMMIT has then done cannot be told. So all
// statements of a transaction run under background: a call heeds its context while it waits, for its turn and for the
// file's lock, and not while it has the lock.
type conn struct {
	sql   *sql.Conn
	stmts map[string]*sql.Stmt
}

var background = context.Background()

// close closes the connection. Its statements must be closed first: database/sql leaves them open, and SQLite then the
// files with their locks.
func (c *conn) close() {
	for _, s := range c.stmts {
		s.Close()
	}
	c.sql.Close()
}

func (c *conn) prepare(query string) (*sql.Stmt, error) {
	if s := c.stmts[query]; s != nil {
		return s, nil
	}
	s, err := c.sql.PrepareContext(background, query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

// exec runs a prepared statement and returns how many rows it changed.
func (c *conn) exec(query string, args ...any) (int64, error) {
	s, err := c.prepare(query)
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(background, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// row runs a prepared statement and scans its one row, or returns sql.ErrNoRows.
func (c *conn) row(query string, args []any, dest ...any) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	err = s.QueryRowContext(background, args...).Scan(dest...)
	if err != nil && code(err) == 0 && !errors.Is(err, sql.ErrNoRows) && !disconnected(err) {
		err = fmt.Errorf("%w: %w", errDamaged, err) // what is in the column was never put there
	}
	return err
}

// rows runs a prepared statement that only reads and calls each with every row. It ends early with ctx.
func (c *conn) rows(ctx context.Context, query string, args []any, each func(scan func(...any) error) error) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// record reads the record of a name, with its state if that is wanted, or returns nil if there is none. The error is a *CorruptError for one
// that no store has written.
func (c *conn) record(name string, state bool, now int64) (*record, error) {
	r := &record{name: name}
	err := c.row(sqlRecord, []any{name, state},
		&r.holder, &r.releasedAs, &r.token, &r.mark, &r.since, &r.until, &r.stateBytes, &r.state)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.released = r.releasedAs != 0
	return r, r.check(now)
}

// A meta is the row of the table meta.
type meta struct {
	clock, boot string
	wall, floor int64
}

func (c *conn) meta() (meta, error) {
	var m meta
	err := c.row(sqlMeta, nil, &m.clock, &m.boot, &m.wall, &m.floor)
	if errors.Is(err, sql.ErrNoRows) {
		err = errDamaged
	}
	return m, err
}
