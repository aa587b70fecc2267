package pgstore

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5"
)

// every calls everything that asks the server, and returns the errors.
func every(s *Store) map[string]error {
	r := store.Release{Name: "name", Holder: "a", Token: 1}
	_, acquire := try(s, "name", "a", time.Minute)
	_, _, choose := s.Choose(background, []string{"name"}, claim("x", "a", time.Minute))
	_, sweep := s.Sweep(background, 1)
	_, capabilities := s.Capabilities(background)
	_, watch := s.Watch(background, []string{"name"})
	_, examine := s.Examine(background)
	_, migrate := s.Migrate(background)
	_, _, queue := s.Queue(background, claim("name", "a", time.Minute))
	_, leave := s.Leave(background, "name", "a")
	var list error
	for _, err := range s.List(background, "") {
		list = err
	}
	return map[string]error{
		"Acquire": acquire, "Extend": tryExtend(s, r, time.Minute), "Release": tryRelease(s, r), "Choose": choose, "Sweep": sweep,
		"List": list, "Ping": s.Ping(background), "Capabilities": capabilities, "Watch": watch, "Examine": examine, "Migrate": migrate,
		"Queue": queue, "Leave": leave,
	}
}

func TestUnreachableServers(t *testing.T) {
	good, err := url.Parse(server(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(*url.URL)) string {
		u := *good
		f(&u)
		return u.String()
	}
	for what, c := range map[string]struct {
		url  string
		says []string
	}{
		"wrong password": {change(func(u *url.URL) { u.User = url.UserPassword("postgres", canary) }), []string{"28P01", "see to the user and the password"}},
		"no user":        {change(func(u *url.URL) { u.User = url.UserPassword("nobody", canary) }), []string{"28P01", "nobody"}},
		"no database":    {change(func(u *url.URL) { u.Path = "/nowhere" }), []string{"3D000", "make the database, or name another"}},
		"nobody there":   {change(func(u *url.URL) { u.Host = fmt.Sprintf("127.0.0.1:%d", servers.FreePort(t)) }), []string{"refused"}},
		"no TLS":         {change(func(u *url.URL) { u.RawQuery = "sslmode=require" }), []string{"TLS"}},
	} {
		t.Run(what, func(t *testing.T) {
			for verb, err := range every(open(t, c.url)) {
				if errors.Is(err, store.ErrUnknown) {
					t.Errorf("%s: nothing was sent, and yet: %v", verb, err)
				}
				says(t, err, c.says...)
			}
		})
	}
}

// A server whose certificate is for another name.
func TestWrongTLSName(t *testing.T) {
	srv := servers.Postgres(t, quiet...)
	cert, key := certificate(t, "db.example")
	dir := filepath.Dir(srv.LogFile())
	info, err := os.Stat(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"server.crt": cert, "server.key": key} {
		path := filepath.Join(dir, "data", name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		giveTo(t, path, info)
	}
	run(t, admin(t, srv.URL), "ALTER SYSTEM SET ssl = on")
	srv.Stop()
	srv.Start()
	root := filepath.Join(t.TempDir(), "root.crt")
	if err := os.WriteFile(root, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	good := fresh(t, srv.URL, "sslmode", "verify-ca", "sslrootcert", root)
	if err := good.Ping(background); err != nil {
		t.Errorf("with the authority alone: %v", err)
	}
	says(t, open(t, srv.URL, "sslmode", "verify-full", "sslrootcert", root).Ping(background), "127.0.0.1", "certificate")
}

// certificate makes one that signs itself.
func certificate(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bytes})
}

func TestMissingTables(t *testing.T) {
	s := open(t, server(t).URL, "schema", newSchema())
	for _, what := range []string{"no schema", "no table", "no second table", "no column"} {
		switch what {
		case "no table":
			run(t, s.pool, "CREATE SCHEMA "+s.tables.schema)
		case "no second table":
			migrate(t, s)
			run(t, s.pool, "ALTER TABLE "+s.tables.floor+" RENAME TO elsewhere")
		case "no column":
			run(t, s.pool, "ALTER TABLE "+s.tables.schema+".elsewhere RENAME TO soloist_floor")
			run(t, s.pool, "ALTER TABLE "+s.tables.records+" DROP COLUMN token")
		}
		_, err := try(s, "name", "a", time.Minute)
		if !errors.Is(err, store.ErrSchema) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
		says(t, err, "run soloist migrate up")
	}
}

func TestNewerSchema(t *testing.T) {
	s := fresh(t, server(t).URL)
	run(t, s.pool, "UPDATE "+s.tables.meta+" SET version = 7")
	_, err := s.Migrate(background)
	if !errors.Is(err, store.ErrSchema) {
		t.Errorf("%v", err)
	}
	says(t, err, "version 7", "newer")
	if f := finding(t, s, "schema"); f.Level != store.LevelError || !strings.Contains(f.Found, "version 7") {
		t.Errorf("%+v", f)
	}
}

// Tables of version 1 have no lines, and those of version 2 neither floors nor a secret. Migrate makes them, and what
// is held stays held.
func TestOlderSchema(t *testing.T) {
	for version := 1; version < schemaVersion; version++ {
		s := fresh(t, server(t).URL)
		lease := take(t, s, "name", "a", time.Hour)
		if version == 1 {
			run(t, s.pool, "DROP TABLE "+s.tables.line)
		}
		run(t, s.pool, "DROP TABLE "+s.tables.floor)
		floor := lease.Token + time.Hour.Microseconds()
		run(t, s.pool, "ALTER TABLE "+s.tables.meta+" DROP COLUMN secret, ADD COLUMN floor bigint NOT NULL DEFAULT $1",
			pgx.QueryExecModeSimpleProtocol, floor)
		run(t, s.pool, "UPDATE "+s.tables.meta+" SET version = $1", version)
		said := fmt.Sprintf("version %d", version)
		err := tryRelease(s, lease)
		if !errors.Is(err, store.ErrSchema) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("a release in tables of %s: %v", said, err)
		}
		says(t, err, "run soloist migrate up")
		if _, err := try(reopen(t, s), "other", "a", time.Minute); !errors.Is(err, store.ErrSchema) ||
			!strings.Contains(err.Error(), said) {
			t.Errorf("the first claim of a handle in tables of %s: %v", said, err)
		}
		if f := finding(t, s, "schema"); f.Level != store.LevelError || !strings.Contains(f.Found, said) {
			t.Errorf("%+v", f)
		}
		did := migrate(t, s)
		text := strings.Join(did, "; ")
		if strings.Contains(text, "made table "+s.tables.line) != (version == 1) || !strings.Contains(text, "version 3") {
			t.Errorf("migrating from %s did %q", said, did)
		}
		if did := migrate(t, s); len(did) > 0 {
			t.Errorf("migrating again did %q", did)
		}
		if f := finding(t, s, "schema"); f.Level != store.LevelOK {
			t.Errorf("%+v", f)
		}
		if size := one[int](t, s.pool, "SELECT length(secret) FROM "+s.tables.meta); size != 32 {
			t.Errorf("the secret has %d bytes", size)
		}
		const floors = "SELECT count(*) FROM pg_attribute WHERE attrelid = $1::text::regclass AND attname = 'floor'"
		if n := one[int](t, s.pool, floors, s.tables.meta); n != 0 {
			t.Error("the floor is still where it was")
		}
		if other := take(t, s, "other", "a", time.Minute); other.Token <= floor {
			t.Errorf("token %d does not go by the floor %d of before", other.Token, floor)
		}
		b := waits(s, "name", "b")
		places(t, s, "name", "b")
		release(t, s, lease)
		release(t, s, heir(t, s, b, "name", "b"))
	}
}

