package pgstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// errCannotListen says that notifications would not reach a connection like ours.
var errCannotListen = errors.New("notifications cannot be received")

const (
	listenTimeout = 5 * time.Second // for a statement of the connection that listens
	redialFirst   = 50 * time.Millisecond
	redialLast    = 5 * time.Second
)

// groupOf is the group of a row's name, one of 256, as notify.sql has it.
func groupOf(row string) int {
	sum := sha256.Sum256([]byte(row))
	return int(sum[0])
}

// A listener has one connection, on which it listens for the releases of a table for all watches of a handle. Who releases a name looks
// whether somebody holds the advisory lock of the name's group, shared, and leaves out the notification if not.
type listener struct {
	hub   *hub
	over  chan struct{} // closed when run has returned
	inbox atomic.Int64  // of its connection: what is handed over to this process is told there

	mu    sync.Mutex
	wants map[int]time.Time // groups that are to be held, and when they were last watched
	holds map[int]bool      // those that are
	asks  []chan error      // who waits for all wants to be held
	stir  context.CancelFunc
}

func newListener(h *hub) *listener {
	return &listener{hub: h, over: make(chan struct{}), wants: map[int]time.Time{}, holds: map[int]bool{}}
}

func (l *listener) ended() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// listenFor answers when releases of the rows will be told.
func (l *listener) listenFor(ctx context.Context, rows []string) error {
	ask := make(chan error, 1)
	l.mu.Lock()
	missing := false
	for _, row := range rows {
		g := groupOf(row)
		l.wants[g] = time.Now()
		missing = missing || !l.holds[g]
	}
	if missing {
		l.asks = append(l.asks, ask)
		if l.stir != nil {
			l.stir()
		}
	}
	l.mu.Unlock()
	if !missing {
		return nil
	}
	select {
	case err := <-ask:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-l.over:
		select {
		case err := <-ask:
			return err
		default:
			return store.ErrClosed
		}
	}
}

// answer answers those who wait.
func (l *listener) answer(err error) {
	l.mu.Lock()
	asks := l.asks
	l.asks = nil
	l.mu.Unlock()
	for _, ask := range asks {
		ask <- err
	}
}

// run listens until the handle is closed, or there has been nothing to listen for for a while, or it finds that it cannot.
func (l *listener) run() {
	defer close(l.over)
	ctx := l.hub.store.ctx
	delay := redialFirst
	for {
		conn, err := l.open(ctx)
		if err == nil {
			delay = redialFirst
			err = l.serve(ctx, conn)
			closing, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = conn.conn.Close(closing)
			cancel()
		}
		switch {
		case ctx.Err() != nil:
			l.finish(store.ErrClosed)
			return
		case err == nil || errors.Is(err, errCannotListen):
			l.finish(err)
			return
		}
		l.mu.Lock()
		clear(l.holds)
		l.mu.Unlock()
		l.answer(l.hub.store.explain(err, false))
		l.forget()
		if l.rests() {
			l.finish(store.ErrClosed)
			return
		}
		select {
		case <-time.After(delay):
			delay = min(2*delay, redialLast)
		case <-ctx.Done():
		}
	}
}

// finish lets the next watch begin with a new listener.
func (l *listener) finish(err error) {
	h := l.hub
	h.mu.Lock()
	if h.listen == l {
		h.listen = nil
	}
	h.mu.Unlock()
	l.answer(err)
}

// A link is a connection that listens.
type link struct {
	conn  *pgx.Conn
	base  int64  // the key of group 0
	inbox int64  // the key of this connection
	told  string // the channel of what is handed over
}

// open connects, listens and holds what is watched. From then on nothing is missed; what was before is not known, so all are woken.
func (l *listener) open(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*listenTimeout)
	defer cancel()
	conn, err := l.hub.store.dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &link{conn: conn}
	if err = c.begin(ctx, l.hub.store.tables.records); err == nil {
		err = l.hold(ctx, c)
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	l.inbox.Store(c.inbox)
	l.hub.wakeAll()
	return c, nil
}

// dial opens a connection like those of the pool, beside it.
func (s *Store) dial(ctx context.Context) (*pgx.Conn, error) {
	pool := s.pool.Config()
	cfg := pool.ConnConfig
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, cfg); err != nil {
			return nil, err
		}
	}
	// Waiting for a notification is interrupted by a deadline, after which the connection is as good as before.
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	return pgx.ConnectConfig(ctx, cfg)
}

