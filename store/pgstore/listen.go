package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

// errCannotListen reports that notifications would not reach a connection like ours.
var errCannotListen = errors.New("notifications cannot be received")

// errGroupTaken reports that another session holds the lock of a name's group exclusively, so releases of its names may not notify.
var errGroupTaken = errors.New("somebody has taken the advisory lock that says who listens")

// errRested reports that a listener ends, because nothing was watched when it looked.
var errRested = errors.New("the listener ends")

const (
	listenTimeout = 5 * time.Second        // for a statement of the connection that listens
	groupPatience = 500 * time.Millisecond // for the lock of a group: releases under way have it until their commits
	redialFirst   = 50 * time.Millisecond
	redialLast    = 5 * time.Second
)

// A listener listens on one connection for the releases of a table, for all watches of a handle. It holds the advisory locks of the groups of
// the watched names, shared. A release sends a notification only if the lock of its name's group is held. Every role that may connect can take
// such a lock exclusively; then names of the group are polled instead. The locks save notifications, and no promise depends on them.
type listener struct {
	hub   *hub
	over  chan struct{} // closed when run has returned
	inbox atomic.Int64  // the number of its connection's channel, on which hand-overs to this process are notified

	mu     sync.Mutex
	secret secret               // of the store; nil before the first connection
	wants  map[string]time.Time // rows whose groups are to be held, and when they were last watched
	holds  map[int]bool         // groups that are held
	taken  map[int]time.Time    // groups that somebody else had taken, and when that was found
	asks   []ask
	stir   context.CancelFunc
	ends   error // why it ends; it does nothing for watches any more
}

// An ask is a watch that waits until the groups of its rows are held.
type ask struct {
	rows   []string
	answer chan error
}

func newListener(h *hub) *listener {
	return &listener{hub: h, over: make(chan struct{}), wants: map[string]time.Time{}, holds: map[int]bool{}, taken: map[int]time.Time{}}
}