func finding(t *testing.T, s *Store, subject string) store.Finding {
	t.Helper()
	found, err := s.Examine(background)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Subject == subject {
			return f
		}
	}
	t.Fatalf("nothing is said about the %s: %+v", subject, found)
	return store.Finding{}
}

// Each right that the role lacks is named, by the error of the verb that needs it and by the examination.
func TestMissingPrivileges(t *testing.T) {
	base := server(t).URL
	owner := fresh(t, base)
	db := admin(t, base)
	run(t, db, "CREATE ROLE lacking LOGIN PASSWORD '"+servers.PostgresPassword+"'")
	s := open(t, as(base, "lacking"), "schema", owner.tables.schema)
	_, err := try(s, "name", "a", time.Minute)
	says(t, err, "42501", "GRANT")
	run(t, db, "GRANT USAGE ON SCHEMA "+owner.tables.schema+" TO lacking")
	grant := func(what, to string) {
		tables := []string{owner.tables.records, owner.tables.meta, owner.tables.line, owner.tables.floor}
		run(t, db, fmt.Sprintf("%s ALL ON %s %s lacking", what, strings.Join(tables, ", "), to))
	}
	for _, right := range []struct {
		name, table string
		verbs       []string
	}{
		{"SELECT", owner.tables.records, []string{"Acquire", "Extend", "Release", "Choose", "List", "Sweep"}},
		{"INSERT", owner.tables.records, []string{"Acquire", "Choose"}},
		{"UPDATE", owner.tables.records, []string{"Acquire", "Extend", "Release", "Choose", "Sweep"}},
		{"DELETE", owner.tables.records, []string{"Sweep"}},
		{"SELECT", owner.tables.meta, []string{"Ping"}},
		{"SELECT", owner.tables.floor, []string{"Acquire", "Choose", "Queue", "Sweep"}},
		{"INSERT", owner.tables.floor, []string{"Sweep"}},
		{"UPDATE", owner.tables.floor, []string{"Acquire", "Choose", "Queue", "Sweep"}},
		{"DELETE", owner.tables.floor, []string{"Sweep"}},
		{"SELECT", owner.tables.line, []string{"Release", "Queue", "Leave", "Sweep"}},
		{"INSERT", owner.tables.line, []string{"Queue"}},
		{"UPDATE", owner.tables.line, []string{"Release", "Sweep"}},
		{"DELETE", owner.tables.line, []string{"Release", "Queue", "Leave", "Sweep"}},
	} {
		grant("GRANT", "TO")
		run(t, db, fmt.Sprintf("REVOKE %s ON %s FROM lacking", right.name, right.table))
		forgettable := take(t, owner, "forgettable", "x", time.Minute)
		forgettable.Retain = 0
		release(t, owner, forgettable)
		errs := every(s)
		for _, verb := range right.verbs {
			if errs[verb] == nil {
				t.Fatalf("%s without %s on %s: no error", verb, right.name, right.table)
			}
			says(t, errs[verb], "42501", "GRANT")
			if errors.Is(errs[verb], store.ErrUnknown) {
				t.Errorf("%s without %s: %v", verb, right.name, errs[verb])
			}
		}
		want := fmt.Sprintf("GRANT %s ON %s TO \"lacking\";", right.name, right.table)
		if f := finding(t, s, "privileges"); f.Level != store.LevelError || f.Fix != want {
			t.Errorf("%+v, want %q", f, want)
		}
		run(t, db, want)
		if f := finding(t, s, "privileges"); f.Level != store.LevelOK {
			t.Errorf("after the fix: %+v", f)
		}
	}
}

