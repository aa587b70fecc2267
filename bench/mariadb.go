package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/mysqlstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func mariadbBackend() backend {
	open := func(ctx context.Context, url string) (store.Store, error) {
		s, err := mysqlstore.OpenURL(ctx, url)
		return migrated(ctx, s, err)
	}
	const module = "github.com/go-sql-driver/mysql"
	return backend{
		name: "MariaDB", start: startMariaDB, open: open,
		specs: []spec{
			{name: "floor: upsert, update (go-sql-driver)", cases: "ABDEH", floor: true, module: module, open: openMariaDBFloor},
			{name: "GET_LOCK (go-sql-driver)", cases: "ABCD", module: module, open: openGetLock},
			oursOn(open),
		},
		java: []javaSpec{{name: "ShedLock, JdbcTemplate", provider: "jdbc", prepare: mariadbShedLockTable}},
	}
}

// mariadbOpen opens a database as a plain user of the driver would.
func mariadbOpen(text string) (*sql.DB, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL of the server cannot be read") // the error would quote it, with its password
	}
	cfg := mysql.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", u.Host, u.Path[1:]
	cfg.InterpolateParams = true // one trip a statement
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(64)
	db.SetMaxIdleConns(64)
	return db, nil
}

func startMariaDB(t servers.Test) (*server, error) {
	s := servers.MariaDB(t, "--max-connections=400")
	db, err := mariadbOpen(s.URL)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	var version string
	if err := db.QueryRow("SELECT version()").Scan(&version); err != nil {
		return nil, err
	}
	asked := int64(0)
	return &server{
		url: s.URL, version: version,
		pid: func() int {
			if s.Process == nil {
				return 0
			}
			return s.PID()
		},
		count: func(ctx context.Context) (counts, error) {
			asked++
			c, err := mariadbCounts(ctx, db)
			c.commands -= asked
			return c, err
		},
	}, nil
}

func mariadbCounts(ctx context.Context, db *sql.DB) (counts, error) {
	rows, err := db.QueryContext(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Innodb_os_log_written')")
	if err != nil {
		return counts{}, err
	}
	defer rows.Close()
	var c counts
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return counts{}, err
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return counts{}, fmt.Errorf("%s: %w", name, err)
		}
		if name == "Questions" {
			c.commands = n
		} else {
			c.written = n
		}
	}
	return c, rows.Err()
}

const (
	mariadbTable = `CREATE TABLE IF NOT EXISTS bench_floor (
	name varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, holder varchar(64) NOT NULL, token bigint NOT NULL, until datetime(6) NOT NULL)`
	// The driver answers 1 row for one that is inserted, 2 for one that is changed and 0 for one that is not.
	mariadbTake = `INSERT INTO bench_floor VALUES (?, ?, 1, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND) ON DUPLICATE KEY UPDATE
	holder = IF(until <= UTC_TIMESTAMP(6), VALUES(holder), holder), token = IF(until <= UTC_TIMESTAMP(6), token + 1, token),
	until = IF(holder = VALUES(holder), VALUES(until), until)`
	mariadbFree   = `UPDATE bench_floor SET until = '2000-01-01' WHERE name = ? AND holder = ?`
	mariadbExtend = `UPDATE bench_floor SET until = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND WHERE name = ? AND holder = ?`
)

func openMariaDBFloor(ctx context.Context, url string, ttl time.Duration) (contender, error) {
	db, err := mariadbOpen(url)
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, mariadbTable); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	change := func(ctx context.Context, none error, query string, args ...any) error {
		result, err := db.ExecContext(ctx, query, args...)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return errors.Join(none, err)
		}
		return nil
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			mine := rand.Text()
			if err := change(ctx, errHeld, mariadbTake, name, mine, ttl.Microseconds()); err != nil {
				return hold{}, err
			}
			return hold{
				unlock: func() error { return change(context.Background(), errNotMine, mariadbFree, name, mine) },
				extend: func(ctx context.Context) error {
					return change(ctx, errNotMine, mariadbExtend, ttl.Microseconds(), name, mine)
				},
			}, nil
		},
		close: func() { _ = db.Close() },
	}, nil
}

func openGetLock(_ context.Context, url string, _ time.Duration) (contender, error) {
	db, err := mariadbOpen(url)
	if err != nil {
		return nil, err
	}
	// A lock is its connection's, so each takes one as long as it is held. The server waits in whole seconds.
	take := func(ctx context.Context, seconds int, name string) (hold, error) {
		conn, err := db.Conn(ctx)
		if err != nil {
			return hold{}, err
		}
		var got sql.NullBool
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", name, seconds).Scan(&got); err != nil || !got.Bool {
			_ = conn.Close()
			if err == nil {
				err = errHeld
			}
			return hold{}, err
		}
		return hold{unlock: func() error {
			defer conn.Close()
			var freed sql.NullBool
			err := conn.QueryRowContext(context.Background(), "SELECT RELEASE_LOCK(?)", name).Scan(&freed)
			if err == nil && !freed.Bool {
				err = errNotMine
			}
			return err
		}}, nil
	}
	return plain{
		try:   func(ctx context.Context, name string) (hold, error) { return take(ctx, 0, name) },
		lock:  func(ctx context.Context, name string) (hold, error) { return take(ctx, 3600, name) },
		close: func() { _ = db.Close() },
	}, nil
}

// mariadbShedLockTable makes the table as ShedLock's documentation has it.
func mariadbShedLockTable(_ servers.Test, url string) error {
	db, err := mariadbOpen(url)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS shedlock (name varchar(64) NOT NULL PRIMARY KEY, lock_until timestamp(3) NOT NULL,
		locked_at timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), locked_by varchar(255) NOT NULL)`)
	return err
}
