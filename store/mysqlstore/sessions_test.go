package mysqlstore

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/go-sql-driver/mysql"
)

// Whatever is set in the sessions of a user's *sql.DB, the suite passes.
func TestSessions(t *testing.T) {
	for name, params := range map[string]map[string]string{
		"strange": {
			"autocommit": "0", "time_zone": "'-05:00'", "sql_mode": "'ANSI,NO_BACKSLASH_ESCAPES,TRADITIONAL'", "tx_isolation": "'SERIALIZABLE'",
			"sql_safe_updates": "1",
		},
		"loose":  {"sql_mode": "''", "time_zone": "'+12:30'", "tx_isolation": "'READ-UNCOMMITTED'", "tx_read_only": "1"},
		"oracle": {"sql_mode": "'ORACLE'", "character_set_connection": "latin1"},
	} {
		for _, m := range modes[:3] {
			if name != "strange" && m.name != "compound" {
				continue // the carriers differ in what they make of transactions, and no more
			}
			t.Run(name+"/"+m.name, func(t *testing.T) {
				t.Parallel()
				db := connect(t, mariadb(t).URL, func(c *mysql.Config) {
					c.Params = params
					if m.driver != nil {
						m.driver(c)
					}
				})
				plain := connect(t, mariadb(t).URL, nil)
				storetest.Run(t, storetest.Harness{
					TimedTokens: true,
					TTL:         300 * time.Millisecond, // several suites share two cores
					Open: func(t testing.TB) store.Store {
						cfg := open(t, plain, m.config).cfg
						s, err := New(db, cfg)
						if err != nil {
							t.Fatal(err)
						}
						return s
					},
					Reopen: func(t testing.TB, s store.Store) store.Store {
						other, err := New(db, s.(*Store).cfg)
						if err != nil {
							t.Fatal(err)
						}
						return other
					},
				})
			})
		}
	}
}

