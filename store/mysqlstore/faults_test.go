package mysqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"

	"github.com/go-sql-driver/mysql"
)

// A wire counts what is sent to the server, a write each request, can lose replies and keep a request back.
type wire struct {
	back     atomic.Pointer[keptBack]
	dialed   atomic.Int64
	requests atomic.Int64
	arm      atomic.Int64 // the reply to the request after so many is lost, and the connection with it
	lose     atomic.Bool
	lost     atomic.Int64
	restarts atomic.Int64 // a connection from before the last one takes nothing
}

func (w *wire) dial(c *mysql.Config) {
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		w.dialed.Add(1)
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, addr)
		return &wireConn{conn, w, w.restarts.Load()}, err
	}
}

// keptBack is the next request that contains a text, as of a process that stands still before it.
type keptBack struct {
	text     string
	is, goes chan struct{} // closed when it is kept back, and to let it go
}

func (w *wire) keepBack(text string) *keptBack {
	k := &keptBack{text, make(chan struct{}), make(chan struct{})}
	w.back.Store(k)
	return k
}

type wireConn struct {
	net.Conn
	wire *wire
	born int64
}

func (c *wireConn) Write(b []byte) (int, error) {
	c.wire.requests.Add(1)
	if c.born != c.wire.restarts.Load() {
		return 0, net.ErrClosed
	}
	if c.wire.arm.Load() > 0 && c.wire.arm.Add(-1) == 0 {
		c.wire.lose.Store(true)
	}
	if k := c.wire.back.Load(); k != nil && bytes.Contains(b, []byte(k.text)) && c.wire.back.CompareAndSwap(k, nil) {
		close(k.is)
		<-k.goes
	}
	return c.Conn.Write(b)
}

func (c *wireConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b) // there is a reply, so the request has been carried out
	if err == nil && c.wire.lose.CompareAndSwap(true, false) {
		c.wire.lost.Add(1)
		c.Conn.Close()
		return 0, errors.New("the reply was lost")
	}
	return n, err
}

