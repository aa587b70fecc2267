package mysqlstore

import (
	"context"
	"os"
	"testing"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/storetest"

	"github.com/go-sql-driver/mysql"
)

// The ways to come to a server, and what may be set there; each passes the whole suite.
var modes = []struct {
	name   string
	driver func(*mysql.Config)
	config Config
}{
	{name: "compound"},
	{name: "multi", config: Config{Dialect: MySQL}, driver: func(c *mysql.Config) { c.MultiStatements = true }},
	{name: "steps", config: Config{Dialect: MySQL}},
	{name: "shedlock", config: Config{ShedLock: true}},
}

func TestStore(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) { storetest.Run(t, harness(t, mariadb(t).URL, m.driver, m.config)) })
	}
}

// Several have other statements than one.
func TestStoreInBatches(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			h := harness(t, mariadb(t).URL, m.driver, m.config)
			h.Batches = true
			storetest.Run(t, h)
		})
	}
}

// MySQL cannot be started here, but used where it is.
func TestStoreOnMySQL(t *testing.T) {
	url := os.Getenv("SOLOIST_TEST_MYSQL_URL")
	if url == "" {
		t.Skip("SOLOIST_TEST_MYSQL_URL is not set")
	}
	for _, m := range modes[1:] {
		t.Run(m.name, func(t *testing.T) { storetest.Run(t, harness(t, url, m.driver, m.config)) })
	}
}

func harness(t *testing.T, url string, driver func(*mysql.Config), cfg Config) storetest.Harness {
	db := connect(t, url, driver)
	return storetest.Harness{
		TimedTokens: true,
		Open:        func(t testing.TB) store.Store { return open(t, db, cfg) },
		Reopen: func(t testing.TB, s store.Store) store.Store {
			other, err := New(db, s.(*Store).cfg)
			if err != nil {
				t.Fatal(err)
			}
			return other
		},
		Writes: func(t testing.TB, s store.Store) int64 { return written(t, s.(*Store)) },
		Corrupt: func(t testing.TB, s store.Store, name string, way int) string {
			if way == len(corruptions) {
				return ""
			}
			spoil(t, db, s.(*Store), corruptions[way].set, name)
			return corruptions[way].set
		},
	}
}

// written counts the rows that the server has written since it started.
func written(t testing.TB, s *Store) (n int64) {
	t.Helper()
	rows, err := s.db.QueryContext(context.Background(), "SHOW GLOBAL STATUS WHERE Variable_name IN "+
		"('Innodb_rows_inserted', 'Innodb_rows_updated', 'Innodb_rows_deleted')")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var value int64
		if err := rows.Scan(&name, &value); err != nil {
			t.Fatal(err)
		}
		n += value
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}