// Settings that a server can give to every session change neither what becomes of a transaction nor how much is read of a batch: no live lease is reported as lost, and
// no grant as refused.
func TestSettingsOfEverySession(t *testing.T) {
	for name, params := range map[string]map[string]string{
		"chained transactions": {"completion_type": "'CHAIN'"},
		"sessions that end":    {"completion_type": "'RELEASE'"},
		"few rows":             {"sql_select_limit": "1"},
		"modes":                {"sql_mode": "'SIMULTANEOUS_ASSIGNMENT,EMPTY_STRING_IS_NULL,HIGH_NOT_PRECEDENCE,TIME_ROUND_FRACTIONAL,PAD_CHAR_TO_FULL_LENGTH'"},
	} {
		for _, m := range modes[:3] {
			t.Run(name+"/"+m.name, func(t *testing.T) {
				ctx := context.Background()
				plain := open(t, connect(t, mariadb(t).URL, nil), m.config)
				s, err := New(connect(t, mariadb(t).URL, func(c *mysql.Config) {
					c.Params = params
					if m.driver != nil {
						m.driver(c)
					}
				}), plain.cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				claims := []store.Claim{claim("a", "h"), claim("b", "h"), claim("c", "h")}
				for round := range 2 {
					extensions, releases := make([]store.Extension, len(claims)), make([]store.Release, len(claims))
					for i, o := range acquire(t, s, claims...) {
						if o.Err != nil {
							t.Fatalf("round %d: a free name is refused: %v", round, o.Err)
						}
						extensions[i] = store.Extension{Name: claims[i].Name, Holder: "h", Token: o.Grant.Token, TTL: time.Hour}
						releases[i] = store.Release{Name: claims[i].Name, Holder: "h", Token: o.Grant.Token, Retain: time.Hour}
						if o := acquire(t, plain, claim(claims[i].Name, "other"))[0]; !errors.Is(o.Err, store.ErrHeld) {
							t.Errorf("another process was told %v, %+v", o.Err, o.Grant)
						}
					}
					errs, err := s.Extend(ctx, extensions)
					if err = errors.Join(append(errs, err)...); err != nil {
						t.Errorf("round %d: extending live leases: %v", round, err)
					}
					for range 2 {
						errs, err = s.Release(ctx, releases)
						if err = errors.Join(append(errs, err)...); err != nil {
							t.Errorf("round %d: releasing live leases: %v", round, err)
						}
					}
				}
				release(t, plain, store.Release{Name: "a", Holder: "z", Token: take(t, plain, "a", "z").Token})
			})
		}
	}
}

// varying are the variables of a session that change by themselves, or by any statement.
var varying = []string{"timestamp", "error_count", "warning_count", "last_insert_id", "identity", "insert_id", "rand_seed1", "rand_seed2", "last_gtid"}

// Requests leave a session as they have found it, be they granted, refused or an error: it is another's next.
func TestSessionsAreLeftAsTheyWere(t *testing.T) {
	for _, autocommit := range []string{"0", "1"} {
		for _, m := range modes {
			t.Run(m.name+"/autocommit="+autocommit, func(t *testing.T) {
				ctx := context.Background()
				admin := connect(t, mariadb(t).URL, nil)
				s := open(t, admin, m.config)
				db := connect(t, mariadb(t).URL, func(c *mysql.Config) {
					c.Params = map[string]string{"wait_timeout": "1234", "autocommit": autocommit}
					if m.driver != nil {
						m.driver(c)
					}
				})
				db.SetMaxOpenConns(1)
				s, err := New(db, s.cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				session := func() map[string]string {
					conn, err := db.Conn(ctx)
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close()
					settings, err := pairs(ctx, conn, "SHOW SESSION VARIABLES WHERE Variable_name NOT IN ('"+strings.Join(varying, "', '")+"')")
					if err != nil || settings["in_transaction"] == "" || settings["pseudo_thread_id"] == "" {
						t.Fatalf("%v, %d settings", err, len(settings))
					}
					return settings
				}
				before := session()
				as := func(after string) {
					t.Helper()
					now := session()
					for name, was := range before {
						if now[name] != was {
							t.Errorf("after %s %s is %q, and was %q", after, name, now[name], was)
						}
					}
				}
				g := take(t, s, "a", "h")
				as("a grant")
				acquire(t, s, claim("a", "other"))
				as("a refusal")
				if _, err := s.Extend(ctx, []store.Extension{{Name: "a", Holder: "h", Token: g.Token, TTL: time.Hour}, {Name: "b", Holder: "h", Token: 1, TTL: time.Hour}}); err != nil {
					t.Error(err)
				}
				as("an extension")
				for _, err := range s.List(ctx, "") {
					if err != nil {
						t.Error(err)
					}
				}
				as("a list")
				release(t, s, store.Release{Name: "a", Holder: "h", Token: g.Token})
				as("a release")
				if _, _, err := s.Choose(ctx, []string{"a", "b"}, claim("", "h")); err != nil {
					t.Error(err)
				}
				as("a choice")
				if _, err := s.Examine(ctx); err != nil {
					t.Error(err)
				}
				as("an examination")
				exec(t, admin, "RENAME TABLE "+s.table(s.cfg.Table)+" TO "+s.table(s.cfg.Table+"_away"))
				if _, err := s.Acquire(ctx, []store.Claim{claim("a", "h")}); !errors.Is(err, store.ErrSchema) {
					t.Errorf("without its table: %v", err)
				}
				exec(t, admin, "RENAME TABLE "+s.table(s.cfg.Table+"_away")+" TO "+s.table(s.cfg.Table))
				as("an error")
			})
		}
	}
}

// Leases go by the server's clock, also in a session whose own has been set: it is not used. Where every session is so, nothing is granted, and the error says why.
func TestClockOfASession(t *testing.T) {
	ctx := context.Background()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			other := open(t, connect(t, mariadb(t).URL, nil), m.config)
			db := connect(t, mariadb(t).URL, m.driver)
			s, err := New(db, other.cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			set := func(by string) {
				t.Helper()
				for range db.Stats().OpenConnections + 1 { // all sessions of the pool, and one
					conn, err := db.Conn(ctx)
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close()
					exec(t, conn, "SET timestamp = UNIX_TIMESTAMP() + "+by)
				}
			}
			held := take(t, other, "held", "a")
			for _, by := range []string{"7200", "-7200"} {
				set(by)
				if o := acquire(t, s, claim("held", "b"))[0]; !errors.Is(o.Err, store.ErrHeld) {
					t.Errorf("by %s s: what is held answers %v, %+v", by, o.Err, o.Grant)
				}
				set(by)
				g := take(t, s, "new"+by, "a")
				if o := acquire(t, other, claim("new"+by, "b"))[0]; !errors.Is(o.Err, store.ErrHeld) {
					t.Errorf("by %s s: what was granted is free for others: %v", by, o.Err)
				}
				set(by)
				errs, err := s.Extend(ctx, []store.Extension{{Name: "held", Holder: "a", Token: held.Token, TTL: time.Hour}})
				if err = errors.Join(append(errs, err)...); err != nil {
					t.Errorf("by %s s: extending: %v", by, err)
				}
				set(by)
				release(t, s, store.Release{Name: "new" + by, Holder: "a", Token: g.Token, Linger: time.Hour})
				if o := acquire(t, other, claim("new"+by, "b"))[0]; !errors.Is(o.Err, store.ErrHeld) {
					t.Errorf("by %s s: what lingers is free for others: %v", by, o.Err)
				}
				set(by)
				if n, err := s.Sweep(ctx, 100); n != 0 || err != nil {
					t.Errorf("by %s s: %d records were forgotten that linger, %v", by, n, err)
				}
			}
			frozen, err := New(connect(t, mariadb(t).URL, func(c *mysql.Config) {
				c.Params = map[string]string{"timestamp": "1700000000"}
				if m.driver != nil {
					m.driver(c)
				}
			}), other.cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer frozen.Close()
			out, err := frozen.Acquire(ctx, []store.Claim{claim("frozen", "a")})
			if code(err) != errClockSet || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), "SET timestamp") {
				t.Errorf("where all clocks are set: %+v, %v", out, err)
			}
			take(t, other, "frozen", "b")
		})
	}
}