// wired is a store whose requests and replies go through a wire.
func wired(t testing.TB, cfg Config, change func(*mysql.Config)) (*Store, *wire) {
	t.Helper()
	w := &wire{}
	db := connect(t, mariadb(t).URL, func(c *mysql.Config) {
		w.dial(c)
		if change != nil {
			change(c)
		}
	})
	s := open(t, db, cfg)
	if err := s.Ping(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s, w
}

func claim(name, holder string) store.Claim {
	return store.Claim{Name: name, Holder: holder, TTL: time.Hour}
}

func acquire(t testing.TB, s *Store, claims ...store.Claim) []store.Outcome {
	t.Helper()
	out, err := s.Acquire(context.Background(), claims)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// take takes a name that must be free.
func take(t testing.TB, s *Store, name, holder string) store.Grant {
	t.Helper()
	o := acquire(t, s, claim(name, holder))[0]
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	return o.Grant
}

func release(t testing.TB, s *Store, r store.Release) {
	t.Helper()
	errs, err := s.Release(context.Background(), []store.Release{r})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

// Each verb takes one round trip, for one lease and for a thousand.
func TestRoundTrips(t *testing.T) {
	for _, m := range modes {
		if m.name == "steps" {
			continue // says in its documentation how many
		}
		t.Run(m.name, func(t *testing.T) {
			s, w := wired(t, m.config, m.driver)
			for _, names := range [][]string{{"first"}, {"first", "second"}} { // the server and the tables are looked at, and the connection prepares its statements
				var claims []store.Claim
				var extensions []store.Extension
				var releases []store.Release
				for _, name := range names {
					claims = append(claims, claim(name, "a"))
				}
				for i, o := range acquire(t, s, claims...) {
					extensions = append(extensions, store.Extension{Name: names[i], Holder: "a", Token: o.Grant.Token, TTL: time.Hour})
					releases = append(releases, store.Release{Name: names[i], Holder: "a", Token: o.Grant.Token})
				}
				if _, err := s.Extend(t.Context(), extensions); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Release(t.Context(), releases); err != nil {
					t.Fatal(err)
				}
			}
			once := func(what string, do func()) {
				t.Helper()
				before := w.requests.Load()
				do()
				if n := w.requests.Load() - before; n != 1 {
					t.Errorf("%s took %d round trips, want 1", what, n)
				}
			}
			for _, n := range []int{1, 1000} {
				claims, extensions, releases := make([]store.Claim, n), make([]store.Extension, n), make([]store.Release, n)
				for i := range n {
					claims[i] = claim(intLiteral(int64(i)), "a")
				}
				for range 2 { // new names, and known ones
					var out []store.Outcome
					once("acquiring", func() { out = acquire(t, s, claims...) })
					for i, o := range out {
						if o.Err != nil {
							t.Fatal(o.Err)
						}
						extensions[i] = store.Extension{Name: claims[i].Name, Holder: "a", Token: o.Grant.Token, TTL: time.Hour}
						releases[i] = store.Release{Name: claims[i].Name, Holder: "a", Token: o.Grant.Token}
					}
					refusals := make([]store.Claim, n)
					for i, c := range claims {
						refusals[i] = claim(c.Name, "b")
					}
					once("being refused", func() {
						for _, o := range acquire(t, s, refusals...) {
							if !errors.Is(o.Err, store.ErrHeld) {
								t.Fatalf("answered %v, want a refusal", o.Err)
							}
						}
					})
					once("extending", func() {
						errs, err := s.Extend(context.Background(), extensions)
						if err = errors.Join(append(errs, err)...); err != nil {
							t.Fatal(err)
						}
					})
					once("releasing", func() {
						errs, err := s.Release(context.Background(), releases)
						if err = errors.Join(append(errs, err)...); err != nil {
							t.Fatal(err)
						}
					})
				}
			}
			once("choosing", func() {
				if i, _, err := s.Choose(context.Background(), []string{"p1", "p2", "p3"}, claim("", "c")); i != 0 || err != nil {
					t.Fatal(i, err)
				}
			})
		})
	}
}

// A request is one statement, as the server counts those of the session.
func TestStatements(t *testing.T) {
	s := open(t, connect(t, mariadb(t).URL, nil), Config{})
	s.db.SetMaxOpenConns(1) // so there is one session
	questions := func() (n int64) {
		var name string
		if err := s.db.QueryRowContext(context.Background(), "SHOW SESSION STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	warm := take(t, s, "warm", "a") // with which the session prepares the statements
	release(t, s, store.Release{Name: "warm", Holder: "a", Token: warm.Token})
	before := questions()
	g := take(t, s, "one", "a")
	acquire(t, s, claim("one", "b"))
	release(t, s, store.Release{Name: "one", Holder: "a", Token: g.Token})
	if n := questions() - before - 1; n != 3 {
		t.Errorf("acquiring, being refused and releasing took %d statements, want 3", n)
	}
}

// A reply that is lost is an unknown outcome, and asking again answers as it would have.
func TestLostReplies(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			s, w := wired(t, m.config, m.driver)
			ctx := context.Background()
			taking, leaving := int64(1), int64(1) // the request that commits
			if m.name == "steps" {
				taking, leaving = 8, 6
			}
			take(t, s, "first", "a") // the first request looks at the tables
			lost := func(verb string, err error) {
				t.Helper()
				if !errors.Is(err, store.ErrUnknown) {
					t.Errorf("%s: the reply was lost and the answer is %v, want an unknown outcome", verb, err)
				}
			}
			w.arm.Store(taking)
			_, err := s.Acquire(ctx, []store.Claim{claim("x", "a")})
			lost("Acquire", err)
			g := take(t, s, "x", "a")
			if o := acquire(t, s, claim("x", "b"))[0]; !errors.Is(o.Err, store.ErrHeld) {
				t.Fatalf("answered %v, want a refusal", o.Err)
			}
			w.arm.Store(leaving)
			e := store.Extension{Name: "x", Holder: "a", Token: g.Token, TTL: 2 * time.Hour, Mark: 3}
			_, err = s.Extend(ctx, []store.Extension{e})
			lost("Extend", err)
			errs, err := s.Extend(ctx, []store.Extension{e})
			if err = errors.Join(append(errs, err)...); err != nil {
				t.Fatal(err)
			}
			w.arm.Store(leaving)
			r := store.Release{Name: "x", Holder: "a", Token: g.Token, Mark: 4}
			_, err = s.Release(ctx, []store.Release{r})
			lost("Release", err)
			release(t, s, r)
			w.arm.Store(taking)
			if _, _, err = s.Choose(ctx, []string{"x", "y"}, claim("", "c")); err == nil {
				t.Error("Choose answered although its reply was lost")
			}
			lost("Choose", err)
			if i, grant, err := s.Choose(ctx, []string{"x", "y"}, claim("", "c")); err != nil || grant.Mark != 4 && i == 0 {
				t.Errorf("choosing again returned %d, %+v, %v", i, grant, err)
			}
			w.arm.Store(1)
			if err := s.Ping(ctx); err == nil || errors.Is(err, store.ErrUnknown) {
				t.Errorf("the reply to a question was lost: %v, want an error that leaves no outcome open", err)
			}
			if n := w.lost.Load(); n != 5 {
				t.Fatalf("%d replies were lost, want 5", n)
			}
		})
	}
}

// Which errors leave it open what has happened: those of a server that may have been committing, and those of a proxy that has lost the server.
func TestCertainty(t *testing.T) {
	for number, want := range map[uint16]bool{
		1064: true, 1142: true, 1205: true, 1213: true, 3101: true, 1290: true,
		1053: false, 1180: false, 1317: false, 1927: false, 1969: false, 3024: false,
		1105: false, 2000: false, 2003: false, 2006: false, 2013: false,
	} {
		if got := refused(&mysql.MySQLError{Number: number}); got != want {
			t.Errorf("the error %d: it is %t that nothing was committed", number, got)
		}
	}
	if refused(mysql.ErrInvalidConn) {
		t.Error("a connection that broke has refused what was asked")
	}
}

// A connection that the server has closed is not the caller's business.
func TestKilledConnections(t *testing.T) {
	s, _ := wired(t, Config{}, nil)
	admin := connect(t, mariadb(t).URL, nil)
	g := take(t, s, "x", "a")
	for range 3 {
		conn, err := s.db.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var id int64
		if err := conn.QueryRowContext(context.Background(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		exec(t, admin, "KILL "+intLiteral(id))
		var errs []error
		for { // the connection may still have been alive when the request came
			errs, err = s.Extend(context.Background(), []store.Extension{{Name: "x", Holder: "a", Token: g.Token, TTL: time.Hour}})
			if !errors.Is(err, store.ErrUnknown) {
				break
			}
		}
		if err := errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
	}
}

// Nor is it after a restart of the server, when all connections of the pool are dead.
func TestDeadPool(t *testing.T) {
	s, w := wired(t, Config{}, nil)
	g := take(t, s, "x", "a")
	for verb, ask := range map[string]func() error{
		"Extend": func() error {
			errs, err := s.Extend(t.Context(), []store.Extension{{Name: "x", Holder: "a", Token: g.Token, TTL: time.Hour}})
			return errors.Join(append(errs, err)...)
		},
		"Ping":  func() error { return s.Ping(t.Context()) },
		"Sweep": func() error { _, err := s.Sweep(t.Context(), 1); return err },
	} {
		release(t, s, store.Release{Name: "over", Holder: "a", Token: take(t, s, "over", "a").Token})
		var pool []*sql.Conn
		for range 6 {
			conn, err := s.db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			pool = append(pool, conn)
		}
		for _, conn := range pool {
			conn.Close()
		}
		w.restarts.Add(1)
		if err := ask(); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// A transaction that an error has cut off is not committed by who comes next on its connection.
func TestErrorsLeaveNothingOpen(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			s, _ := wired(t, m.config, m.driver)
			s.db.SetMaxOpenConns(1)
			g := take(t, s, "x", "a")
			bad := []string{"UPDATE " + s.table(s.cfg.Table) + " SET mark = 99", "SELECT no_such_thing"}
			if _, err := change(context.Background(), s, bad, func(*sql.Rows) (int, error) { return 0, nil }); err == nil {
				t.Fatal("a wrong statement was carried out")
			}
			exec(t, s.db, "COMMIT")
			if o := acquire(t, s, claim("x", "a"))[0]; o.Err != nil || o.Grant.Mark != 0 || o.Grant.Token != g.Token {
				t.Errorf("the record is %+v, %v: want it as it was", o.Grant, o.Err)
			}
			// A connection on which nothing can be rolled back is not used again.
			exec(t, s.db, "XA START "+bytesLiteral(s.cfg.Table))
			if _, err := s.Acquire(context.Background(), []store.Claim{claim("y", "a")}); errors.Is(err, store.ErrUnknown) {
				t.Errorf("on a connection that begins no transaction: %v", err)
			}
			take(t, s, "y", "a")
		})
	}
}

// Where somebody has emptied the table with the floor, a name without a record is not called one that a transaction has
// locked, without end. A migration fills the table again.
func TestEmptyMeta(t *testing.T) {
	s := open(t, connect(t, mariadb(t).URL, nil), Config{})
	before := take(t, s, "locked", "a")
	release(t, s, store.Release{Name: "locked", Holder: "a", Token: before.Token, Retain: time.Hour})
	take(t, s, "old", "a")
	exec(t, s.db, "DELETE FROM "+s.table(s.cfg.Table+"_meta"))
	empty := func(verb string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrSchema) || errors.Is(err, store.ErrHeld) || errors.Is(err, store.ErrUnknown) ||
			!strings.Contains(err.Error(), "migrate up") {
			t.Errorf("%s: %v; want store.ErrSchema: nobody holds it, and nothing was done", verb, err)
		}
	}
	tx := begin(t, s.db, nil)
	exec(t, tx, "SELECT token FROM "+s.table(s.cfg.Table)+" WHERE name = 'locked' FOR UPDATE")
	out := acquire(t, s, claim("new", "b"), claim("locked", "b"), claim("old", "b"), claim("old", "a"))
	empty("a batch", out[0].Err)
	if !errors.Is(out[1].Err, store.ErrHeld) || !errors.Is(out[2].Err, store.ErrHeld) || out[3].Err != nil {
		t.Errorf("names with records: %v, %v, %v", out[1].Err, out[2].Err, out[3].Err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	empty("a claim", acquire(t, s, claim("new", "b"))[0].Err)
	_, _, err := s.Choose(t.Context(), []string{"old", "new"}, claim("", "b"))
	empty("a choice", err)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if g := take(t, s, "new", "b"); g.Token <= before.Token {
		t.Errorf("token %d after %d", g.Token, before.Token)
	}
	if i, _, err := s.Choose(t.Context(), []string{"old", "newer"}, claim("", "b")); i != 1 || err != nil {
		t.Errorf("a choice after the migration: %d, %v", i, err)
	}
}