// A server that does not let a role in, and a right that it lacks, are fs.ErrPermission, and a database that is not there is store.ErrUnusable: so nobody tries
// again without end.
func TestWhatLastsIsToldByItsKind(t *testing.T) {
	base := server(t).URL
	role := newSchema()
	db := admin(t, base)
	run(t, db, "CREATE ROLE "+role+" NOLOGIN PASSWORD '"+servers.PostgresPassword+"'")
	wrong, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	wrong.User = url.UserPassword("postgres", canary)
	nowhere := *wrong
	nowhere.User, nowhere.Path = url.UserPassword("postgres", servers.PostgresPassword), "/nowhere"
	for what, c := range map[string]struct {
		url, says string
		kind      error
	}{
		"a wrong password":             {wrong.String(), codeBadPassword, fs.ErrPermission},
		"a role that may not log in":   {as(base, role), codeBadLogin, fs.ErrPermission},
		"a database that is not there": {nowhere.String(), codeNoDatabase, store.ErrUnusable},
	} {
		for verb, err := range every(open(t, c.url)) {
			says(t, err, c.says)
			if !errors.Is(err, c.kind) {
				t.Errorf("%s, %s: %v; want %v", what, verb, err, c.kind)
			}
		}
	}
	run(t, db, "ALTER ROLE "+role+" LOGIN")
	if _, err := open(t, as(base, role), "schema", newSchema()).Migrate(background); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("migrating without the right to create: %v; want %v", err, fs.ErrPermission)
	}
	owner := fresh(t, base)
	if _, err := try(open(t, as(base, role), "schema", owner.tables.schema), "name", "a", time.Minute); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a claim without rights: %v; want %v", err, fs.ErrPermission)
	}
}