// With the rights that the documentation names, and no more, and in a database that is named, the suite passes.
func TestLeastPrivilege(t *testing.T) {
	ctx := context.Background()
	admin := connect(t, mariadb(t).URL, nil)
	user := newTable(t)
	exec(t, admin, "CREATE DATABASE "+user, "CREATE USER "+user+"@'127.0.0.1' IDENTIFIED BY 'canary'")
	defer exec(t, admin, "DROP DATABASE "+user, "DROP USER "+user+"@'127.0.0.1'")
	db := connect(t, mariadb(t).URL, func(c *mysql.Config) { c.User, c.Passwd, c.DBName = user, "canary", "" })
	again := func(t testing.TB, cfg Config) store.Store {
		s, err := New(db, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	storetest.Run(t, storetest.Harness{
		TimedTokens: true,
		Open: func(t testing.TB) store.Store {
			made := open(t, admin, Config{Schema: user})
			exec(t, admin,
				"GRANT SELECT, INSERT, UPDATE, DELETE ON "+made.table(made.cfg.Table)+" TO "+user+"@'127.0.0.1'",
				"GRANT SELECT, UPDATE ON "+made.table(made.cfg.Table+"_meta")+" TO "+user+"@'127.0.0.1'")
			return again(t, made.cfg)
		},
		Reopen: func(t testing.TB, s store.Store) store.Store { return again(t, s.(*Store).cfg) },
	})
	if _, err := again(t, Config{Schema: user, Table: newTable(t)}).(*Store).Migrate(ctx); err == nil {
		t.Error("a user without CREATE made tables")
	}
}

// A refusal leaves the binary log and the redo log where they are.
func TestRefusalsWriteNoLog(t *testing.T) {
	server := servers.MariaDB(t, "--log-bin", "--server-id=1", "--binlog-format=ROW")
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			db := connect(t, server.URL, m.driver)
			s := open(t, db, m.config)
			position := func() (redo, binlog int64) {
				rows, err := db.QueryContext(context.Background(), "SHOW MASTER STATUS")
				if err != nil {
					t.Fatal(err)
				}
				defer rows.Close()
				var file, do, ignore string
				for rows.Next() {
					if err := rows.Scan(&file, &binlog, &do, &ignore); err != nil {
						t.Fatal(err)
					}
				}
				var name string
				if err := rows.Err(); err != nil {
					t.Fatal(err)
				}
				if err := db.QueryRowContext(context.Background(), "SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'").Scan(&name, &redo); err != nil {
					t.Fatal(err)
				}
				return redo, binlog
			}
			claims, refused := make([]store.Claim, 200), make([]store.Claim, 200)
			for i := range claims {
				claims[i] = claim("n"+intLiteral(int64(i)), "a")
				refused[i] = claim(claims[i].Name, "b")
			}
			acquire(t, s, claims...)
			acquire(t, s, refused...)
			// The server writes redo log for its own work too, such as purging, and nobody can tell when. Refusals would write each time.
			for attempt := 1; ; attempt++ {
				redo, binlog := position()
				for range 50 {
					acquire(t, s, refused...)
					acquire(t, s, refused[0])
				}
				r, b := position()
				if b != binlog {
					t.Fatalf("10,050 refusals wrote %d bytes of binary log", b-binlog)
				}
				if r-redo <= 4096 {
					break
				}
				if attempt == 10 {
					t.Fatalf("10,050 refusals wrote %d bytes of redo log, and in no attempt less than 4 KiB", r-redo)
				}
			}
			redo, binlog := position()
			take(t, s, "one", "c")
			if r, b := position(); r == redo || b == binlog {
				t.Errorf("a grant wrote %d bytes of redo log and %d of binary log: the test is blind", r-redo, b-binlog)
			}
		})
	}
}

