package main

import (
	"context"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/cassandrastore"
	"github.com/soloist-dev/soloist/test/servers"
)

func cassandraBackend() backend {
	open := func(ctx context.Context, url string) (store.Store, error) {
		s, err := cassandrastore.OpenURL(ctx, url)
		return migrated(ctx, s, err)
	}
	return backend{
		name: "Cassandra", start: startCassandra, open: open,
		specs: []spec{
			{name: "floor: insert a row if there is none, delete it", cases: "ABD", floor: true, module: "github.com/apache/cassandra-gocql-driver/v2", open: openCassandraFloor},
			oursOn(open),
		},
	}
}

func startCassandra(t servers.Test) (*server, error) {
	s := servers.Cassandra(t)
	p, err := newTap(t, s.Addr, cql)
	if err != nil {
		return nil, err
	}
	servers.Wait(t, "the superuser of Cassandra", func() bool {
		session, err := cassandraSession(s.Addr)
		if err != nil {
			return false
		}
		defer session.Close()
		for _, cql := range []string{
			`CREATE KEYSPACE IF NOT EXISTS bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
			`CREATE TABLE IF NOT EXISTS bench.floor (name text PRIMARY KEY)`,
		} {
			if err := session.Query(cql).Exec(); err != nil {
				return false
			}
		}
		return true
	})
	return &server{url: "cassandra://cassandra:cassandra@" + p.addr() + "/bench", version: "Cassandra 5.0.9, one node", pid: s.PID, count: p.count}, nil
}

func cassandraSession(addr string) (*gocql.Session, error) {
	c := gocql.NewCluster(addr)
	c.Authenticator = gocql.PasswordAuthenticator{Username: "cassandra", Password: "cassandra"}
	c.ConnectTimeout, c.Timeout, c.WriteTimeout = time.Minute, time.Minute, time.Minute
	return c.CreateSession()
}

func openCassandraFloor(_ context.Context, url string, _ time.Duration) (contender, error) {
	session, err := cassandraSession(hostOf(url))
	if err != nil {
		return nil, err
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			got, err := session.Query(`INSERT INTO bench.floor (name) VALUES (?) IF NOT EXISTS`, name).MapScanCASContext(ctx, map[string]any{})
			if err == nil && !got {
				err = errHeld
			}
			return hold{unlock: func() error {
				_, err := session.Query(`DELETE FROM bench.floor WHERE name = ? IF EXISTS`, name).MapScanCAS(map[string]any{})
				return err
			}}, err
		},
		close: session.Close,
	}, nil
}
