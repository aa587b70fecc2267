//go:build unix

package interop

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) {
	if library := os.Getenv(goPeer); library != "" {
		if err := serveGoPeer(library, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	servers.Main(m)
}

// What ShedLock's documentation tells its users to create.
const (
	postgresTable = `CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL,
		locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))`
	mysqlTable = `CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP(3) NOT NULL,
		locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))`
)

// otherColumns are the columns that ShedLock's documentation has for an example of others.
const otherColumns = "n,lck_untl,lckd_at,lckd_by"

// withOtherColumns returns the statement that makes a table with them.
func withOtherColumns(create string) string {
	return strings.NewReplacer("(name", "(n", "lock_until", "lck_untl", "locked_at", "lckd_at", "locked_by", "lckd_by").Replace(create)
}

var (
	postgresServer = servers.Shared(func(t servers.Test) *servers.PostgresServer { return servers.Postgres(t) })
	mariadbServer  = servers.Shared(func(t servers.Test) *servers.MariaDBServer { return servers.MariaDB(t) })
	redisServer    = servers.Shared(func(t servers.Test) *servers.RedisServer { return servers.Redis(t) })
)

// otherZone is one that is not the server's.
const otherZone = "-05:00"

// providers returns each provider, with its own table or keys on each call.
func providers() map[string]func(testing.TB) Options {
	inSQL := func(server func(testing.TB) string, create string, o Options) func(testing.TB) Options {
		return func(t testing.TB) Options {
			o := o
			o.URL = server(t)
			o.Table = shedlockTable(t, o.URL, create)
			return o
		}
	}
	inRedis := func(o Options) func(testing.TB) Options {
		return func(t testing.TB) Options {
			o := o
			o.URL, o.Env = redisServer(t).URL, newName()
			return o
		}
	}
	redisson := func(provider string) func(testing.TB) Options {
		return func(t testing.TB) Options { return Options{Provider: provider, URL: redisServer(t).URL} }
	}
	return map[string]func(testing.TB) Options{
		"PostgreSQL": inSQL(postgresURL, postgresTable, Options{Provider: "jdbc"}),
		"PostgreSQL, clock of the client": inSQL(postgresURL, postgresTable,
			Options{Provider: "jdbc-client-time", UTC: true, TimeZone: "America/New_York"}),
		"PostgreSQL, other columns": inSQL(postgresURL, withOtherColumns(postgresTable), Options{Provider: "jdbc", Columns: otherColumns}),
		"MariaDB, other columns":    inSQL(mariadbURL, withOtherColumns(mysqlTable), Options{Provider: "jdbc", Columns: otherColumns}),
		"MariaDB":                   inSQL(mariadbURL, mysqlTable, Options{Provider: "jdbc"}),
		"MariaDB, driver of MySQL in another zone": inSQL(mariadbURL, mysqlTable,
			Options{Provider: "jdbc", MySQL: true, JDBC: "sessionVariables=time_zone='" + otherZone + "'"}),
		"Redis, Jedis":                      inRedis(Options{Provider: "jedis", Safe: true}),
		"Redis, Lettuce without safeUpdate": inRedis(Options{Provider: "lettuce"}),
		"Redisson":                          redisson("redisson"),
		"Redisson, fenced":                  redisson("redisson-fenced"),
	}
}

func postgresURL(t testing.TB) string { t.Helper(); return postgresServer(t).URL }
func mariadbURL(t testing.TB) string  { t.Helper(); return mariadbServer(t).URL }

// shedlockTable makes a table as ShedLock's users do, and returns its name.
func shedlockTable(t testing.TB, at, create string) string {
	t.Helper()
	table := newName()
	db := database(t, at)
	execute(t, db, strings.Replace(create, "shedlock", table, 1))
	t.Cleanup(func() { execute(t, db, "DROP TABLE "+table) })
	return table
}

var names atomic.Int64

// newName returns a name that nobody else uses for a table, or in keys.
func newName() string { return fmt.Sprintf("interop_%d_%d", os.Getpid(), names.Add(1)) }

// database connects to the database at a URL.
func database(t testing.TB, at string) *sql.DB {
	t.Helper()
	driver, source := "pgx", at
	if strings.HasPrefix(at, "mysql:") {
		driver, source = "mysql", mysqlSource(t, at)
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// mysqlSource returns what the driver of MySQL calls the database at a URL.
func mysqlSource(t testing.TB, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName, config.InterpolateParams = "tcp", u.Host, strings.TrimPrefix(u.Path, "/"), true
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	return config.FormatDSN()
}

func execute(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