func (l *listener) ended() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// listenFor returns when releases of the rows will notify, or errGroupTaken if they may not, or errRested.
func (l *listener) listenFor(ctx context.Context, rows []string) error {
	answer := make(chan error, 1)
	l.mu.Lock()
	if err := l.ends; err != nil {
		l.mu.Unlock()
		return err
	}
	for _, row := range rows {
		l.wants[row] = time.Now()
	}
	held := l.held(rows)
	if !held {
		l.asks = append(l.asks, ask{rows, answer})
		if l.stir != nil {
			l.stir()
		}
	}
	l.mu.Unlock()
	if held {
		return nil
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// held reports whether the groups of rows are. l.mu is locked.
func (l *listener) held(rows []string) bool {
	for _, row := range rows {
		if l.secret == nil || !l.holds[l.secret.group(row)] {
			return false
		}
	}
	return true
}

// answer ends the waits of asks.
func (l *listener) answer(err error) {
	l.mu.Lock()
	asks := l.asks
	l.asks = nil
	l.mu.Unlock()
	for _, a := range asks {
		a.answer <- err
	}
}

// run listens until the handle is closed, until nothing has been watched for some time, or until it finds that it cannot listen.
func (l *listener) run() {
	defer close(l.over)
	ctx := l.hub.store.ctx
	delay := redialFirst
	for again := false; ; {
		conn, err := l.open(ctx)
		if err == nil {
			if again { // those who watch with the first connection know by themselves
				l.hub.lose(l.unheld())
			}
			delay, again = redialFirst, true
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
			if again && err != nil {
				l.hub.lose(l.unheld())
			}
			l.finish(err)
			return
		}
		l.mu.Lock()
		clear(l.holds)
		clear(l.taken)
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

// finish lets the next watch begin with a new listener, and tells all that rely on this one why it ends.
func (l *listener) finish(err error) {
	l.mu.Lock()
	if l.ends == nil {
		l.ends = err
	}
	l.mu.Unlock()
	l.hub.drop(l)
	l.answer(err)
}

// A link is a connection that listens.
type link struct {
	conn   *pgx.Conn
	secret secret
	base   int64  // the key of group 0
	inbox  int64  // the key of this connection
	told   string // the channel on which hand-overs are notified
}

// open connects, listens and takes the locks for what is watched. No release is missed after that; earlier ones may be, so all watches are woken.
func (l *listener) open(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*listenTimeout)
	defer cancel()
	conn, err := l.hub.store.dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &link{conn: conn}
	if err = c.begin(ctx, l.hub.store.sql.listen); err == nil {
		l.mu.Lock()
		l.secret = c.secret
		l.mu.Unlock()
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
	cfg.OnNotification = nil // a handler of the caller's would take what we wait for
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := prepare(ctx, pool, conn); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

var errRefused = errors.New("the pool's PrepareConn or BeforeAcquire refuses the connection that listens")

// prepare does with a connection what the pool does with a new one before it is used.
func prepare(ctx context.Context, pool *pgxpool.Config, conn *pgx.Conn) error {
	if pool.AfterConnect != nil {
		if err := pool.AfterConnect(ctx, conn); err != nil {
			return err
		}
	}
	fits, err := true, error(nil)
	old := pool.BeforeAcquire //nolint:staticcheck // callers may set it as long as the pool calls it
	switch {
	case pool.PrepareConn != nil:
		fits, err = pool.PrepareConn(ctx, conn)
	case old != nil:
		fits = old(ctx, conn)
	}
	if err == nil && !fits {
		return errRefused
	}
	return err
}

// begin subscribes to the table's channel.
func (c *link) begin(ctx context.Context, sql string) error {
	var oid int64
	var pid uint32
	var standby bool
	err := c.conn.QueryRow(ctx, sql).Scan(&oid, &pid, &standby, &c.secret)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: the table with the store's version and secret is empty: run soloist migrate up", store.ErrSchema)
	case err != nil:
		return err
	case pid != c.conn.PgConn().PID():
		return fmt.Errorf("%w: there is a pooler between this process and the server", errCannotListen)
	case standby:
		return fmt.Errorf("%w: the server is a standby", errCannotListen)
	}
	c.base = groupBase + oid*256
	for alone := false; !alone; { // until the number is not that of another connection
		c.inbox = inboxBase + rand.Int64N(1<<40)
		if err := c.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1::bigint)", c.inbox).Scan(&alone); err != nil {
			return err
		}
	}
	c.told = fmt.Sprintf("soloist_%d_%d", oid, c.inbox)
	for _, sql := range []string{fmt.Sprintf("SET lock_timeout = %d", groupPatience.Milliseconds()), "SET idle_session_timeout = 0",
		fmt.Sprintf("LISTEN soloist_%d", oid), "LISTEN " + c.told} {
		_, err := c.conn.Exec(ctx, sql)
		var pg *pgconn.PgError
		if err != nil && !(errors.As(err, &pg) && pg.Code == "42704") { // a setting that older servers do not have
			return err
		}
	}
	return nil
}

// hold takes the locks of the groups that are watched and not held yet, except those that others hold exclusively.
func (l *listener) hold(ctx context.Context, c *link) error {
	missing := l.missing()
	if len(missing) == 0 {
		return nil
	}
	keys := make([]int64, len(missing))
	for i, g := range missing {
		keys[i] = c.base + int64(g)
	}
	rows, err := c.conn.Query(ctx, "SELECT pg_try_advisory_lock_shared(k) FROM unnest($1::bigint[]) WITH ORDINALITY AS g (k, n) ORDER BY n", keys)
	if err != nil {
		return err
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[bool])
	if err != nil {
		return err
	}
	start := time.Now()
	for i, g := range missing {
		if !got[i] && time.Since(start) < groupPatience {
			// It waits for releases that have seen nobody listening and have not been committed yet.
			_, err := c.conn.Exec(ctx, "SELECT pg_advisory_lock_shared($1::bigint)", keys[i])
			var pg *pgconn.PgError
			if err != nil && !(errors.As(err, &pg) && pg.Code == codeLockTimeout) {
				return err
			}
			got[i] = err == nil
		}
		l.mu.Lock()
		if got[i] {
			l.holds[g] = true
		} else {
			l.taken[g] = time.Now()
		}
		l.mu.Unlock()
	}
	return nil
}

// unheld returns the rows that are watched and whose groups are not held.
func (l *listener) unheld() []string {
	rows := l.hub.watched()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(rows, func(row string) bool { return l.held([]string{row}) })
}

// missing returns the groups that are watched, not held, and have not just been found taken by somebody else.
func (l *listener) missing() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	missing := map[int]bool{}
	for row := range l.wants {
		g := l.secret.group(row)
		if since, taken := l.taken[g]; !l.holds[g] && (!taken || time.Since(since) > l.hub.idle) {
			missing[g] = true
		}
	}
	return slices.Sorted(maps.Keys(missing))
}

// serve passes notifications on, and takes the locks that are asked for. It returns nil when nothing is watched any more.
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
		case err == nil:
			l.heard(c, n)
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

// heard passes a notification on if it was made with the secret of the tables, and not by another role that may connect.
func (l *listener) heard(c *link, n *pgconn.Notification) {
	w, ok := c.secret.open(n.Payload)
	switch {
	case !ok:
	case n.Channel == c.told:
		l.hub.lines.heard(w)
	default:
		l.hub.ended(w)
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
	for _, a := range asks {
		a.answer <- l.outcome(a, err)
	}
	return err
}

// outcome returns an ask after hold.
func (l *listener) outcome(a ask, err error) error {
	if err != nil {
		return l.hub.store.explain(err, false)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held(a.rows) {
		return errGroupTaken
	}
	return nil
}

// rests reports whether nobody has watched anything for a while. Then the listener has to end: a watch that begins from now on needs another one.
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
	l.ends = errRested
	return true
}

// forget removes the rows that have not been watched for some time, and returns the groups that are held for no row any more.
func (l *listener) forget() []int {
	watched := l.hub.watched()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, row := range watched {
		if _, wanted := l.wants[row]; wanted {
			l.wants[row] = time.Now()
		}
	}
	used := map[int]bool{}
	for row, last := range l.wants {
		if time.Since(last) >= l.hub.idle {
			delete(l.wants, row)
			continue
		}
		used[l.secret.group(row)] = true
	}
	var unused []int
	for g := range l.holds {
		if !used[g] {
			delete(l.holds, g)
			unused = append(unused, g)
		}
	}
	return unused
}

// check releases the locks that are not needed any more, and checks that the connection is alive and that the table has not been replaced.
func (l *listener) check(ctx context.Context, c *link) error {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	keys := []int64{}
	for _, g := range l.forget() {
		keys = append(keys, c.base+int64(g))
	}
	if len(keys) > 0 {
		if _, err := c.conn.Exec(ctx, "SELECT count(pg_advisory_unlock_shared(k)) FROM unnest($1::bigint[]) AS k", keys); err != nil {
			return err
		}
	}
	var oid int64
	var now secret
	err := c.conn.QueryRow(ctx, l.hub.store.sql.listen).Scan(&oid, nil, nil, &now)
	if err == nil && (groupBase+oid*256 != c.base || !bytes.Equal(now, c.secret)) {
		err = errors.New("the table has been made anew")
	}
	return err
}
