package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Prepare sets up the configuration of a pool for New: its connections tell when the server has stopped waiting for a synchronous
// standby. A commit that nobody waited for any longer is in force on the primary and may be lost with it, and the server says so in a
// warning alone. Their names are in UTF-8, whatever the setting client_encoding of the role or the database. And they do not compile statements to machine code (the server's setting jit), which takes seconds where the server's
// estimates are high, and gains nothing in statements that touch few rows. Handlers that are there already are called as before.
func Prepare(cfg *pgxpool.Config) {
	conn := &cfg.ConnConfig.Config
	after, on := conn.AfterConnect, conn.OnNotice
	conn.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		c.CustomData()[noticesKey] = &notices{}
		if otherEncoding(c) != nil {
			if _, err := c.Exec(ctx, "SET client_encoding = 'UTF8'").ReadAll(); err != nil {
				return err
			}
		}
		if _, err := c.Exec(ctx, "SET jit = off").ReadAll(); err != nil && ctx.Err() != nil {
			return err // one that the server has refused is one that it does not need
		}
		if after != nil {
			return after(ctx, c)
		}
		return nil
	}
	conn.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) {
		noticesOf(c).saw(n)
		if on != nil {
			on(c, n)
		}
	}
}

// otherEncoding returns an error for a connection to a database in UTF-8 whose texts the server takes for those of another encoding: a name would be
// another one there than that of processes whose connections do not.
func otherEncoding(c *pgconn.PgConn) error {
	client := c.ParameterStatus("client_encoding")
	if c.ParameterStatus("server_encoding") != "UTF8" || client == "" || client == "UTF8" {
		return nil
	}
	return fmt.Errorf("%w: a connection has client_encoding %s, so that its names would be others than those of other processes: give the pool's configuration to "+
		"pgstore.Prepare, or ALTER ROLE … SET client_encoding = 'UTF8'", store.ErrUnusable, client)
}

const noticesKey = "github.com/soloist-dev/soloist/store/pgstore"

// notices are what a connection was told of in passing. A nil one, of a pool that was not prepared, sees nothing.
type notices struct{ cancelled atomic.Bool }

func noticesOf(c *pgconn.PgConn) *notices {
	n, _ := c.CustomData()[noticesKey].(*notices)
	return n
}

// saw looks for the warning of SyncRepWaitForLSN. Its text is in the server's language and its code, 01000, is that of any warning,
// so the place in the source tells it where there is one.
func (n *notices) saw(notice *pgconn.Notice) {
	if n == nil || notice.Code != "01000" {
		return
	}
	if notice.Routine == "SyncRepWaitForLSN" || strings.Contains(notice.Message, "synchronous replication") {
		n.cancelled.Store(true)
	}
}

func (n *notices) clear() {
	if n != nil {
		n.cancelled.Store(false)
	}
}

func (n *notices) syncCancelled() bool { return n != nil && n.cancelled.Load() }

// dontCancel keeps the connections of a pool from asking the server to cancel what they were at when they are closed, for which pgx dials
// once more.
func dontCancel(cfg *pgxpool.Config) {
	before := cfg.BeforeConnect
	cfg.BeforeConnect = func(ctx context.Context, conn *pgx.ConnConfig) error { // conn is this connection's own
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		var connected atomic.Bool
		dial, after := conn.DialFunc, conn.AfterConnect
		conn.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if connected.Load() {
				return nil, errNoCancel
			}
			return dial(ctx, network, addr)
		}
		conn.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error {
			connected.Store(true)
			return after(ctx, c)
		}
		return nil
	}
}

var errNoCancel = errors.New("nothing is cancelled at the server")
