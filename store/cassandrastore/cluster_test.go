package cassandrastore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/cassandrastore"
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

// stores returns a store for each node, with its own session.
func (r *ring) stores(t *testing.T) (stores []*cassandrastore.Store) {
	t.Helper()
	cfg := cassandrastore.Config{Keyspace: r.keyspace(t, threeCopies)}
	r.migrated(t, cfg)
	for n := range r.nodes {
		stores = append(stores, on(t, r.connect(t, 5*time.Second, n), cfg))
	}
	return stores
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
	s := r.stores(t)[0]
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

// A shelf is the names of a test. It sees who has them.
type shelf struct {
	names  []string
	inside []atomic.Bool
	tokens []atomic.Int64 // the greatest that was granted
	rounds atomic.Int64   // grants that were released
}

func newShelf(n int) *shelf {
	s := &shelf{inside: make([]atomic.Bool, n), tokens: make([]atomic.Int64, n)}
	for i := range n {
		s.names = append(s.names, fmt.Sprint("name-", i))
	}
	return s
}

// patience returns a context for the next attempt at a request: longer each time, so that a slow machine succeeds at last.
func patience(attempt int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(background, min(time.Duration(attempt)*4*time.Second, servers.Patience))
}

// take claims all names in one batch, and repeats what is not known until it is. It returns what was granted.
func (s *shelf) take(t *testing.T, on store.Store, holder string) (granted []store.Release) {
	claims := make(map[string]store.Claim)
	for _, name := range s.names {
		claims[name] = store.Claim{Name: name, Holder: holder, TTL: time.Hour}
	}
	for attempt := 1; len(claims) > 0; attempt++ {
		ctx, cancel := patience(attempt)
		batch := slices.Collect(maps.Values(claims))
		outcomes, _ := on.Acquire(ctx, batch) // an error is about all of them
		cancel()
		for i, outcome := range outcomes {
			switch {
			case outcome.Err == nil:
				s.enter(t, batch[i].Name, outcome.Grant.Token)
				granted = append(granted, store.Release{Name: batch[i].Name, Holder: holder, Token: outcome.Grant.Token, Retain: store.Forever})
			case !errors.Is(outcome.Err, store.ErrHeld):
				continue
			}
			delete(claims, batch[i].Name)
		}
	}
	return granted
}

// enter notes a grant, which must be the only one of its name, and have the greatest token.
func (s *shelf) enter(t *testing.T, name string, token int64) {
	i := slices.Index(s.names, name)
	if !s.inside[i].CompareAndSwap(false, true) {
		t.Errorf("%s has two holders", name)
	}
	if before := s.tokens[i].Swap(token); token <= before {
		t.Errorf("%s was granted with token %d after %d", name, token, before)
	}
}

// give releases all that was granted in one batch, and repeats what is not known until it is.
func (s *shelf) give(t *testing.T, on store.Store, granted []store.Release) {
	for _, g := range granted {
		s.inside[slices.Index(s.names, g.Name)].Store(false)
	}
	for attempt := 1; len(granted) > 0; attempt++ {
		ctx, cancel := patience(attempt)
		errs, err := on.Release(ctx, granted)
		cancel()
		if err != nil {
			continue
		}
		var left []store.Release
		for i, err := range errs {
			switch {
			case err == nil, attempt > 1 && errors.Is(err, store.ErrLost): // somebody has it already, after the release that was not known
				s.rounds.Add(1)
			case errors.Is(err, store.ErrLost):
				t.Errorf("%s was lost", granted[i].Name)
			default:
				left = append(left, granted[i])
			}
		}
		granted = left
	}
}

// oneAway: while one node is killed, and while one is paused, batches of three processes go on, no name has two holders and no token falls.
func (r *ring) oneAway(t *testing.T) {
	s, stop := newShelf(8), make(chan struct{})
	var wait sync.WaitGroup
	for p, on := range r.stores(t) {
		wait.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-stop:
					return
				default:
					s.give(t, on, s.take(t, on, fmt.Sprint(p, "/", round)))
				}
			}
		})
	}
	goOn := func(when string) {
		t.Helper()
		before := s.rounds.Load()
		servers.Wait(t, "grants "+when, func() bool { return s.rounds.Load() >= before+3*int64(len(s.names)) })
		t.Logf("%d grants %s", s.rounds.Load()-before, when)
	}
	goOn("with all nodes")
	r.nodes[1].Kill()
	goOn("after a node was killed")
	r.nodes[1].Start()
	goOn("after it was started again")
	r.nodes[2].Pause()
	goOn("while a node is paused")
	r.nodes[2].Resume()
	goOn("after it was resumed")
	close(stop)
	wait.Wait()
}

// twoAway: while two of three nodes are away nothing is granted or extended, and errors say why. Whoever had a lease has it when they are back.
func (r *ring) twoAway(t *testing.T) {
	s := r.stores(t)[0]
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
