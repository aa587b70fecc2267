package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"

	"github.com/go-sql-driver/mysql"
)

// The server reports no release, but it wakes the next of those who wait for a lock of its own (GET_LOCK). So those who wait for one name take turns:
// the one whose turn it is looks at the name, keeps its turn while it has the lease, and ends it with the release, which wakes the next. The others
// sleep in the server, and look now and then, in case that a process keeps its turn and does not go on. A turn promises nothing: the row alone decides
// who has a name. Where the server keeps no such locks, or no connection can be spared, all look as often as they would in turn.
const (
	turnWait  = 1 // seconds that a request for a turn waits in the server
	turnLook  = 250 * time.Millisecond
	mostTurns = 8 // of one handle, each of which takes a connection
)

// errNoTurns is the error of a server without such locks, or of something before it that changes sessions between requests.
var errNoTurns = errors.New("the server keeps no locks for sessions")

// turns are those of one handle. It is safe for concurrent use.
type turns struct {
	mu   sync.Mutex
	of   map[string]*turn // by row
	off  bool             // they do not work here
	work sync.WaitGroup
}

// A turn is what one handle knows of its turn for a name.
type turn struct {
	watches int           // how many wait for the name
	ours    bool          // it is our turn
	until   time.Time     // it is kept until then, for a lease
	over    bool          // a lease was released in it
	looked  time.Time     // when the name was looked at last out of turn
	news    chan struct{} // something of that has changed
}

// join asks for a turn for a row until ctx ends, if there can be one.
func (s *Store) join(ctx context.Context, row string) {
	ts := &s.turns
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.of[row]
	if t == nil {
		open := s.db.Stats().MaxOpenConnections
		if ts.off || len(ts.of) >= mostTurns || !spare(s.db, open) {
			return
		}
		t = &turn{news: make(chan struct{}, 1)}
		ts.of[row] = t
		ts.work.Go(func() {
			defer giveBack(s.db)
			s.takeTurns(row, t)
		})
	}
	t.watches++
	t.looked = time.Now() // its caller has
	context.AfterFunc(ctx, func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		t.watches--
		t.tell()
	})
}

// taking has the number of turns on each pool of connections, of all handles of this process on it. A turn counts until
// its connection is back in the pool.
var taking = struct {
	sync.Mutex
	of map[*sql.DB]int
}{of: map[*sql.DB]int{}}

// spare counts one more turn on a pool, unless half of its connections have turns. The pool opens so many of them at
// most, any number if that is 0.
func spare(db *sql.DB, open int) bool {
	taking.Lock()
	defer taking.Unlock()
	if open > 0 && taking.of[db] >= open/2 {
		return false
	}
	taking.of[db]++
	return true
}

// giveBack counts one turn less on a pool.
func giveBack(db *sql.DB) {
	taking.Lock()
	defer taking.Unlock()
	if taking.of[db]--; taking.of[db] == 0 {
		delete(taking.of, db)
	}
}

func (t *turn) tell() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// takeTurns waits for turns while somebody waits for the row.
func (s *Store) takeTurns(row string, t *turn) {
	conn, err := s.db.Conn(s.ctx)
	if err == nil {
		for err == nil && s.turns.wanted(row, t) {
			err = s.takeTurn(conn, row, t)
		}
		if err != nil { // the lock ends with the connection
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = conn.Close()
	}
	if err != nil {
		s.turns.fail(row, t, err)
	}
}

// takeTurn waits for one turn, for a second at most, and for its end.
func (s *Store) takeTurn(conn *sql.Conn, row string, t *turn) error {
	var got, ended sql.NullInt64
	if err := conn.QueryRowContext(s.ctx, "SELECT GET_LOCK("+s.turnName(row)+", "+intLiteral(turnWait)+")").Scan(&got); err != nil {
		return err
	}
	switch {
	case !got.Valid:
		return errNoTurns
	case got.Int64 == 0:
		return nil
	}
	if s.turns.begin(t) {
		s.watches.Wake(row)
		s.turns.last(s.ctx, t)
	}
	if err := conn.QueryRowContext(s.ctx, "SELECT RELEASE_LOCK("+s.turnName(row)+")").Scan(&ended); err != nil {
		return err
	}
	if ended.Int64 != 1 { // what stands before the server has changed sessions
		return errNoTurns
	}
	return nil
}

// turnName is the name of the lock: of the server's, not of a database, and short.
func (s *Store) turnName(row string) string {
	schema := "IFNULL(DATABASE(), '')"
	if s.cfg.Schema != "" {
		schema = bytesLiteral(s.cfg.Schema)
	}
	return "CONCAT('soloist ', SHA1(CONCAT(" + schema + ", " + bytesLiteral("."+s.cfg.Table+"."+row) + ")))"
}

// wanted reports whether somebody waits for the row. If not, the turn is forgotten.
func (ts *turns) wanted(row string, t *turn) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.watches == 0 {
		delete(ts.of, row)
	}
	return t.watches > 0
}

// fail gives a turn up, and all of them if there can be none. What was waited for is looked at as in turn, by each who waits.
func (ts *turns) fail(row string, t *turn, err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var refused *mysql.MySQLError
	ts.off = ts.off || errors.Is(err, errNoTurns) || errors.As(err, &refused)
	if ts.of[row] == t {
		delete(ts.of, row)
	}
}

// close waits for the end of all turns. The handle's context must have ended.
func (ts *turns) close() {
	ts.mu.Lock()
	ts.off = true
	ts.mu.Unlock()
	ts.work.Wait()
}

// begin begins a turn, unless nobody waits any more.
func (ts *turns) begin(t *turn) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.ours, t.until, t.over = t.watches > 0, time.Time{}, false
	return t.ours
}

// last returns at the end of a turn: when the lease that was acquired in it is released or over, or nobody waits who could acquire one.
func (ts *turns) last(ctx context.Context, t *turn) {
	for {
		left, over := ts.left(t)
		if over {
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-t.news:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// left reports whether a turn is over, and how long it lasts if nothing happens.
func (ts *turns) left(t *turn) (left time.Duration, over bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	left = max(0, time.Until(t.until))
	if over = t.over || t.watches == 0 && left == 0; over {
		t.ours = false
	} else if t.watches > 0 {
		left = store.MaxTTL
	}
	return left, over
}

// leased notes that this handle has the lease of a row for so long.
func (ts *turns) leased(row string, ttl time.Duration) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.of[row]; t != nil && t.ours {
		t.until = time.Now().Add(ttl)
		t.tell()
	}
}

// released notes that this handle has released a row.
func (ts *turns) released(row string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.of[row]; t != nil && t.ours {
		t.over = true
		t.tell()
	}
}

// due leaves out the rows that others look at.
func (ts *turns) due(rows []string) (some []string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now := time.Now()
	for _, row := range rows {
		if t := ts.of[row]; t != nil && !t.ours {
			if now.Sub(t.looked) < turnLook {
				continue
			}
			t.looked = now
		}
		some = append(some, row)
	}
	return some
}