// begin subscribes to the table's channel.
func (c *link) begin(ctx context.Context, table string) error {
	var oid int64
	var pid uint32
	var standby bool
	err := c.conn.QueryRow(ctx, "SELECT $1::text::regclass::oid::bigint, pg_backend_pid(), pg_is_in_recovery()", table).Scan(&oid, &pid, &standby)
	switch {
	case err != nil:
		return err
	case pid != c.conn.PgConn().PID():
		return fmt.Errorf("%w: there is a pooler between this process and the server", errCannotListen)
	case standby:
		return fmt.Errorf("%w: the server is a standby", errCannotListen)
	}
	c.base = groupBase + oid*256
	for alone := false; !alone; { // nobody else has drawn this inbox
		c.inbox = inboxBase + rand.Int64N(1<<40)
		if err := c.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1::bigint)", c.inbox).Scan(&alone); err != nil {
			return err
		}
	}
	c.told = fmt.Sprintf("soloist_%d_%d", oid, c.inbox)
	for _, sql := range []string{fmt.Sprintf("SET lock_timeout = %d", listenTimeout.Milliseconds()), "SET idle_session_timeout = 0",
		fmt.Sprintf("LISTEN soloist_%d", oid), "LISTEN " + c.told} {
		_, err := c.conn.Exec(ctx, sql)
		var pg *pgconn.PgError
		if err != nil && !(errors.As(err, &pg) && pg.Code == "42704") { // a setting that older servers do not have
			return err
		}
	}
	return nil
}

// hold takes the locks of the groups that are watched and not held yet.
func (l *listener) hold(ctx context.Context, c *link) error {
	l.mu.Lock()
	var keys []int64
	var missing []int
	for g := range l.wants {
		if !l.holds[g] {
			missing, keys = append(missing, g), append(keys, c.base+int64(g))
		}
	}
	l.mu.Unlock()
	if len(keys) > 0 {
		// It waits for releases that have seen nobody listening and have not been committed yet.
		if _, err := c.conn.Exec(ctx, "SELECT pg_advisory_lock_shared(k) FROM unnest($1::bigint[]) AS k ORDER BY k", keys); err != nil {
			return err
		}
		l.mu.Lock()
		for _, g := range missing {
			l.holds[g] = true
		}
		l.mu.Unlock()
	}
	return nil
}

// serve passes notifications on, and holds what is asked for. It answers nil when there is nothing to do any more.
func (l *listener) serve(ctx context.Context, c *link) error {
	next := time.Now().Add(l.hub.idle)
	for {
		waiting, stir := context.WithDeadline(ctx, next)
		l.mu.Lock()
		l.stir = stir
		asked := len(l.asks) > 0
		l.mu.Unlock()
		if asked {
			stir()
			if err := l.serveAsked(ctx, c); err != nil {
				return err
			}
			continue
		}
		n, err := c.conn.WaitForNotification(waiting)
		interrupted := waiting.Err() != nil
		stir()
		switch {
		case err == nil && n.Channel == c.told:
			l.hub.lines.heard(n.Payload)
		case err == nil:
			l.hub.wake(n.Payload)
		case ctx.Err() != nil:
			return ctx.Err()
		case !interrupted || c.conn.IsClosed():
			return err
		}
		if time.Now().After(next) {
			if l.rests() {
				return nil
			}
			if err := l.check(ctx, c); err != nil {
				return err
			}
			next = time.Now().Add(l.hub.idle)
		}
	}
}

func (l *listener) serveAsked(ctx context.Context, c *link) error {
	ctx, cancel := context.WithTimeout(ctx, 2*listenTimeout)
	defer cancel()
	l.mu.Lock()
	asks := l.asks
	l.asks = nil
	l.mu.Unlock()
	err := l.hold(ctx, c)
	for _, ask := range asks {
		if err == nil {
			ask <- nil
			continue
		}
		ask <- l.hub.store.explain(err, false)
	}
	return err
}

// rests says that nobody has watched anything for a while.
func (l *listener) rests() bool {
	if len(l.hub.watched()) > 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.asks) > 0 {
		return false
	}
	for _, last := range l.wants {
		if time.Since(last) < l.hub.idle {
			return false
		}
	}
	return true
}

// forget leaves out the groups that nobody has watched for a while, and answers those of them that are held.
func (l *listener) forget() []int {
	used := map[int]bool{}
	for _, row := range l.hub.watched() {
		used[groupOf(row)] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var held []int
	for g, last := range l.wants {
		if used[g] || time.Since(last) < l.hub.idle {
			continue
		}
		delete(l.wants, g)
		if l.holds[g] {
			delete(l.holds, g)
			held = append(held, g)
		}
	}
	return held
}

// check gives back what is not watched any more, and sees whether the connection is alive and the table is still the one it was.
func (l *listener) check(ctx context.Context, c *link) error {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	keys := []int64{}
	for _, g := range l.forget() {
		keys = append(keys, c.base+int64(g))
	}
	var oid int64
	err := c.conn.QueryRow(ctx, `SELECT $1::text::regclass::oid::bigint
		FROM (SELECT count(pg_advisory_unlock_shared(k)) FROM unnest($2::bigint[]) AS k) AS given`, l.hub.store.tables.records, keys).Scan(&oid)
	if err == nil && groupBase+oid*256 != c.base {
		err = errors.New("the table has been made anew")
	}
	return err
}
