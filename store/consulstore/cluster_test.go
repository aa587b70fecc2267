package consulstore_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/consulstore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/failover"
	"github.com/soloist-dev/soloist/test/servers"
)

// A cluster is three servers.
type cluster []*servers.ConsulServer

func (c cluster) addrs(first int) (all []string) {
	for i := range c {
		all = append(all, c[(first+i)%len(c)].Addr)
	}
	return all
}

// store returns one that uses the server with a number first.
func (c cluster) store(t testing.TB, first int, prefix string) *consulstore.Store {
	t.Helper()
	return open(t, consulstore.Config{Addresses: c.addrs(first), Prefix: prefix, DialTimeout: 2 * time.Second})
}

// leader returns the leader, and waits until there is one.
func (c cluster) leader(t testing.TB) (found *servers.ConsulServer) {
	t.Helper()
	servers.Wait(t, "a leader", func() bool {
		for _, s := range c {
			ctx, cancel := context.WithTimeout(background, 2*time.Second)
			if s.Leads(ctx) {
				found = s
			}
			cancel()
		}
		return found != nil
	})
	return found
}

// TestClusterConformance: the laws hold with three servers, and stores that use different ones. The leader must stay, so it has 2.5 s to hear from the others, not 0.5 s.
func TestClusterConformance(t *testing.T) {
	servers.Long(t)
	patient := map[string]any{"performance": map[string]int{"raft_multiplier": 5}}
	storetest.Run(t, harness(cluster(servers.Consul(t, 3, patient)).addrs(0)...))
}

// brought returns the cluster with records that no other test uses, for the checks of package failover.
func (c cluster) brought(t testing.TB) failover.Cluster {
	prefix := fresh()
	return failover.Cluster{
		Servers: []failover.Server{c[0], c[1], c[2]},
		Open:    func(first int) store.Store { return c.store(t, first, prefix) },
		Leader:  func() failover.Server { return c.leader(t) },
		Leads:   func(ctx context.Context, s failover.Server) bool { return s.(*servers.ConsulServer).Leads(ctx) },
	}
}

func TestFailover(t *testing.T) {
	servers.Long(t)
	failover.OneAway(t, cluster(servers.Consul(t, 3, nil)).brought(t))
}

// BenchmarkLeader: how long a client waits when the leader is killed.
func BenchmarkLeader(b *testing.B) {
	failover.Measure(b, cluster(servers.Consul(b, 3, nil)).brought(b))
}

func TestNoMajority(t *testing.T) {
	servers.Long(t)
	failover.NoMajority(t, cluster(servers.Consul(t, 3, nil)).brought(t))
}

func TestRestart(t *testing.T) {
	server := servers.Consul(t, 1, nil)[0]
	failover.Restart(t, server, on(t, server.Addr, fresh()))
}

// TestSnapshot: a snapshot that is restored in its datacenter brings old records back, and no token is granted again.
func TestSnapshot(t *testing.T) {
	server := servers.Consul(t, 1, nil)[0]
	prefix := fresh()
	s := on(t, server.Addr, prefix)
	if _, err := acquire(background, s, "a", "old", time.Hour); err != nil {
		t.Fatal(err)
	}
	status, snapshot, _ := request(t, http.MethodGet, server.Addr, "/v1/snapshot", "")
	if status != http.StatusOK {
		t.Fatal(status)
	}
	later, err := acquire(background, s, "b", "x", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := release(background, s, "b", "x", later.Token); err != nil {
		t.Fatal(err)
	}
	if status, text, _ := request(t, http.MethodPut, server.Addr, "/v1/snapshot", snapshot); status != http.StatusOK {
		t.Fatalf("%d: %s", status, text)
	}
	for what, s := range map[string]store.Store{"the process before": s, "a new process": on(t, server.Addr, prefix)} {
		var g store.Grant
		servers.Wait(t, "a grant after the restoration", func() bool {
			g, err = acquire(background, s, what, "x", time.Hour)
			return err == nil
		})
		if g.Token <= later.Token {
			t.Errorf("%s: the token %d after %d", what, g.Token, later.Token)
		}
		if all, err := list(s); err != nil || len(all) == 0 || all[0].Name == "b" {
			t.Errorf("%s: the records %v, %v", what, all, err)
		}
	}
}
