package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"testing"

	"github.com/soloist-dev/soloist/test/servers"

	"github.com/go-sql-driver/mysql"
)

func TestMain(m *testing.M) { servers.Main(m) }

var mariadb = servers.Shared(func(t servers.Test) *servers.MariaDBServer { return servers.MariaDB(t) })

// dsn makes the driver's configuration from a URL of a test server.
func dsn(t testing.TB, rawURL string) *mysql.Config {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	cfg := mysql.NewConfig()
	cfg.Logger = &mysql.NopLogger{}
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName = "tcp", u.Host, u.User.Username(), u.Path[1:]
	cfg.Passwd, _ = u.User.Password()
	return cfg
}

// connect opens its own database.
func connect(t testing.TB, rawURL string, change func(*mysql.Config)) *sql.DB {
	t.Helper()
	cfg := dsn(t, rawURL)
	if change != nil {
		change(cfg)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(32)
	t.Cleanup(func() { db.Close() })
	return db
}

var tables atomic.Int64

// newTable returns a name that no other test has.
func newTable(t testing.TB) string {
	return fmt.Sprintf("t%d_%d", os.Getpid(), tables.Add(1))
}

// open makes a store with its own tables.
func open(t testing.TB, db *sql.DB, cfg Config) *Store {
	t.Helper()
	if cfg.Table == "" {
		cfg.Table = newTable(t)
	}
	s, err := New(db, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		drop(t, db, s)
	})
	return s
}

func drop(t testing.TB, db *sql.DB, s *Store) {
	for _, name := range []string{s.cfg.Table, s.cfg.Table + "_meta"} {
		if _, err := db.ExecContext(context.Background(), "DROP TABLE IF EXISTS "+s.table(name)); err != nil {
			t.Logf("dropping %s: %v", name, err)
		}
	}
}

func exec(t testing.TB, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}