func TestStatementTimeout(t *testing.T) {
	s := fresh(t, server(t).URL)
	lease := take(t, s, "name", "a", time.Minute)
	hasty := open(t, server(t).URL, "schema", s.tables.schema, "statement_timeout", "50")
	tx, err := s.pool.Begin(background)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(background)
	run(t, tx, "LOCK TABLE "+s.tables.records)
	err = tryExtend(hasty, lease, time.Minute)
	says(t, err, "57014", "statement_timeout")
	if errors.Is(err, store.ErrUnknown) {
		t.Errorf("the statement was rolled back, and yet: %v", err)
	}
}

func TestTokensEnd(t *testing.T) {
	s := fresh(t, server(t).URL)
	for _, name := range []string{"old", "nearly"} {
		release(t, s, take(t, s, name, "a", time.Minute))
	}
	run(t, s.pool, "UPDATE "+s.tables.records+" SET token = $1 WHERE name = 'old'", int64(math.MaxInt64))
	run(t, s.pool, "UPDATE "+s.tables.records+" SET token = $1 WHERE name = 'nearly'", int64(math.MaxInt64-1))
	if g, err := try(s, "nearly", "a", time.Minute); err != nil || g.Token != math.MaxInt64 {
		t.Errorf("%+v, %v", g, err)
	}
	run(t, s.pool, "INSERT INTO "+s.tables.floor+" VALUES ($1)", int64(math.MaxInt64))
	for _, name := range []string{"old", "new"} {
		if _, err := try(s, name, "a", time.Minute); !errors.Is(err, store.ErrTokens) {
			t.Errorf("%s: %v", name, err)
		}
		if _, grant, err := s.Choose(background, []string{name}, claim("x", "a", time.Minute)); !errors.Is(err, store.ErrTokens) {
			t.Errorf("choosing %s: %v, %v", name, grant, err)
		}
	}
}

