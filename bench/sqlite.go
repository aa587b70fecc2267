package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver of the floor, and of the store

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/sqlitestore"
	"github.com/soloist-dev/soloist/test/servers"
)

// sqliteBackend has no server: all is done by the processes themselves, and requests of ours are statements or transactions.
func sqliteBackend() backend {
	open := func(_ context.Context, path string) (store.Store, error) { return sqlitestore.Open(path) }
	return backend{
		name: "SQLite", open: open,
		start: func(t servers.Test) (*server, error) {
			return &server{
				url: filepath.Join(servers.Directory(t), "leases.db"), version: "SQLite, WAL, synchronous=FULL", pid: func() int { return 0 },
				count: func(context.Context) (counts, error) { return counts{}, nil },
			}, nil
		},
		specs: []spec{
			{name: "floor: upsert, update (modernc.org/sqlite)", cases: "ABDEH", floor: true, module: "modernc.org/sqlite", open: openSQLiteFloor},
			oursOn(open),
		},
	}
}

func openSQLiteFloor(ctx context.Context, path string, ttl time.Duration) (contender, error) {
	db, err := sql.Open("sqlite", "file:"+path+"-floor?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // there is one writer at a time anyhow
	if _, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS bench_floor (name TEXT PRIMARY KEY, holder TEXT, token INTEGER, until INTEGER) WITHOUT ROWID`); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	var take, free, prolong *sql.Stmt
	for stmt, text := range map[**sql.Stmt]string{
		&take: `INSERT INTO bench_floor VALUES (?1, ?2, 1, ?3) ON CONFLICT (name) DO UPDATE SET holder = ?2, token = token + 1, until = ?3
			WHERE until <= ?4`,
		&free:    `UPDATE bench_floor SET until = 0 WHERE name = ?1 AND holder = ?2`,
		&prolong: `UPDATE bench_floor SET until = ?3 WHERE name = ?1 AND holder = ?2`,
	} {
		if *stmt, err = db.PrepareContext(ctx, text); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	change := func(ctx context.Context, none error, stmt *sql.Stmt, args ...any) error {
		result, err := stmt.ExecContext(ctx, args...)
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
			mine, now := rand.Text(), time.Now()
			if err := change(ctx, errHeld, take, name, mine, now.Add(ttl).UnixMicro(), now.UnixMicro()); err != nil {
				return hold{}, err
			}
			return hold{
				unlock: func() error { return change(context.Background(), errNotMine, free, name, mine) },
				extend: func(ctx context.Context) error {
					return change(ctx, errNotMine, prolong, name, mine, time.Now().Add(ttl).UnixMicro())
				},
			}, nil
		},
		close: func() { _ = db.Close() },
	}, nil
}
