package pgstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Prepare sets up the configuration of a pool for New: its connections tell when the server has stopped waiting for a synchronous
// standby. A commit that nobody waited for any longer is in force on the primary and may be lost with it, and the server says so in a
// warning alone. And they do not compile statements to machine code (the server's setting jit), which takes seconds where the server's
// estimates are high, and gains nothing in statements that touch few rows. Handlers that are there already are called as before.
func Prepare(cfg *pgxpool.Config) {
	conn := &cfg.ConnConfig.Config
	after, on := conn.AfterConnect, conn.OnNotice
	conn.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		c.CustomData()[noticesKey] = &notices{}
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