func TestURLs(t *testing.T) {
	for text, want := range map[string]Config{
		"postgres://u@h/d": {},
		"postgresql://u@h1:1,h2:2/d?target_session_attrs=primary": {},
		"postgres:///d?host=/run/postgresql":                      {},
		"postgres://u@h/d?table=leases&schema=app&listen=off":     {Table: "leases", Schema: "app", Listen: ListenOff},
		"postgres://u@h/d?shedlock=true&pool_max_conns=7":         {ShedLock: true},
		"cockroach://u@h:26257/d?sslmode=verify-full":             {Dialect: CockroachDB},
		"cockroachdb://u@h:26257/d":                               {Dialect: CockroachDB},
	} {
		pool, cfg, err := ParseURL(text)
		if err != nil || cfg != want {
			t.Errorf("%s: %+v, %v", text, cfg, err)
			continue
		}
		for _, ours := range options {
			if v, there := pool.ConnConfig.RuntimeParams[ours]; there {
				t.Errorf("%s: the server is told %s=%s", text, ours, v)
			}
		}
	}
	for text, want := range map[string]uint16{
		"cockroach://u@h/d": 26257, "cockroach://u@h:1234/d": 1234, "cockroach://u@h/d?port=1234": 1234, "cockroach://u@h,i/d": 26257, "postgres://u@h/d": 5432, "postgres://u@h:1234/d": 1234,
	} {
		if pool, _, err := ParseURL(text); err != nil || pool.ConnConfig.Port != want {
			t.Errorf("%s: %+v, %v; want the port %d", text, pool, err, want)
		}
	}
	secret := url.QueryEscape(canary)
	for _, text := range []string{
		"postgres://u:" + secret + "@h/d?tabel=x", "postgres://u:" + secret + "@h/d?shedlock=perhaps", "postgres://u:" + secret + "@h/d?listen=on",
		"postgres://u:" + secret + "@h/d?table=a;b", "postgres://u:" + secret + "@h/d?table=A", "postgres://u:" + secret + "@h/d?schema=a.b",
		"postgres://u:" + secret + "@h/d?shed_lock=true", "postgres://u:" + secret + "@h/d?Table=x", "postgres://u:" + secret + "@h/d?table=a&table=b",
		"postgres://u:" + secret + "@h:port/d", "postgres:u:" + secret + "@h/d", "mysql://u:" + secret + "@h/d", "postgres://u:" + secret + "@h/d?sslmode=x",
		"postgres://u:" + secret + "@h/d?pool_max_conns=many", "postgres://u:" + canary + "@h/d?a=%zz", "postgres://h/d?sslmode=x&password=" + secret,
		"postgres://u:" + secret + "@h/d?default_query_exec_mode=x", "postgres://u:" + secret + "@h/d?table=" + strings.Repeat("x", 51),
		"postgres://u:" + secret + "@h/d?sslmode=verify-full&sslrootcert=/nowhere&sslpassword=" + secret, "postgres://u:" + canary + "\x7f@h", ":" + canary,
		"postgres://u:" + secret + "@h/d#?table=x", "postgres://u@h/d?password=" + secret + "#" + secret + "&table=x", "postgres://u:" + secret + "@h/d#",
	} {
		s, err := OpenURL(background, text)
		var invalid *store.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v, %v", text, s, err)
			continue
		}
		says(t, err)
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestNewChecksItsConfig(t *testing.T) {
	good := fresh(t, server(t).URL)
	for _, cfg := range []Config{{Table: "a b"}, {Schema: "A"}, {Dialect: 7}, {Listen: 7}, {Table: `x";--`}} {
		if _, err := New(good.pool, cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
	if _, err := New(nil, Config{}); err == nil {
		t.Error("no pool was taken")
	}
}

// What is said to be the schema makes tables that a migration finds as they should be.
func TestSchemaIsTheSchema(t *testing.T) {
	for _, options := range [][]string{nil, {"shedlock", "true"}} {
		s := open(t, server(t).URL, append([]string{"schema", newSchema()}, options...)...)
		script(t, s, s.Schema())
		if did := migrate(t, s); len(did) > 0 {
			t.Errorf("%v: after the schema a migration did %q", options, did)
		}
		take(t, s, "name", "a", time.Minute)
	}
}

func script(t *testing.T, s *Store, text string) {
	t.Helper()
	c, err := s.pool.Acquire(background)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if err := c.Conn().PgConn().Exec(background, text).Close(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// Many replicas migrate at once; one does it, and the others find it done.
func TestManyMigrateAtOnce(t *testing.T) {
	for _, scheme := range []string{"postgres", "cockroach"} {
		base := scheme + with(server(t).URL, "schema", newSchema(), "shedlock", "true")[len("postgres"):]
		errs := make(chan error, 8)
		lines := make(chan int, 8)
		for range 8 {
			go func() {
				s, err := OpenURL(background, base)
				if err == nil {
					defer s.Close()
					var did []string
					did, err = s.Migrate(background)
					lines <- len(did)
				}
				errs <- err
			}()
		}
		did := 0
		for range 8 {
			if err := <-errs; err != nil {
				t.Errorf("%s: %v", scheme, err)
			}
			did += min(1, <-lines)
		}
		if did != 1 {
			t.Errorf("%s: %d have done something", scheme, did)
		}
	}
}

func TestExamine(t *testing.T) {
	s := fresh(t, server(t).URL)
	found, err := s.Examine(background)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Level != store.LevelOK {
			t.Errorf("%+v", f)
		}
		t.Logf("%s: %s", f.Subject, f.Found)
	}
	lazy := servers.Postgres(t, "fsync=off", "synchronous_commit=off", "default_transaction_read_only=on")
	s = open(t, lazy.URL)
	for subject, level := range map[string]store.Level{"durability": store.LevelError, "server": store.LevelError, "schema": store.LevelError} {
		if f := finding(t, s, subject); f.Level != level || f.Fix == "" {
			t.Errorf("%+v", f)
		}
	}
	c, err := s.Capabilities(background)
	if err != nil || c.Fencing.Answer != store.No || c.Durable.Answer != store.No {
		t.Errorf("%+v, %v", c, err)
	}
	s = open(t, servers.PgBouncer(t, lazy).URL)
	if f := finding(t, s, "pooler"); f.Level != store.LevelWarning {
		t.Errorf("%+v", f)
	}
}
