package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	"cirello.io/pglock"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/lib/pq" // the driver that pglock wants

	"github.com/soloist-dev/soloist/test/servers"
)

func postgresPeers() []spec {
	const pgxModule = "github.com/jackc/pgx/v5"
	return []spec{
		{name: "floor: upsert, update (pgx)", cases: "ABDEH", floor: true, module: pgxModule, open: openPostgresFloor},
		{name: "session advisory locks (pgx)", cases: "ABCD", module: pgxModule, open: openAdvisory},
		{name: "pglock", cases: "ABCDEH", module: "cirello.io/pglock", open: openPglock},
	}
}

func pgxPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 64
	return pgxpool.NewWithConfig(ctx, cfg)
}

const (
	floorTable = `CREATE TABLE IF NOT EXISTS bench_floor (
	name text PRIMARY KEY, holder text NOT NULL, token bigint NOT NULL, until timestamptz NOT NULL) WITH (fillfactor = 50)`
	floorTake = `INSERT INTO bench_floor VALUES ($1, $2, 1, clock_timestamp() + $3)
	ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = bench_floor.token + 1, until = excluded.until
	WHERE bench_floor.until <= clock_timestamp() RETURNING token`
	floorFree   = `UPDATE bench_floor SET until = '-infinity' WHERE name = $1 AND holder = $2`
	floorExtend = `UPDATE bench_floor SET until = clock_timestamp() + $3 WHERE name = $1 AND holder = $2`
)

func openPostgresFloor(ctx context.Context, url string, ttl time.Duration) (contender, error) {
	pool, err := pgxPool(ctx, url)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, floorTable); err != nil {
		pool.Close()
		return nil, err
	}
	change := func(ctx context.Context, sql string, args ...any) error {
		tag, err := pool.Exec(ctx, sql, args...)
		if err == nil && tag.RowsAffected() == 0 {
			err = errNotMine
		}
		return err
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			mine := rand.Text()
			var token int64
			err := pool.QueryRow(ctx, floorTake, name, mine, ttl).Scan(&token)
			switch {
			case errors.Is(err, pgx.ErrNoRows):
				return hold{}, errHeld
			case err != nil:
				return hold{}, err
			}
			return hold{
				unlock: func() error { return change(context.Background(), floorFree, name, mine) },
				extend: func(ctx context.Context) error { return change(ctx, floorExtend, name, mine, ttl) },
			}, nil
		},
		close: pool.Close,
	}, nil
}

func openAdvisory(ctx context.Context, url string, _ time.Duration) (contender, error) {
	pool, err := pgxPool(ctx, url)
	if err != nil {
		return nil, err
	}
	// A lock is its connection's, so each takes one as long as it is held.
	take := func(ctx context.Context, sql, name string) (hold, error) {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return hold{}, err
		}
		got := true
		if err := conn.QueryRow(ctx, sql, name).Scan(&got); err != nil || !got {
			conn.Release()
			if err == nil {
				err = errHeld
			}
			return hold{}, err
		}
		return hold{unlock: func() error {
			defer conn.Release()
			var freed bool
			err := conn.QueryRow(context.Background(), `SELECT pg_advisory_unlock(hashtextextended($1, 0))`, name).Scan(&freed)
			if err == nil && !freed {
				err = errNotMine
			}
			return err
		}}, nil
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			return take(ctx, `SELECT pg_try_advisory_lock(hashtextextended($1, 0))`, name)
		},
		lock: func(ctx context.Context, name string) (hold, error) {
			return take(ctx, `SELECT true FROM pg_advisory_lock(hashtextextended($1, 0))`, name)
		},
		close: pool.Close,
	}, nil
}

func openPglock(_ context.Context, url string, ttl time.Duration) (contender, error) {
	db, err := sql.Open("postgres", urlWith(url, "sslmode=disable"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(64)
	db.SetMaxIdleConns(64)
	client, err := pglock.New(db, pglock.WithLeaseDuration(ttl), pglock.WithHeartbeatFrequency(ttl/3))
	if err == nil {
		err = client.TryCreateTable()
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	acquire := func(ctx context.Context, name string, options ...pglock.LockOption) (hold, error) {
		l, err := client.AcquireContext(ctx, name, options...)
		if errors.Is(err, pglock.ErrNotAcquired) {
			return hold{}, errHeld
		}
		return hold{unlock: func() error { return client.Release(l) }}, err
	}
	return plain{
		try:   func(ctx context.Context, name string) (hold, error) { return acquire(ctx, name, pglock.FailIfLocked()) },
		lock:  func(ctx context.Context, name string) (hold, error) { return acquire(ctx, name) },
		close: func() { _ = db.Close() },
	}, nil
}

// postgresShedLockTable makes the table as ShedLock's documentation has it.
func postgresShedLockTable(t servers.Test, url string) error {
	ctx := context.Background()
	pool, err := pgxPool(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL,
		locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL)`)
	return err
}
