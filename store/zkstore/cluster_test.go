package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/zkstore"
	"github.com/soloist-dev/soloist/test/failover"
	"github.com/soloist-dev/soloist/test/servers"
)

// An ensemble has three servers. Each test leaves all of them running.
type ensemble struct{ servers []*servers.ZooKeeperServer }

var three = servers.Shared(func(t servers.Test) *ensemble { return &ensemble{servers.ZooKeeper(t, 3)} })

// open returns a store with a connection of its own, which leaves a server that is silent soon.
func (e *ensemble) open(t testing.TB, path string) *zkstore.Store {
	t.Helper()
	var addrs []string
	for _, s := range e.servers {
		addrs = append(addrs, s.Addr)
	}
	s, err := zkstore.OpenURL(background, "zk://"+strings.Join(addrs, ",")+path+"?sessiontimeout=10s&dialtimeout=10s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// leader returns the server that leads.
func (e *ensemble) leader(t testing.TB) (leader *servers.ZooKeeperServer) {
	t.Helper()
	servers.Wait(t, "a leader", func() bool {
		for _, s := range e.servers {
			if status, err := s.Status(); err == nil && status.Mode == "leader" {
				leader = s
				return true
			}
		}
		return false
	})
	return leader
}

// within calls a function with a context that ends after a span, as that of the client of soloist does soon.
func within(span time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(background, span)
	defer cancel()
	return do(ctx)
}

// insist repeats a request until it is answered: the error is nil, or that the name is held or the lease is lost.
func insist(t testing.TB, what string, do func(context.Context) error) (err error) {
	t.Helper()
	span := time.Second
	servers.Wait(t, what, func() bool {
		span *= 2 // for a disk that is slow
		err = within(span, do)
		return err == nil || errors.Is(err, store.ErrHeld) || errors.Is(err, store.ErrLost)
	})
	return err
}

// brought returns the ensemble with records that no other test uses, for the checks of package failover.
func (e *ensemble) brought(t testing.TB) failover.Cluster {
	path := fresh()
	return failover.Cluster{
		Servers: []failover.Server{e.servers[0], e.servers[1], e.servers[2]},
		Open:    func(int) store.Store { return e.open(t, path) },
		Leader:  func() failover.Server { return e.leader(t) },
		Leads:   func(ctx context.Context, s failover.Server) bool { return s.(*servers.ZooKeeperServer).Leads(ctx) },
	}
}

func TestFailover(t *testing.T) {
	servers.Long(t)
	failover.OneAway(t, three(t).brought(t))
}

// BenchmarkLeader: how long a client waits when the leader is killed.
func BenchmarkLeader(b *testing.B) { failover.Measure(b, three(b).brought(b)) }

func TestNoMajority(t *testing.T) {
	servers.Long(t)
	failover.NoMajority(t, three(t).brought(t))
}

// TestReadsCatchUp: a process whose server lags behind the others sees a release that came before its request.
func TestReadsCatchUp(t *testing.T) {
	servers.Long(t)
	e, path := three(t), fresh()
	a, b := e.open(t, path), e.open(t, path)
	for i := range 50 {
		name := fmt.Sprintf("n%d", i)
		var grant store.Grant
		if err := insist(t, "a claim", func(ctx context.Context) (err error) { grant, err = claim(ctx, a, name, "x", time.Hour); return err }); err != nil {
			t.Fatal(err)
		}
		if err := insist(t, "the extension of what another process holds", func(ctx context.Context) error { return extend(ctx, b, name, grant.Token, time.Hour) }); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// TestCapabilities: they name the servers.
func TestCapabilities(t *testing.T) {
	servers.Long(t)
	for want, s := range map[string]*zkstore.Store{"one server": on(t, shared(t).conn, fresh()), "3 servers that vote": three(t).open(t, fresh())} {
		var c store.Capabilities
		if err := insist(t, "the capabilities", func(ctx context.Context) (err error) { c, err = store.CapabilitiesOf(ctx, s); return err }); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(c.Backend, want) || c.Fencing.Answer != store.Yes || c.Durable.Answer != store.Yes || c.Waiting.Answer != store.Yes {
			t.Errorf("got %+v, want %q and that all is promised", c, want)
		}
	}
}
