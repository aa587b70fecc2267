package cassandrastore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/cassandrastore"
	"github.com/soloist-dev/soloist/test/failover"
	"github.com/soloist-dev/soloist/test/servers"
)

const threeCopies = `{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}`

// A ring is three nodes, each of which has a copy of every row.
type ring struct {
	*server // the first node
	nodes   []*servers.CassandraServer
}

func newRing(t *testing.T) *ring {
	t.Helper()
	r := &ring{nodes: servers.CassandraCluster(t, 3)}
	r.server = &server{CassandraServer: r.nodes[0], session: r.connect(t, servers.Patience, 0)}
	for _, cql := range []string{
		`CREATE KEYSPACE IF NOT EXISTS everywhere WITH replication = ` + threeCopies,
		`CREATE TABLE IF NOT EXISTS everywhere.rows (id int PRIMARY KEY)`,
		`SELECT id FROM everywhere.rows WHERE id = 1`, // all nodes have it, and each knows that the others are there
	} {
		servers.Wait(t, cql, func() bool { return r.server.session.Query(cql).Consistency(gocql.All).Exec() == nil })
	}
	return r
}

// connect returns a session that asks one node for the others. A connection is given up when it is silent for some multiple of timeout.
func (r *ring) connect(t *testing.T, timeout time.Duration, node int) *gocql.Session {
	t.Helper()
	c := cluster(r.nodes[node].Addr, "", "")
	c.Timeout, c.WriteTimeout, c.ReconnectInterval = timeout, timeout, time.Second
	var session *gocql.Session
	servers.Wait(t, "a session", func() (ok bool) {
		var err error
		session, err = c.CreateSession()
		return err == nil
	})
	t.Cleanup(session.Close)
	return session
}

// table makes a table with three copies of each row.
func (r *ring) table(t *testing.T) cassandrastore.Config {
	t.Helper()
	cfg := cassandrastore.Config{Keyspace: r.keyspace(t, threeCopies)}
	r.migrated(t, cfg)
	return cfg
}

// store returns a store with its own session, which asks one node first.
func (r *ring) store(t *testing.T, node int, cfg cassandrastore.Config) *cassandrastore.Store {
	t.Helper()
	return on(t, r.connect(t, 5*time.Second, node), cfg)
}

// TestCluster: three nodes, of which one or two are away.
func TestCluster(t *testing.T) {
	servers.Live(t)
	r := newRing(t)
	t.Run("conformance", func(t *testing.T) { r.conform(t, threeCopies) })
	t.Run("promises", r.promises)
	t.Run("one node away", r.oneAway)
	t.Run("two nodes away", r.twoAway)
}

func (r *ring) promises(t *testing.T) {
	s := r.store(t, 0, r.table(t))
	c, err := s.Capabilities(background)
	if err != nil || c.Fencing.Answer != store.Yes || c.Durable.Answer != store.Yes || !strings.Contains(c.Fencing.Why, "majority of 3") {
		t.Errorf("got %+v, %v, want that three copies promise both", c, err)
	}
	findings, err := s.Examine(background)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Level != store.LevelOK {
			t.Errorf("doctor finds fault with a cluster of three: %+v", f)
		}
	}
}

// patience returns a context for the next attempt at a request: longer each time, so that a slow machine succeeds at last.
func patience(attempt int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(background, min(time.Duration(attempt)*4*time.Second, servers.Patience))
}

// oneAway: two nodes of three continue.
func (r *ring) oneAway(t *testing.T) {
	cfg := r.table(t)
	failover.OneAway(t, failover.Cluster{
		Servers: []failover.Server{r.nodes[0], r.nodes[1], r.nodes[2]},
		Open:    func(first int) store.Store { return r.store(t, first, cfg) },
	})
}

// twoAway: while two of three nodes are away nothing is granted or extended, and errors say why. Whoever had a lease has it when they are back.
func (r *ring) twoAway(t *testing.T) {
	s := r.store(t, 0, r.table(t))
	var kept store.Grant
	again(t, "a lease", func() (err error) { kept, err = acquire(background, s, "kept"); return err })
	r.nodes[1].Kill()
	r.nodes[2].Pause()
	names := 0
	servers.Wait(t, "a claim that is refused because too few nodes are there", func() bool {
		names++
		ctx, cancel := patience(1)
		defer cancel()
		_, err := acquire(ctx, s, fmt.Sprint("new-", names))
		switch {
		case err == nil:
			t.Fatal("granted by one node of three")
		case errors.Is(err, store.ErrUnknown):
			return false
		}
		return strings.Contains(err.Error(), "of 2 copies that must decide 1 can be reached")
	})
	extension := []store.Extension{{Name: "kept", Holder: "x", Token: kept.Token, TTL: time.Hour}}
	errs, err := s.Extend(background, extension)
	if err = errors.Join(append(errs, err)...); err == nil || errors.Is(err, store.ErrLost) {
		t.Errorf("extending: got %v, want an error that is not of a lost lease", err)
	}
	r.nodes[2].Resume()
	servers.Wait(t, "the extension", func() bool {
		errs, err := s.Extend(background, extension)
		err = errors.Join(append(errs, err)...)
		if errors.Is(err, store.ErrLost) {
			t.Fatal(err)
		}
		return err == nil
	})
	r.nodes[1].Start()
	for n := range names {
		name := fmt.Sprint("new-", 1+n)
		again(t, "a claim again", func() error {
			grant, err := acquire(background, s, name)
			if err == nil && grant.Token != 1 {
				t.Errorf("%s: got token %d, want the first", name, grant.Token)
			}
			return err
		})
	}
}
