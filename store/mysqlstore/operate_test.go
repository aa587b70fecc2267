package mysqlstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/go-sql-driver/mysql"
)

// urlWith changes the URL of the test server.
func urlWith(t testing.TB, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(mariadb(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

func withQuery(query string) func(*url.URL) { return func(u *url.URL) { u.RawQuery = query } }

func TestOpenURL(t *testing.T) {
	ctx := context.Background()
	table := newTable(t)
	s, err := OpenURL(ctx, urlWith(t, withQuery("table="+table)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	defer drop(t, connect(t, mariadb(t).URL, nil), s)
	take(t, s, "x", "a")
	var seconds int
	if err := s.db.QueryRowContext(ctx, "SELECT @@innodb_lock_wait_timeout").Scan(&seconds); err != nil || seconds != 5 {
		t.Errorf("a name that is new to two at once is waited for %d s, %v", seconds, err)
	}
	if socket := mariadb(t).Socket; socket != "" {
		other, err := OpenURL(ctx, "mariadb://root@/test?socket="+url.QueryEscape(socket)+"&table="+table)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if o := acquire(t, other, claim("x", "b"))[0]; !errors.Is(o.Err, store.ErrHeld) {
			t.Errorf("over the socket: %v, want a refusal", o.Err)
		}
	}
}

// reach opens a store and connects to its server.
func reach(rawURL string) error {
	s, err := OpenURL(context.Background(), rawURL)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.explain(s.db.PingContext(context.Background()))
}

// Each mistake is named, and no error shows the password.
func TestMistakes(t *testing.T) {
	for what, m := range map[string]struct {
		url  string
		is   error
		says string
	}{
		"no URL":            {"::", store.ErrInvalid, "mysql://user:password"},
		"another scheme":    {"postgres://u:secret@h/d", store.ErrInvalid, "mysql://user:password"},
		"a % in a password": {"mysql://u:secret%zz@h/d", store.ErrInvalid, "%XX"},
		"no database":       {"mysql://u:secret@h/", store.ErrInvalid, "database"},
		"a parameter":       {"mysql://u:secret@h/d?tabel=x", store.ErrInvalid, `"tabel"`},
		"a table":           {"mysql://u:secret@h/d?table=a%20b", store.ErrInvalid, `"a b"`},
		"a flag":            {"mysql://u:secret@h/d?shedlock=perhaps", store.ErrInvalid, `"perhaps"`},
		"a timeout":         {"mysql://u:secret@h/d?timeout=0s", store.ErrInvalid, `"0s"`},
		"a socket":          {"mysql://u:secret@h/d?socket=here", store.ErrInvalid, `"here"`},
		"a zone":            {"mysql://u:secret@h/d?shedlock_zone='x'", store.ErrInvalid, `zone`},
		"TLS":               {"mysql://u:secret@h/d?tls=nobody", store.ErrInvalid, "nobody"},
		"no such TLS":       {"mysql://u:secret@h/d?tls=", store.ErrInvalid, `tls "": must be`},
		"TLS, or not":       {"mysql://u:secret@h/d?tls=preferred", store.ErrInvalid, `"preferred"`},
		"TLS, a semicolon":  {"mysql://u:secret@h/d?tls=true;table=x", store.ErrInvalid, `tls`},
		"TLS, and nothing":  {"mysql://u:secret@h/d?tls=true;", store.ErrInvalid, `tls`},
		"TLS, a %":          {"mysql://u:secret@h/d?table=x&tls=true%zz", store.ErrInvalid, `"tls=true%zz"`},
		"TLS without value": {"mysql://u:secret@h/d?tls", store.ErrInvalid, `"tls": must be key=value`},
		"TLS twice":         {"mysql://u:secret@h/d?tls=true&tls=false", store.ErrInvalid, `tls`},
		"an odd name":       {"mysql://u:secret@h/d?t%6cs=true&TLS=true", store.ErrInvalid, `"TLS"`},
		"a table, cut off":  {"mysql://u:secret@h/d?table=soloist;drop", store.ErrInvalid, `table`},
		"a table, empty":    {"mysql://u:secret@h/d?table=", store.ErrInvalid, `table "": `},
		"a fragment":        {"mysql://u:secret@h/d?tls=true#table=x", store.ErrInvalid, `"#table=x"`},
		"a password with #": {"mysql://u:pass#secret@h/d?tls=true", store.ErrInvalid, "%XX"},
		"a password with ?": {"mysql://u:12?secret@h/d?tls=true", store.ErrInvalid, "%XX"},
		"an odd port":       {"mysql://u:secret@h:99999/d", store.ErrInvalid, `"99999"`},
		"a wrong password":  {urlWith(t, func(u *url.URL) { u.User = url.UserPassword("root", "secret wrong") }), fs.ErrPermission, "password"},
		"no such database":  {urlWith(t, func(u *url.URL) { u.Path = "/nowhere" }), nil, "make the database"},
		"nobody listens":    {fmt.Sprintf("mysql://u:secret@127.0.0.1:%d/d", servers.FreePort(t)), nil, "refused"},
		"no TLS there":      {urlWith(t, withQuery("tls=true")), nil, "TLS"},
	} {
		t.Run(what, func(t *testing.T) {
			if what == "no TLS there" && mariadb(t).Process == nil {
				t.Skip("the server is somebody else's and may have TLS")
			}
			err := reach(m.url)
			if err == nil {
				t.Fatal("it was reached")
			}
			if m.is != nil && !errors.Is(err, m.is) || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), m.says) {
				t.Errorf("answered %q; want it to be %v and to say %q", err, m.is, m.says)
			}
			if !errors.Is(m.is, store.ErrInvalid) && errors.Is(err, store.ErrInvalid) {
				t.Errorf("%q is store.ErrInvalid", err)
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "canary") {
				t.Errorf("the password is in %q", err)
			}
		})
	}
}

func TestMissingSchema(t *testing.T) {
	ctx := context.Background()
	db := connect(t, mariadb(t).URL, nil)
	s, err := New(db, Config{Table: newTable(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	calls := func() map[string]error {
		_, acquired := s.Acquire(ctx, []store.Claim{claim("x", "a")})
		_, extended := s.Extend(ctx, []store.Extension{{Name: "x", Holder: "a", Token: 1, TTL: time.Hour}})
		_, released := s.Release(ctx, []store.Release{{Name: "x", Holder: "a", Token: 1}})
		_, _, chosen := s.Choose(ctx, []string{"x"}, claim("", "a"))
		_, swept := s.Sweep(ctx, 1)
		_, watched := s.Watch(ctx, []string{"x"})
		var listed error
		for _, listed = range s.List(ctx, "") {
			_ = listed
		}
		return map[string]error{
			"Acquire": acquired, "Extend": extended, "Release": released, "Choose": chosen, "Sweep": swept, "Watch": watched, "List": listed,
		}
	}
	check := func() {
		t.Helper()
		for verb, err := range calls() {
			if !errors.Is(err, store.ErrSchema) || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), "soloist migrate up") {
				t.Errorf("%s: %v, want store.ErrSchema", verb, err)
			}
		}
	}
	check()
	exec(t, db, strings.Replace(documentedTable, "shedlock", s.cfg.Table, 1))
	defer drop(t, db, s)
	check()
	findings, err := s.Examine(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if f := finding(t, findings, "schema"); f.Level != store.LevelError || !strings.Contains(f.Fix, "migrate") {
		t.Errorf("the finding is %+v", f)
	}
}

func finding(t testing.TB, all []store.Finding, subject string) store.Finding {
	t.Helper()
	for _, f := range all {
		if f.Subject == subject {
			return f
		}
	}
	t.Fatalf("no finding about %q in %+v", subject, all)
	return store.Finding{}
}

// Many may migrate at once, and each statement that a person is told makes the same.
func TestMigrate(t *testing.T) {
	ctx := context.Background()
	for _, cfg := range []Config{{}, {ShedLock: true}} {
		db := connect(t, mariadb(t).URL, nil)
		cfg.Table = newTable(t)
		s, err := New(db, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer drop(t, db, s)
		var group sync.WaitGroup
		var mu sync.Mutex
		lines := 0
		for range 8 {
			group.Go(func() {
				did, err := s.Migrate(ctx)
				mu.Lock()
				defer mu.Unlock()
				if lines += len(did); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		want := 3
		if cfg.ShedLock {
			want = 4
		}
		if did, err := s.Migrate(ctx); err != nil || len(did) != 0 || lines != want {
			t.Errorf("migrating said %d lines, then %q, %v", lines, did, err)
		}
		take(t, s, "x", "a")
		cfg.Table = newTable(t)
		byHand, err := New(db, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer drop(t, db, byHand)
		for statement := range strings.SplitSeq(strings.TrimSuffix(byHand.Schema(), ";\n"), ";\n") {
			exec(t, db, statement)
		}
		if did, err := byHand.Migrate(ctx); err != nil || len(did) != 0 {
			t.Errorf("after the statements migrating did %q, %v", did, err)
		}
		take(t, byHand, "x", "a")
		exec(t, db, "UPDATE "+s.table(s.cfg.Table+"_meta")+" SET version = 0")
		if did, err := s.Migrate(ctx); err != nil || len(did) != 1 || s.Ping(ctx) != nil {
			t.Errorf("with tables of an older version migrating did %q, %v", did, err)
		}
		acquire(t, another(t, s), claim("x", "b"))
	}
}

// A migration that was cut off after any of its statements is gone on with, with rows and without, also in sessions that do not commit by themselves.
func TestMigrationThatWasCutOff(t *testing.T) {
	plain := connect(t, mariadb(t).URL, nil)
	db := connect(t, mariadb(t).URL, func(c *mysql.Config) { c.Params = map[string]string{"autocommit": "0"} })
	for name, m := range map[string]struct {
		cfg        Config
		before     string // the table that is there, if one is
		row        string // in it
		statements func(*Store) []string
	}{
		"own":                      {Config{}, "", "", (*Store).schema},
		"shared, a new table":      {Config{ShedLock: true}, "", "", (*Store).schema},
		"shared, an empty table":   {Config{ShedLock: true}, documentedTable, "", altered},
		"shared, a table with row": {Config{ShedLock: true}, documentedTable, "INSERT INTO shedlock VALUES ('x', UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), 'jvm')", altered},
	} {
		t.Run(name, func(t *testing.T) {
			for after, last := 0, 1; after <= last; after++ {
				m.cfg.Table = newTable(t)
				made := func(db *sql.DB) *Store {
					s, err := New(db, m.cfg)
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				s := made(db)
				defer drop(t, plain, s)
				for _, statement := range []string{m.before, m.row} {
					if statement != "" {
						exec(t, plain, strings.Replace(statement, "shedlock", m.cfg.Table, 1))
					}
				}
				statements := m.statements(s)
				last = len(statements)
				exec(t, plain, statements[:after]...)
				if did, err := s.Migrate(t.Context()); err != nil {
					t.Errorf("after %d statements of %d: %q, %v", after, last, did, err)
					continue
				}
				take(t, made(plain), "new", "a")
			}
		})
	}
}

// A process that stands still while it migrates keeps others from it for seconds, and not for as long as a session may be idle, which is hours.
func TestMigrationThatStandsStill(t *testing.T) {
	t.Parallel()
	servers.Long(t)
	stopped, w := wired(t, Config{}, nil)
	other, err := New(connect(t, mariadb(t).URL, nil), stopped.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	kept, answered := w.keepBack("information_schema"), make(chan error, 1)
	go func() {
		_, err := stopped.Migrate(context.Background())
		answered <- err
	}()
	<-kept.is
	ctx, cancel := context.WithTimeout(context.Background(), servers.Patience)
	defer cancel()
	if _, err := other.Migrate(ctx); err != nil {
		t.Errorf("another one has stood still with the lock: %v", err)
	}
	close(kept.goes)
	if err := <-answered; err == nil {
		t.Error("who stood still has gone on without the lock")
	}
}

// altered returns the statements for a table of ShedLock's.
func altered(s *Store) []string {
	return append([]string{s.text(sqlSchemaText, nil), s.text(sqlSchemaShared, nil)}, s.schema()[1:]...)
}

// MySQL takes no name of a lock with more than 64 characters, and a table's may have 55.
func TestMigrationsLockHasAShortName(t *testing.T) {
	for table, want := range map[string]string{"soloist": "soloist migrate soloist", strings.Repeat("t", 55): "soloist migrate " + strings.Repeat("t", 48)} {
		s, err := New(connect(t, mariadb(t).URL, nil), Config{Table: table})
		if err != nil {
			t.Fatal(err)
		}
		if name := s.migrateLock(); name != want {
			t.Errorf("%s: %q", table, name)
		}
	}
}

// With the rights that the documentation names the store works; without any one of them it says so.
func TestPrivileges(t *testing.T) {
	ctx := context.Background()
	admin := connect(t, mariadb(t).URL, nil)
	s := open(t, admin, Config{})
	host := "127.0.0.1"
	for _, lack := range []struct{ right, only string }{{"", ""}, {"SELECT", ""}, {"INSERT", ""}, {"UPDATE", ""}, {"DELETE", ""}, {"SELECT", s.cfg.Table + "_meta"}} {
		missing, user := lack.right, newTable(t)
		exec(t, admin, "CREATE USER "+user+"@'"+host+"' IDENTIFIED BY 'canary'")
		defer exec(t, admin, "DROP USER "+user+"@'"+host+"'")
		needed := map[string]string{s.cfg.Table: "SELECT, INSERT, UPDATE, DELETE", s.cfg.Table + "_meta": "SELECT, UPDATE"}
		for table, rights := range needed {
			var kept []string
			for right := range strings.SplitSeq(rights, ", ") {
				if right != missing || lack.only != "" && lack.only != table {
					kept = append(kept, right)
				}
			}
			exec(t, admin, "GRANT "+strings.Join(kept, ", ")+" ON "+s.table(table)+" TO "+user+"@'"+host+"'")
		}
		db := connect(t, mariadb(t).URL, func(c *mysql.Config) { c.User, c.Passwd = user, "canary" })
		limited, err := New(db, s.cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer limited.Close()
		findings, err := limited.Examine(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for table, rights := range needed {
			f, lacks := finding(t, findings, "rights on "+table), missing != "" && strings.Contains(rights, missing) && (lack.only == "" || lack.only == table)
			if (f.Level == store.LevelOK) == lacks || lacks && (f.Found != "without "+missing || !strings.Contains(f.Fix, "GRANT "+missing)) {
				t.Errorf("without %+v the finding is %+v", lack, f)
			}
		}
		_, acquired := limited.Acquire(ctx, []store.Claim{claim("x/"+missing, "a")})
		g := take(t, s, "released", "a")
		release(t, s, store.Release{Name: "released", Holder: "a", Token: g.Token})
		_, swept := limited.Sweep(ctx, 10)
		for verb, err := range map[string]error{"Acquire": acquired, "Sweep": swept} {
			needs := missing != "" && (verb == "Acquire" && missing != "DELETE" || verb == "Sweep" && missing != "INSERT")
			if needs != errors.Is(err, fs.ErrPermission) || !needs && err != nil || errors.Is(err, store.ErrUnknown) {
				t.Errorf("without %q %s answered %v", missing, verb, err)
			}
		}
	}
}

// A server that takes no writes refuses, and says what it is.
func TestReadOnlyServer(t *testing.T) {
	server := servers.MariaDB(t, "--read-only=OFF")
	ctx := context.Background()
	admin := connect(t, server.URL, nil)
	s := open(t, admin, Config{})
	exec(t, admin, "CREATE USER limited@'127.0.0.1' IDENTIFIED BY 'canary'", "GRANT SELECT, INSERT, UPDATE, DELETE ON test.* TO limited@'127.0.0.1'",
		"SET GLOBAL read_only = ON")
	defer exec(t, admin, "SET GLOBAL read_only = OFF")
	db := connect(t, server.URL, func(c *mysql.Config) { c.User, c.Passwd = "limited", "canary" })
	limited, err := New(db, s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = limited.Acquire(ctx, []store.Claim{claim("x", "a")})
	if err == nil || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), "connect to the primary") {
		t.Errorf("answered %v", err)
	}
	w := &wire{}
	rejecting := connect(t, server.URL, func(c *mysql.Config) {
		w.dial(c)
		c.User, c.Passwd, c.RejectReadOnly = "limited", "canary", true
	})
	if limited, err = New(rejecting, s.cfg); err != nil {
		t.Fatal(err)
	}
	if _, err = limited.Acquire(ctx, []store.Claim{claim("x", "a")}); err == nil || w.dialed.Load() > 3 {
		t.Errorf("with a driver that takes each connection for dead: %v, after %d connections", err, w.dialed.Load())
	}
	c, err := limited.Capabilities(ctx)
	if err != nil || c.Fencing.Answer != store.No {
		t.Errorf("the capabilities are %+v, %v", c, err)
	}
	findings, err := limited.Examine(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if f := finding(t, findings, "role"); f.Level != store.LevelError {
		t.Errorf("the finding is %+v", f)
	}
}

// The promises follow the settings.
func TestCapabilitiesFollowTheSettings(t *testing.T) {
	server := servers.MariaDB(t, "--log-bin", "--server-id=1", "--sync-binlog=1")
	ctx := context.Background()
	db := connect(t, server.URL, nil)
	s := open(t, db, Config{})
	check := func(what string, fencing, durable store.Answer) {
		t.Helper()
		c, err := s.Capabilities(ctx)
		if err != nil || c.Fencing.Answer != fencing || c.Durable.Answer != durable {
			t.Errorf("%s: %+v, %v", what, c, err)
		}
	}
	check("all is well", store.Yes, store.Yes)
	exec(t, db, "SET GLOBAL innodb_flush_log_at_trx_commit = 2")
	check("commits are not synced", store.No, store.No)
	exec(t, db, "SET GLOBAL innodb_flush_log_at_trx_commit = 1", "SET GLOBAL sync_binlog = 0")
	check("the binary log is not synced", store.No, store.No)
	exec(t, db, "SET GLOBAL sync_binlog = 1", "ALTER TABLE "+s.cfg.Table+" ENGINE = MyISAM")
	check("a table of another engine", store.No, store.Yes)
	findings, err := s.Examine(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if f := finding(t, findings, "storage engine"); f.Level != store.LevelError || !strings.Contains(f.Fix, "ENGINE = InnoDB") {
		t.Errorf("the finding is %+v", f)
	}
	exec(t, db, "ALTER TABLE "+s.cfg.Table+" ENGINE = InnoDB")
	replica := servers.MariaDB(t, "--server-id=2", "--read-only", "--report-host=127.0.0.1") // without it the primary does not list it
	behind := connect(t, replica.URL, nil)
	exec(t, behind, fmt.Sprintf("CHANGE MASTER 'main' TO MASTER_HOST='127.0.0.1', MASTER_PORT=%s, MASTER_USER='root', MASTER_PASSWORD='%s'",
		server.Addr[strings.LastIndexByte(server.Addr, ':')+1:], servers.MariaDBPassword), "START SLAVE 'main'")
	// The table is on the replica when all that the primary has written is.
	var written string
	if err := db.QueryRow("SELECT @@gtid_binlog_pos").Scan(&written); err != nil {
		t.Fatal(err)
	}
	exec(t, behind, "DO MASTER_GTID_WAIT('"+written+"')")
	servers.Wait(t, "the replica", func() bool {
		c, err := s.Capabilities(ctx)
		return err == nil && c.Fencing.Answer == store.No
	})
	check("a replica", store.No, store.Yes)
	exec(t, db, "CREATE USER observer@'127.0.0.1' IDENTIFIED BY 'canary'", "GRANT SELECT ON test.* TO observer@'127.0.0.1'", "GRANT PROCESS ON *.* TO observer@'127.0.0.1'")
	observer, err := New(connect(t, server.URL, func(c *mysql.Config) { c.User, c.Passwd = "observer", "canary" }), s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := observer.Capabilities(ctx); err != nil || c.Fencing.Answer != store.No {
		t.Errorf("to a user who may not list the replicas, and sees what each session does: %+v, %v", c, err)
	}
	exec(t, db, "CREATE USER lister@'127.0.0.1' IDENTIFIED BY 'canary'", "GRANT SELECT ON test.* TO lister@'127.0.0.1'", "GRANT REPLICATION MASTER ADMIN ON *.* TO lister@'127.0.0.1'")
	lister, err := New(connect(t, server.URL, func(c *mysql.Config) { c.User, c.Passwd = "lister", "canary" }), s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := lister.Capabilities(ctx); err != nil || c.Fencing.Answer != store.No {
		t.Errorf("to a user who may list the replicas, and sees its own sessions alone: %+v, %v", c, err)
	}
	r, err := New(behind, s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{"ON", "OFF"} {
		exec(t, behind, "SET GLOBAL read_only = "+set)
		if c, err := r.Capabilities(ctx); err != nil || c.Fencing.Answer != store.No || !strings.Contains(c.Fencing.Why, "replica") {
			t.Errorf("the replica's capabilities, read_only = %s: %+v, %v", set, c, err)
		}
	}
}

// A certificate for another name is refused, and the error says what to do.
func TestWrongTLSName(t *testing.T) {
	dir := t.TempDir()
	pool := certificate(t, dir, "db.example")
	server := servers.MariaDB(t, "--ssl-cert="+filepath.Join(dir, "cert.pem"), "--ssl-key="+filepath.Join(dir, "key.pem"))
	for name, good := range map[string]bool{"db.example": true, "other.example": false} {
		if err := mysql.RegisterTLSConfig("test-"+name, &tls.Config{RootCAs: pool, ServerName: name}); err != nil {
			t.Fatal(err)
		}
		err := reach(server.URL + "?tls=test-" + name)
		if good != (err == nil) || !good && !strings.Contains(err.Error(), "connect by a name that the server's certificate has") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := reach(server.URL + "?tls=true"); err == nil || !strings.Contains(err.Error(), "authority") {
		t.Errorf("with an authority that nobody knows: %v", err)
	}
}

// certificate writes one for a name, that anybody may read, and returns who believes it.
func certificate(t *testing.T, dir, name string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(crand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path := dir; len(path) > len(os.TempDir()); path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return pool
}
