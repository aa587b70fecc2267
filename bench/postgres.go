package main

import (
	"context"
	"regexp"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/pgstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func postgresBackend() backend {
	open := func(ctx context.Context, url string) (store.Store, error) {
		s, err := pgstore.OpenURL(ctx, url)
		return migrated(ctx, s, err)
	}
	ours := oursOn(open)
	return backend{
		name: "PostgreSQL", start: startPostgres, open: open, specs: slices.Concat(postgresPeers(), []spec{ours}, serviceOn("PostgreSQL", ours, open)),
		java: []javaSpec{{name: "ShedLock, JdbcTemplate", provider: "jdbc", prepare: postgresShedLockTable}},
	}
}

func startPostgres(t servers.Test) (*server, error) {
	s := servers.Postgres(t, "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track=top", "max_connections=400")
	ctx := context.Background()
	cfg, err := pgxpool.ParseConfig(s.URL)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	t.Cleanup(pool.Close)
	var version string
	if err := pool.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err != nil {
		return nil, err
	}
	return &server{
		url: s.URL, version: "PostgreSQL " + submatch(regexp.MustCompile(`^(\S+)`), version),
		pid: func() int {
			if s.Process == nil {
				return 0
			}
			return s.PID()
		},
		count: func(ctx context.Context) (counts, error) {
			var c counts
			err := pool.QueryRow(ctx, `SELECT (SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'),
				pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`).Scan(&c.commands, &c.written)
			return c, err
		},
	}, nil
}

// urlWith returns url with more in its query.
func urlWith(url, query string) string {
	for _, c := range url {
		if c == '?' {
			return url + "&" + query
		}
	}
	return url + "?" + query
}