// Big states come in as many requests as the server needs them to be.
func TestBigStates(t *testing.T) {
	s := open(t, connect(t, mariadb(t).URL, nil), Config{})
	const n = 200
	state := []byte(strings.Repeat("\x00\xff'\"\\", (store.MaxState-4)/5))
	claims, extensions := make([]store.Claim, n), make([]store.Extension, n)
	for i := range n {
		claims[i] = claim("n"+intLiteral(int64(i)), "a")
	}
	for i, o := range acquire(t, s, claims...) {
		own := append([]byte(intLiteral(int64(1000+i))), state...)
		extensions[i] = store.Extension{Name: claims[i].Name, Holder: "a", Token: o.Grant.Token, TTL: time.Hour, State: own}
	}
	errs, err := s.Extend(context.Background(), extensions)
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	for i, o := range acquire(t, s, claims...) {
		if string(o.Grant.State) != string(extensions[i].State) {
			t.Fatalf("a state of %d bytes came back as one of %d", len(state), len(o.Grant.State))
		}
	}
	small := servers.MariaDB(t, "--max-allowed-packet=1M")
	s = open(t, connect(t, small.URL, nil), Config{})
	for i, o := range acquire(t, s, claims...) {
		extensions[i].Token = o.Grant.Token
	}
	errs, err = s.Extend(context.Background(), extensions)
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}

	// The longest names and holders stand in a request as often as anything does.
	long := make([]store.Claim, 1000)
	for i := range long {
		number := intLiteral(int64(1000 + i))
		long[i] = claim(strings.Repeat("n", store.MaxName-len(number))+number, strings.Repeat("h", store.MaxName-len(number))+number)
	}
	for _, m := range modes {
		s := open(t, connect(t, small.URL, m.driver), m.config)
		take(t, s, "first", "a") // then it knows what the server takes
		for _, o := range acquire(t, s, long...) {
			if o.Err != nil {
				t.Fatalf("%s: %v", m.name, o.Err)
			}
		}
	}
}

// Tokens end at the end of their range, and do not begin anew.
func TestTokensEnd(t *testing.T) {
	db := connect(t, mariadb(t).URL, nil)
	s := open(t, db, Config{})
	release(t, s, store.Release{Name: "x", Holder: "a", Token: take(t, s, "x", "a").Token})
	exec(t, db, "UPDATE "+s.cfg.Table+" SET token = "+intLiteral(math.MaxInt64-2))
	for i, want := range []int64{math.MaxInt64 - 1, math.MaxInt64} {
		g := take(t, s, "x", intLiteral(int64(i)))
		if g.Token != want {
			t.Fatalf("token %d, want %d", g.Token, want)
		}
		release(t, s, store.Release{Name: "x", Holder: intLiteral(int64(i)), Token: g.Token})
	}
	if o := acquire(t, s, claim("x", "z"), claim("y", "z")); !errors.Is(o[0].Err, store.ErrTokens) || o[1].Err != nil {
		t.Errorf("answered %v and %v, want store.ErrTokens and a grant", o[0].Err, o[1].Err)
	}
	exec(t, db, "UPDATE "+s.table(s.cfg.Table+"_meta")+" SET floor = "+intLiteral(math.MaxInt64))
	if o := acquire(t, s, claim("new", "z"))[0]; !errors.Is(o.Err, store.ErrTokens) {
		t.Errorf("a name below the floor answered %v, %+v", o.Err, o.Grant)
	}
	if _, _, err := s.Choose(t.Context(), []string{"new", "newer"}, claim("", "a")); !errors.Is(err, store.ErrTokens) {
		t.Errorf("a choice of names below the floor: %v", err)
	}
	if i, _, err := s.Choose(t.Context(), []string{"new", "y"}, claim("", "a")); i != 1 || !errors.Is(err, store.ErrHeld) {
		t.Errorf("a choice with a name that is held: %d, %v; want that name, which will be free", i, err)
	}
}

// FuzzNames takes any name and holder there can be; they come back as they were.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"a", "a ", "A", "ä", "a\u0308", "\U0001f980", "'", "\\", `"`, "`", "%", "lock/x", "{records}", "--", "/*", "X'00'"} {
		f.Add(name, name)
	}
	s := open(f, connect(f, mariadb(f).URL, nil), Config{})
	f.Fuzz(func(t *testing.T, name, holder string) {
		c := claim(name, holder)
		if c.Check() != nil {
			t.Skip()
		}
		o := acquire(t, s, c, claim("beside "+name[:min(len(name), 1)], "x"))[0] // a batch, and then a single one
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		var held *store.HeldError
		if o := acquire(t, s, claim(name, "nobody else's"))[0]; !errors.As(o.Err, &held) || held.Record.Name != name ||
			held.Record.Holder != holder {
			t.Errorf("%q of %q: %v", name, holder, o.Err)
		}
		for r, err := range s.List(context.Background(), name) {
			if err != nil || r.Name != name || r.Holder != holder {
				t.Errorf("List yields %+v, %v for %q", r, err, name)
			}
			break
		}
		release(t, s, store.Release{Name: name, Holder: holder, Token: o.Grant.Token})
		if _, err := s.Sweep(context.Background(), 10); err != nil {
			t.Fatal(err)
		}
	})
}
