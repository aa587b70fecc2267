package pgstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A role, or a database, can have the setting client_encoding. A name is the same record for processes with another one, and is not held twice.
func TestNamesAreTheSameWhateverTheEncodingOfTheSession(t *testing.T) {
	const name = "bücher"
	s := fresh(t, server(t).URL)
	for _, encoding := range []string{"LATIN1", "WIN1252", "SQL_ASCII"} {
		other := open(t, server(t).URL, "schema", s.tables.schema, "options", "-c client_encoding="+encoding)
		lease := take(t, s, name, "a", time.Hour)
		var held *store.HeldError
		if _, err := try(other, name, "b", time.Hour); !errors.As(err, &held) || held.Record.Name != name || held.Record.Holder != "a" {
			t.Errorf("%s: the name is held, and the other process was told %v", encoding, err)
		}
		release(t, other, lease)
		release(t, other, take(t, other, name, "hölder", time.Hour))
		n := 0
		for r, err := range other.List(background, "") {
			n++
			if err != nil || r.Name != name {
				t.Errorf("%s: listed %+v, %v", encoding, r, err)
			}
		}
		if n != 1 {
			t.Errorf("%d records, want 1", n)
		}
	}

	// A pool that Prepare was not given is refused, with what is to be done.
	cfg, err := pgxpool.ParseConfig(server(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.RuntimeParams["client_encoding"] = "LATIN1"
	pool, err := pgxpool.NewWithConfig(background, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	bare, err := New(pool, s.tables.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	_, err = try(bare, name, "b", time.Hour)
	says(t, err, "LATIN1", "pgstore.Prepare", "ALTER ROLE")
	if !errors.Is(err, store.ErrUnusable) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("%v: want store.ErrUnusable, and nothing unknown", err)
	}
}

// Statements have no strings that a server may take in two ways: old settings do not keep names from being released.
func TestOldSettingsOfStrings(t *testing.T) {
	s := fresh(t, server(t).URL, "options", "-c standard_conforming_strings=off -c escape_string_warning=off -c bytea_output=escape -c array_nulls=off")
	other := open(t, server(t).URL, "schema", s.tables.schema)
	lease := take(t, s, "name", "a", time.Hour)
	answer := waits(other, "name", "b")
	places(t, s, "name", "b")
	lease.State = []byte("\x00\\'")
	release(t, s, lease)
	release(t, s, heir(t, other, answer, "name", "b"))
	lease = take(t, s, "name", "c", time.Hour)
	ctx, stop := context.WithTimeout(background, servers.Patience)
	defer stop()
	wake, err := other.Watch(ctx, []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	drain(wake)
	release(t, s, lease)
	select {
	case <-wake:
	case <-ctx.Done():
		t.Error("a watch was not woken")
	}
}

// Where somebody has emptied the table of floors, no name without a record is taken, and the error says which table it is, alone and in a batch. Other names go on.
// Nobody can wait in a queue without the row of the other table, and is told so.
func TestEmptyTables(t *testing.T) {
	s := fresh(t, server(t).URL)
	release(t, s, take(t, s, "old", "a", time.Hour))
	run(t, s.pool, "DELETE FROM "+s.tables.floor)
	told := func(verb string, err error) {
		t.Helper()
		says(t, err, s.tables.floor, `"new"`, "soloist doctor")
		if errors.Is(err, store.ErrHeld) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: %v: nobody holds it, and nothing was done", verb, err)
		}
	}
	_, err := try(s, "new", "a", time.Hour)
	told("Acquire", err)
	outs, err := s.Acquire(background, []store.Claim{claim("new", "a", time.Hour), claim("old", "a", time.Hour)})
	if err != nil || outs[1].Err != nil {
		t.Fatalf("a batch: %v, %+v", err, outs)
	}
	told("a batch", outs[0].Err)
	release(t, s, store.Release{Name: "old", Holder: "a", Token: outs[1].Grant.Token, Retain: store.Forever})
	_, _, err = s.Queue(background, claim("new", "a", time.Hour))
	told("Queue", err)
	_, _, err = s.Choose(background, []string{"new"}, claim("", "a", time.Hour))
	told("Choose", err)
	if i, _, err := s.Choose(background, []string{"new", "old"}, claim("", "b", time.Hour)); err != nil || i != 1 {
		t.Errorf("a choice with a name that has a record: %d, %v", i, err)
	}
	run(t, s.pool, "DELETE FROM "+s.tables.meta)
	_, _, err = reopen(t, s).Queue(background, claim("old", "c", time.Hour)) // a handle that listens already knows the secret
	if says(t, err, "migrate up"); !errors.Is(err, store.ErrSchema) {
		t.Errorf("without the row of the version: %v; want store.ErrSchema", err)
	}
}

// What is promised follows the settings, as the documentation has it.
func TestPromisesFollowTheSettings(t *testing.T) {
	good := settings{version: "15", fsync: true, fullPages: true, commit: "on", told: true, warned: true}
	replicated := good
	replicated.names, replicated.standbys, replicated.syncs = "*", 1, 1
	for what, c := range map[string]struct {
		from             settings
		change           func(v *settings)
		fencing, durable store.Answer
	}{
		"one primary":                    {good, func(*settings) {}, store.Yes, store.Yes},
		"without fsync":                  {good, func(v *settings) { v.fsync = false }, store.No, store.No},
		"torn pages":                     {good, func(v *settings) { v.fullPages = false }, store.No, store.No},
		"commits are not waited for":     {good, func(v *settings) { v.commit = "off" }, store.No, store.No},
		"a standby":                      {good, func(v *settings) { v.standby = true }, store.No, store.Yes},
		"read-only":                      {good, func(v *settings) { v.readOnly = true }, store.No, store.Yes},
		"an asynchronous standby":        {good, func(v *settings) { v.standbys = 1 }, store.No, store.Yes},
		"a slot of one that is away":     {good, func(v *settings) { v.slots = 1 }, store.No, store.Yes},
		"its own disk alone, no names":   {good, func(v *settings) { v.commit = "local" }, store.Yes, store.Yes},
		"a synchronous standby":          {replicated, func(*settings) {}, store.Yes, store.Yes},
		"one that applies":               {replicated, func(v *settings) { v.commit = "remote_apply" }, store.Yes, store.Yes},
		"one that has written":           {replicated, func(v *settings) { v.commit = "remote_write" }, store.No, store.Yes},
		"one that is not waited for":     {replicated, func(v *settings) { v.commit = "local" }, store.No, store.Yes},
		"one that is not shown":          {replicated, func(v *settings) { v.told = false }, store.Unknown, store.Yes},
		"a pool that is told nothing":    {replicated, func(v *settings) { v.warned = false }, store.Unknown, store.Yes},
		"a standby of a synchronous one": {replicated, func(v *settings) { v.standby = true }, store.No, store.Yes},
	} {
		v := c.from
		c.change(&v)
		if fencing, durable := v.fencing(), v.durable(); fencing.Answer != c.fencing || durable.Answer != c.durable || fencing.Why == "" || durable.Why == "" {
			t.Errorf("%s: fencing %+v, durable %+v; want %v, %v", what, fencing, durable, c.fencing, c.durable)
		}
	}
}

// What the pool's BeforeConnect sets, such as a password that it fetches, counts for each connection, also for the one that listens. Its error is that of the
// call, of which nothing was sent.
func TestBeforeConnectOfThePool(t *testing.T) {
	first := fresh(t, server(t).URL)
	cfg, _, err := ParseURL(server(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	noPassword := errors.New("the password cannot be fetched")
	var fetched atomic.Bool
	password := cfg.ConnConfig.Password
	cfg.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error {
		if !fetched.Load() {
			return noPassword
		}
		conn.Password = password
		return nil
	}
	s, err := Open(background, cfg, first.tables.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := try(s, "name", "a", time.Hour); !errors.Is(err, noPassword) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("a claim without a password: %v", err)
	}
	if _, err := s.Watch(t.Context(), []string{"name"}); !errors.Is(err, noPassword) {
		t.Errorf("a watch without a password: %v", err)
	}
	fetched.Store(true)
	cfg.ConnConfig.Password = "another" // the pool has its own copy
	lease := take(t, s, "name", "a", time.Hour)
	wake, err := s.Watch(t.Context(), []string{"name"})
	if err != nil {
		t.Fatal(err)
	}
	release(t, first, lease)
	select {
	case <-wake:
	case <-time.After(servers.Patience):
		t.Error("the release woke nobody")
	}
}

// Prepare, which Open calls, keeps the handlers that a configuration has: they are called for each connection and each notice as before.
func TestHandlersOfThePoolAreKept(t *testing.T) {
	cfg, _, err := ParseURL(server(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	var connected, noticed atomic.Int32
	refusal := errors.New("not this one")
	cfg.ConnConfig.AfterConnect = func(context.Context, *pgconn.PgConn) error {
		if connected.Add(1) == 1 {
			return refusal
		}
		return nil
	}
	cfg.ConnConfig.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) { noticed.Add(1) }
	s, err := Open(background, cfg, Config{Schema: newSchema()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Capabilities(background); !errors.Is(err, refusal) {
		t.Errorf("the handler has refused the connection: %v", err)
	}
	if _, err := s.Capabilities(background); err != nil {
		t.Error(err)
	}
	run(t, s.pool, "DO $$ BEGIN RAISE WARNING 'a word'; END $$")
	if connected.Load() < 2 || noticed.Load() != 1 {
		t.Errorf("called for %d connections and %d notices; want 2 or more, and 1", connected.Load(), noticed.Load())
	}
}

// TestPreparedConnections: what the pool does with a connection before each use, such as setting the search_path, is done with the one that listens, too. If the
// connection is refused, nothing listens with it.
func TestPreparedConnections(t *testing.T) {
	first := fresh(t, server(t).URL)
	prepare := func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET search_path TO "+first.tables.cfg.Schema)
		return err
	}
	refusal := errors.New("no role for this connection")
	for name, hooks := range map[string]func(*pgxpool.Config){
		"PrepareConn": func(cfg *pgxpool.Config) {
			cfg.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) { return true, prepare(ctx, conn) }
			setBeforeAcquire(cfg, func(context.Context, *pgx.Conn) bool { t.Error("the pool does not call both"); return false })
		},
		"BeforeAcquire": func(cfg *pgxpool.Config) {
			setBeforeAcquire(cfg, func(ctx context.Context, conn *pgx.Conn) bool { return prepare(ctx, conn) == nil })
		},
	} {
		cfg, _, err := ParseURL(server(t).URL)
		if err != nil {
			t.Fatal(err)
		}
		hooks(cfg)
		tables := first.tables.cfg
		tables.Schema = ""
		s, err := Open(background, cfg, tables)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		lease := take(t, s, name, "a", time.Hour)
		wake, err := s.Watch(t.Context(), []string{name})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		release(t, first, lease)
		select {
		case <-wake:
		case <-time.After(servers.Patience):
			t.Errorf("%s: the release woke nobody", name)
		}
	}
	for _, refuse := range []func(*pgxpool.Config){
		func(cfg *pgxpool.Config) {
			cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return true, refusal }
		},
		func(cfg *pgxpool.Config) {
			cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return false, refusal }
		},
		func(cfg *pgxpool.Config) {
			setBeforeAcquire(cfg, func(context.Context, *pgx.Conn) bool { return false })
		},
	} {
		cfg := first.pool.Config()
		refuse(cfg)
		pool, err := pgxpool.NewWithConfig(background, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if conn, err := (&Store{pool: pool}).dial(t.Context()); err == nil {
			_ = conn.Close(background)
			t.Error("a connection is used that the pool does not use")
		}
	}
}

func setBeforeAcquire(cfg *pgxpool.Config, fn func(context.Context, *pgx.Conn) bool) {
	cfg.BeforeAcquire = fn //nolint:staticcheck // as in prepare
}

// Through a pooler no statement is prepared, for the next one may go to another session of the server: that of a
// completion in the caller's transaction neither.
func TestNothingIsPreparedThroughAPooler(t *testing.T) {
	s := fresh(t, server(t).URL, "pool_max_conns", "1")
	s.fits.Store(true)
	s.unnamed.Store(true) // as when it has found that there is one
	lease := take(t, s, "name", "a", time.Hour)
	if err := tryExtend(s, lease, time.Hour); err != nil {
		t.Error(err)
	}
	tx := begin(t, s, pgx.TxOptions{})
	if err := s.Complete(background, tx, completion(lease, 1, "done")); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(background); err != nil {
		t.Error(err)
	}
	release(t, s, lease)
	var prepared []string
	sql := "SELECT coalesce(array_agg(left(statement, 100)), '{}') FROM pg_prepared_statements " +
		"WHERE strpos(statement, $1::text) > 0"
	if err := s.pool.QueryRow(background, sql, pgx.QueryExecModeExec, s.tables.records).Scan(&prepared); err != nil ||
		len(prepared) > 0 {
		t.Errorf("prepared: %q, %v", prepared, err)
	}
}

// A hangingUp connection says when its client has done with it.
type hangingUp struct {
	net.Conn
	over func()
}

func (c *hangingUp) Close() error {
	defer c.over()
	return c.Conn.Close()
}

// What a call stops waiting for is not cancelled at the server: a commit whose wait for a standby is cancelled is in
// force, and lost in a failover.
func TestWhatIsNotWaitedForIsNotCancelled(t *testing.T) {
	owner := fresh(t, server(t).URL)
	lease := take(t, owner, "name", "a", time.Hour)
	cfg := owner.pool.Config()
	var dials atomic.Int32
	over := make(chan struct{})
	done := sync.OnceFunc(func() { close(over) })
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		return &hangingUp{c, done}, err
	}
	cfg.MaxConns = 1
	s, err := Open(background, cfg, owner.tables.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := tryExtend(s, lease, time.Hour); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, owner, pgx.TxOptions{})
	run(t, tx, "LOCK TABLE "+owner.tables.records)
	before := dials.Load()
	ctx, cancel := context.WithCancel(background)
	extended := make(chan error, 1)
	go func() {
		_, err := s.Extend(ctx, extensionsOf([]store.Release{lease}, 3*time.Hour))
		extended <- err
	}()
	eventually(t, "the call waits", func() bool {
		return one[int](t, tx, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::text::regclass",
			owner.tables.records) > 0
	})
	cancel()
	if err := <-extended; !errors.Is(err, store.ErrUnknown) {
		t.Errorf("%v; want ErrUnknown", err)
	}
	select {
	case <-over:
	case <-time.After(servers.Patience):
		t.Fatal("the connection is not closed")
	}
	if n := dials.Load(); n != before {
		t.Fatalf("the server is called %d times to cancel what is not waited for", n-before)
	}
	if err := tx.Rollback(background); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was not cancelled is in force", func() bool {
		return recordOf(t, owner, "name").Left > 2*time.Hour
	})
}
