package faults

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"
)

// A Driver fails steps of the connections of a database/sql driver. Each step can fail: to connect, to send a statement, to prepare one, to begin and to end a
// transaction, and to read. Of the rows of an answer the first, the second and the end are steps.
type Driver struct {
	mu    sync.Mutex
	left  int // steps until one fails; 0 is that none does
	way   Way
	fired bool
}

// A Way is how a step of a driver fails.
type Way struct {
	Name    string
	Err     error  // what the step returns
	Late    bool   // it has been carried out all the same
	Ends    bool   // the connection has ended
	Instead string // a statement that is carried out in place of a statement
	Nulls   bool   // a row that is read has nothing in it; other steps go well
	Sends   bool   // reading goes well: it is what the server answers to a statement, or instead of it
}

// Fault returns the fault that a step fails in a way.
func (d *Driver) Fault(w Way) Fault {
	return Fault{Name: w.Name, Arm: func(k int) { d.arm(k, w) }, Off: d.off}
}

func (d *Driver) arm(k int, w Way) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.way, d.fired = k, w, false
}

func (d *Driver) off() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = 0
	return d.fired
}

// step returns how this step fails, or nil.
func (d *Driver) step(reads bool) *Way {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 || d.way.Nulls && !reads || d.way.Sends && reads {
		return nil
	}
	if d.left--; d.left > 0 {
		return nil
	}
	d.fired = true
	w := d.way
	return &w
}

// Of returns a connector whose connections are those of another.
func (d *Driver) Of(c driver.Connector) driver.Connector { return &connector{c, d} }

type connector struct {
	driver.Connector
	d *Driver
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if w := c.d.step(false); w != nil {
		return nil, w.Err
	}
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: inner, d: c.d}, nil
}

// A conn is a connection that can end.
type conn struct {
	driver.Conn
	d    *Driver
	over bool
}

// do makes a step.
func (c *conn) do(ctx context.Context, step func() error) error {
	if c.over {
		return driver.ErrBadConn
	}
	w := c.d.step(false)
	if w == nil {
		return step()
	}
	if w.Late {
		if err := step(); err != nil {
			return err
		}
	}
	if w.Instead != "" {
		if _, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, w.Instead, nil); err != nil {
			return err
		}
	}
	c.end(w)
	return w.Err
}

func (c *conn) end(w *Way) {
	if w.Ends {
		c.over = true
		_ = c.Conn.Close()
	}
}

func (c *conn) Close() error {
	if c.over {
		return nil
	}
	return c.Conn.Close()
}

func (c *conn) IsValid() bool {
	v, is := c.Conn.(driver.Validator)
	return !c.over && (!is || v.IsValid())
}

func (c *conn) ResetSession(ctx context.Context) error {
	r, is := c.Conn.(driver.SessionResetter)
	switch {
	case c.over:
		return driver.ErrBadConn
	case !is:
		return nil
	}
	return r.ResetSession(ctx)
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if k, is := c.Conn.(driver.NamedValueChecker); is {
		return k.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Result, err error) {
	err = c.do(ctx, func() (err error) {
		r, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
		return err
	})
	return r, err
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.rows(ctx, func() (driver.Rows, error) { return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args) })
}

// rows asks for rows.
func (c *conn) rows(ctx context.Context, ask func() (driver.Rows, error)) (driver.Rows, error) {
	var r driver.Rows
	err := c.do(ctx, func() (err error) {
		r, err = ask()
		return err
	})
	switch {
	case err == nil:
		return &rows{Rows: r, c: c}, nil
	case r != nil && !c.over:
		_ = r.Close()
	}
	return nil, err
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	var s driver.Stmt
	err := c.do(ctx, func() (err error) {
		s, err = c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &stmt{s, c}, nil
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	var t driver.Tx
	err := c.do(ctx, func() (err error) {
		t, err = c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
		return err
	})
	return &tx{t, c}, err
}

type tx struct {
	driver.Tx
	c *conn
}

func (t *tx) Commit() error {
	done := false
	err := t.c.do(context.Background(), func() error {
		done = true
		return t.Tx.Commit()
	})
	if !done && !t.c.over { // a server that refuses a commit has rolled back
		_ = t.Tx.Rollback()
	}
	return err
}

func (t *tx) Rollback() error { return t.c.do(context.Background(), t.Tx.Rollback) }

type stmt struct {
	driver.Stmt
	c *conn
}

func (s *stmt) Close() error {
	if s.c.over {
		return nil
	}
	return s.Stmt.Close()
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (r driver.Result, err error) {
	err = s.c.do(ctx, func() (err error) {
		r, err = s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
	return r, err
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.c.rows(ctx, func() (driver.Rows, error) { return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) })
}

// rows are what is read.
type rows struct {
	driver.Rows
	c *conn
	n int
}

func (r *rows) Next(dest []driver.Value) error {
	if r.c.over {
		return driver.ErrBadConn
	}
	err := r.Rows.Next(dest)
	if r.n++; r.n > 2 && err == nil {
		return nil
	}
	w := r.c.d.step(true)
	switch {
	case w == nil:
		return err
	case w.Nulls:
		clear(dest)
		return err
	}
	r.c.end(w)
	return w.Err
}

func (r *rows) HasNextResultSet() bool {
	more, is := r.Rows.(driver.RowsNextResultSet)
	return is && !r.c.over && more.HasNextResultSet()
}

func (r *rows) NextResultSet() error {
	if r.c.over {
		return errors.New("the connection has ended")
	}
	if w := r.c.d.step(true); w != nil && !w.Nulls {
		r.c.end(w)
		return w.Err
	}
	return r.Rows.(driver.RowsNextResultSet).NextResultSet()
}

func (r *rows) Close() error {
	if r.c.over {
		return nil
	}
	return r.Rows.Close()
}
