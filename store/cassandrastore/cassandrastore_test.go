package cassandrastore_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/cassandrastore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// A server is a node of Cassandra, with a session of its superuser.
type server struct {
	*servers.CassandraServer
	session *gocql.Session
}

var shared = servers.Shared(func(t servers.Test) *server {
	node := servers.Cassandra(t)
	s := &server{CassandraServer: node}
	servers.Wait(t, "the superuser of Cassandra", func() (ok bool) {
		session, err := cluster(node.Addr, "cassandra", "cassandra").CreateSession()
		s.session = session
		return err == nil
	})
	t.Cleanup(s.session.Close)
	return s
})

var background = context.Background()

// cluster returns how to connect to a node at an address, with the patience that a slow machine needs.
func cluster(addr, user, password string) *gocql.ClusterConfig {
	c := gocql.NewCluster(addr)
	c.Authenticator = gocql.PasswordAuthenticator{Username: user, Password: password}
	c.ConnectTimeout, c.Timeout, c.WriteTimeout = servers.Patience, servers.Patience, servers.Patience
	c.Metadata.CacheMode = gocql.Disabled
	c.NumConns = 1
	return c
}

var keyspaces atomic.Int64

const oneCopy = `{'class': 'SimpleStrategy', 'replication_factor': 1}`

// keyspace makes a keyspace for a test, and returns its name.
func (s *server) keyspace(t testing.TB, replication string) string {
	t.Helper()
	name := fmt.Sprintf("soloist_%d", keyspaces.Add(1))
	s.do(t, fmt.Sprintf(`CREATE KEYSPACE %s WITH replication = %s`, name, replication))
	t.Cleanup(func() { s.do(t, `DROP KEYSPACE `+name) })
	return name
}

// do runs a statement.
func (s *server) do(t testing.TB, cql string, values ...any) {
	t.Helper()
	if err := s.session.Query(cql, values...).Consistency(gocql.Quorum).Exec(); err != nil {
		t.Fatalf("%s: %v", cql, err)
	}
}

// open returns a store on the superuser's session.
func (s *server) open(t testing.TB, cfg cassandrastore.Config) *cassandrastore.Store {
	t.Helper()
	return on(t, s.session, cfg)
}

func on(t testing.TB, session *gocql.Session, cfg cassandrastore.Config) *cassandrastore.Store {
	t.Helper()
	made, err := cassandrastore.New(session, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// migrated returns a store on a new table of a keyspace.
func (s *server) migrated(t testing.TB, cfg cassandrastore.Config) *cassandrastore.Store {
	t.Helper()
	made := s.open(t, cfg)
	if _, err := made.Migrate(background); err != nil {
		t.Fatal(err)
	}
	return made
}

// fresh returns a store in its own keyspace.
func (s *server) fresh(t testing.TB) (*cassandrastore.Store, cassandrastore.Config) {
	t.Helper()
	cfg := cassandrastore.Config{Keyspace: s.keyspace(t, oneCopy)}
	return s.migrated(t, cfg), cfg
}

// A handle is a store with its configuration.
type handle struct {
	*cassandrastore.Store
	cfg cassandrastore.Config
}

// Unwrap is the convention of package store.
func (h handle) Unwrap() store.Store { return h.Store }

func TestConformance(t *testing.T) { shared(t).conform(t, oneCopy) }

// conform runs the laws. They take turns at the tables of one keyspace: to empty a table takes a tenth of the time that making one takes.
func (s *server) conform(t *testing.T, replication string) {
	keyspace, made, free := s.keyspace(t, replication), 0, []cassandrastore.Config(nil)
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) store.Store {
			if len(free) == 0 {
				made++
				cfg := cassandrastore.Config{Keyspace: keyspace, Table: fmt.Sprintf("law_%d", made)}
				s.migrated(t, cfg)
				free = append(free, cfg)
			}
			cfg := free[0]
			free = free[1:]
			t.Cleanup(func() {
				s.do(t, fmt.Sprintf(`TRUNCATE %s.%s`, cfg.Keyspace, cfg.Table))
				free = append(free, cfg)
			})
			return handle{s.open(t, cfg), cfg}
		},
		Reopen: func(t testing.TB, of store.Store) store.Store {
			return handle{s.open(t, of.(handle).cfg), of.(handle).cfg}
		},
		Corrupt: func(t testing.TB, of store.Store, name string, way int) string {
			return s.corrupt(t, of.(handle).cfg, name, way)
		},
		Fail: func(t testing.TB, of store.Store, fate func() storetest.Fate) store.Store {
			p := newProxy(t, s.Addr)
			p.each = fate
			return handle{on(t, p.session(t), of.(handle).cfg), of.(handle).cfg}
		},
		TTL:   time.Second,
		Names: 300,
	})
}

// corrupt writes over a row, and its version with it. An edit that leaves the version is overruled by the holder, which has
// not read the row since.
func (s *server) corrupt(t testing.TB, cfg cassandrastore.Config, name string, way int) string {
	t.Helper()
	ways := []struct{ what, set string }{
		{"a token of 0", "fencing_token = 0, version = 'edited'"},
		{"a negative mark", "mark = -1, version = 'edited'"},
		{"no holder", "holder = null, version = 'edited'"},
		{"no state, which is not an empty one", "state = null, version = 'edited'"},
		{"no version", "version = null"},
		{"an empty version", "version = ''"},
		{"a TTL that no store takes", "ttl_ns = 9223372036854775807, version = 'edited'"},
		{"no time of its grant", "granted_at = null, version = 'edited'"},
		{"a state that is too large", "state = 0x" + strings.Repeat("61", store.MaxState+1) + ", version = 'edited'"},
	}
	if way >= len(ways) {
		return ""
	}
	s.do(t, fmt.Sprintf(`UPDATE %s.%s SET %s WHERE name = ? IF EXISTS`, cfg.Keyspace, tableOf(cfg), ways[way].set), name)
	return ways[way].what
}

// tableOf returns the name of the table of a configuration.
func tableOf(cfg cassandrastore.Config) string {
	if cfg.Table == "" {
		return "soloist"
	}
	return cfg.Table
}
