//go:build unix

package histories

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/mysqlstore"
	"github.com/soloist-dev/soloist/store/pgstore"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/store/sqlitestore"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"
)

var (
	operations = flag.Int("histories.ops", 4000, "how many operations each store is asked for, at least")
	only       = flag.String("histories.faults", "", "only the faults whose names contain this")
)

// perRound is how many actions of the actors make a round.
const perRound = 800

func TestMain(m *testing.M) {
	if about := os.Getenv(racingVariable); about != "" {
		if err := runRace(about); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	disk.install()
	servers.Main(m)
}

// try runs rounds until there have been enough operations on names that could be checked, and at least one of everything. On a slow machine
// more requests are under way at once, and of more names the order cannot be searched through.
func try(t *testing.T, b *rig) {
	t.Helper()
	b.faults = slices.DeleteFunc(b.faults, func(f fault) bool { return !strings.Contains(f.name, *only) })
	r := &run{rig: b, drift: 0.02, tally: tally{}}
	begun, enough := time.Now(), *operations
	if b.to != nil { // most of the time replicas are restarted
		enough /= 10
	}
	checked := func() int { return r.verdict.Operations * (r.names() - r.verdict.Unchecked) / max(r.names(), 1) }
	for checked() < enough || len(r.tally.lacking(r.wanted()...)) > 0 {
		if r.verdict.Operations > 10*enough && checked() < enough {
			t.Fatalf("%d of %d names could not be checked: too many for the verdict to mean something", r.verdict.Unchecked, r.names())
		}
		if err := r.round(t.Context(), perRound); err != nil {
			t.Fatalf("after %d rounds without %v: %v", r.rounds, r.tally.lacking(r.wanted()...), err)
		}
		if len(r.verdict.Violations) > 0 {
			keep(t, r.last)
			break
		}
	}
	v := r.verdict
	t.Logf("%d rounds in %v, what there was of everything: %v\n%s", r.rounds, time.Since(begun).Round(time.Second), r.tally, v)
	if missing := r.tally.lacking(r.wanted()...); len(missing) > 0 && len(v.Violations) == 0 {
		t.Errorf("nothing was seen of %v", missing)
	}
	for _, violation := range v.Violations {
		t.Errorf("%s", violation)
	}
}

// keep writes the history of a round with a violation where it can be read afterwards.
func keep(t *testing.T, h proof.History) {
	t.Helper()
	f, err := os.CreateTemp("", "history-*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := h.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	t.Logf("the whole history of the round with the violation is in %s", f.Name())
}

// handles opens a few stores of one URL.
func handles[S store.Store](t *testing.T, open func() (S, error)) (all []store.Store) {
	t.Helper()
	for range 3 {
		s, err := open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		all = append(all, s)
	}
	return all
}

// wired leads a URL through a wire, whose faults it returns.
func wired(t *testing.T, base string) (to string, faults []fault) {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWire(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	u.Host = w.addr()
	return u.String(), []fault{
		{"connection delayed", func(context.Context, []string) bool { return w.delay(while()) }},
		{"connection cut", func(context.Context, []string) bool { return w.cut() }},
	}
}

func TestPostgreSQL(t *testing.T) {
	servers.Long(t)
	t.Parallel()
	try(t, postgresRig(t))
}

func postgresRig(t *testing.T) *rig {
	t.Helper()
	s := servers.Postgres(t, "fsync=off", "max_connections=100", "log_min_messages=fatal")
	if s.Process == nil {
		t.Skip("the backends of a server that is not our own are not stopped")
	}
	to, faults := wired(t, s.URL)
	b := &rig{stores: handles(t, func() (*pgstore.Store, error) { return pgstore.OpenURL(t.Context(), to) }), faults: faults}
	if _, err := b.stores[0].(*pgstore.Store).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(context.Background(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b.faults = append(b.faults, postgresFaults(pool)...)
	b.complete = func(ctx context.Context, c store.Completion, hold time.Duration, commit bool) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if err := b.stores[0].(*pgstore.Store).Complete(ctx, tx, c); err != nil {
			return err
		}
		time.Sleep(hold)
		if !commit {
			return nil
		}
		return store.AsUnknown(tx.Commit(ctx))
	}
	return b
}

// postgresFaults stop and end single backends, hold up commits, and have transactions of others insert names.
func postgresFaults(pool *pgxpool.Pool) []fault {
	backend := func(ctx context.Context) (pid int, ok bool) {
		err := pool.QueryRow(ctx, "SELECT pid FROM pg_stat_activity WHERE application_name = 'soloist' ORDER BY random() LIMIT 1").Scan(&pid)
		return pid, err == nil
	}
	return []fault{
		{"backend stopped", func(ctx context.Context, _ []string) bool {
			pid, ok := backend(ctx)
			if !ok || syscall.Kill(pid, syscall.SIGSTOP) != nil {
				return false
			}
			time.Sleep(while())
			return syscall.Kill(pid, syscall.SIGCONT) == nil
		}},
		{"backend ended", func(ctx context.Context, _ []string) bool {
			pid, ok := backend(ctx)
			if ok {
				_, err := pool.Exec(ctx, "SELECT pg_terminate_backend($1)", pid)
				ok = err == nil
			}
			return ok
		}},
		{"commit held up", func(ctx context.Context, _ []string) bool { // by a replica that they are to wait for, and that there is not
			stands := func(ctx context.Context, replica string) bool {
				_, err := pool.Exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = '"+replica+"'")
				if err == nil {
					_, err = pool.Exec(ctx, "SELECT pg_reload_conf()")
				}
				return err == nil
			}
			always := context.WithoutCancel(ctx)
			defer stands(always, "")
			if !stands(ctx, "nobody") {
				return false
			}
			time.Sleep(while())
			var waiting bool
			err := pool.QueryRow(always, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')").Scan(&waiting)
			return err == nil && waiting
		}},
		{"name being inserted", func(ctx context.Context, names []string) bool {
			bound, cancel := context.WithTimeout(ctx, while())
			defer cancel()
			tx, err := pool.Begin(bound)
			if err != nil {
				return false
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			return insertAndWait(bound, tx, names)
		}},
	}
}

// insertAndWait inserts a row that is never committed, and reports whether one of the names had none.
func insertAndWait(ctx context.Context, tx pgx.Tx, names []string) bool {
	for _, i := range rand.Perm(len(names)) {
		tag, err := tx.Exec(ctx, "INSERT INTO soloist (name, lock_until, locked_at, locked_by) VALUES ($1, 'epoch', 'epoch', '') ON CONFLICT DO NOTHING", names[i])
		if err != nil {
			return false
		}
		if tag.RowsAffected() == 1 {
			<-ctx.Done()
			return true
		}
	}
	return false
}

func TestMariaDB(t *testing.T) {
	servers.Long(t)
	t.Parallel()
	try(t, mariadbRig(t))
}

func mariadbRig(t *testing.T) *rig {
	t.Helper()
	s := servers.MariaDB(t, "--innodb-flush-log-at-trx-commit=0", "--max-connections=200")
	to, faults := wired(t, s.URL)
	b := &rig{stores: handles(t, func() (*mysqlstore.Store, error) { return mysqlstore.OpenURL(t.Context(), to) }), faults: faults}
	if _, err := b.stores[0].(*mysqlstore.Store).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.DBName, cfg.User = "tcp", u.Host, strings.TrimPrefix(u.Path, "/"), u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	b.faults = append(b.faults, mariadbFaults(db)...)
	b.complete = func(ctx context.Context, c store.Completion, hold time.Duration, commit bool) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := b.stores[0].(*mysqlstore.Store).Complete(ctx, tx, c); err != nil {
			return err
		}
		time.Sleep(hold)
		if !commit {
			return nil
		}
		return store.AsUnknown(tx.Commit())
	}
	return b
}

// mariadbFaults end single connections, hold up commits, and have transactions of others lock rows.
func mariadbFaults(db *sql.DB) []fault {
	return []fault{
		{"backend ended", func(ctx context.Context, _ []string) bool {
			var id int64
			err := db.QueryRowContext(ctx, "SELECT id FROM information_schema.processlist WHERE command <> 'Daemon' AND id <> connection_id() ORDER BY rand() LIMIT 1").Scan(&id)
			if err == nil {
				_, err = db.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", id))
			}
			return err == nil
		}},
		{"commit held up", func(ctx context.Context, _ []string) bool { // by somebody who begins to make a copy
			conn, err := db.Conn(ctx)
			if err != nil {
				return false
			}
			defer conn.Close()
			always := context.WithoutCancel(ctx)
			defer func() { _, _ = conn.ExecContext(always, "BACKUP STAGE END") }()
			for _, stage := range []string{"START", "BLOCK_COMMIT"} {
				if _, err := conn.ExecContext(always, "BACKUP STAGE "+stage); err != nil {
					return false
				}
			}
			time.Sleep(while())
			var waiting int
			err = conn.QueryRowContext(always, "SELECT count(*) FROM information_schema.processlist WHERE state = 'Waiting for backup lock'").Scan(&waiting)
			return err == nil && waiting > 0
		}},
		{"rows locked", func(ctx context.Context, names []string) bool {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return false
			}
			defer func() { _ = tx.Rollback() }()
			var name string
			err = tx.QueryRowContext(ctx, "SELECT name FROM soloist WHERE name = ? FOR UPDATE", names[rand.IntN(len(names))]).Scan(&name)
			if err == nil {
				time.Sleep(while())
			}
			return err == nil
		}},
	}
}

func TestRedis(t *testing.T) {
	servers.Long(t)
	t.Parallel()
	try(t, redisRig(t))
}

func redisRig(t *testing.T) *rig {
	t.Helper()
	s := servers.Redis(t, "--appendonly", "no")
	to, faults := wired(t, s.URL)
	b := &rig{stores: handles(t, func() (*redisstore.Store, error) { return redisstore.OpenURL(t.Context(), to) }), faults: faults}
	b.faults = append(b.faults, fault{"client killed", func(context.Context, []string) bool {
		id, _, _ := strings.Cut(strings.TrimPrefix(redisCommand(s.Addr, "CLIENT LIST TYPE normal"), "id="), " ")
		return redisCommand(s.Addr, "CLIENT KILL ID "+id) != ""
	}}, fault{"server stopped", func(context.Context, []string) bool {
		s.Pause()
		defer s.Resume()
		time.Sleep(while())
		return true
	}})
	return b
}

// redisCommand runs a command, and returns what follows the first line of its reply; "" when the server cannot be reached.
func redisCommand(addr, command string) string {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return ""
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, command+"\r\n"); err != nil {
		return ""
	}
	reply := make([]byte, 4096)
	n, _ := conn.Read(reply)
	if line, rest, several := strings.Cut(string(reply[:n]), "\n"); !several || rest == "" {
		return line
	} else {
		return rest
	}
}

func TestSQLite(t *testing.T) {
	servers.Long(t)
	t.Parallel()
	try(t, sqliteRig(t))
}

func sqliteRig(t *testing.T) *rig {
	t.Helper()
	path := filepath.Join(servers.Directory(t), "leases.db") // in memory if that can be: what is tried here is not the disk
	b := &rig{stores: handles(t, func() (*sqlitestore.Store, error) { return sqlitestore.Open(path) }), sure: true}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	b.faults = []fault{{"file locked", func(ctx context.Context, _ []string) bool {
		conn, err := db.Conn(ctx)
		if err != nil {
			return false
		}
		defer conn.Close()
		if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
			return false
		}
		time.Sleep(while() / 4)
		_, err = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return err == nil
	}}, {"commit held up", func(context.Context, []string) bool { return disk.hold(while()) }}}
	return b
}
