package etcdstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/etcdstore"
	"github.com/soloist-dev/soloist/test/failover"
	"github.com/soloist-dev/soloist/test/servers"
)

// A trio is a cluster of three members. Each test leaves all of them running.
type trio struct {
	members []*servers.EtcdServer
	client  *clientv3.Client
}

var cluster = servers.Shared(func(t servers.Test) *trio {
	c := &trio{members: servers.Etcd(t, 3)}
	c.client = newClient(t, c.members[0].URL, c.members[1].URL, c.members[2].URL)
	t.Cleanup(func() { _ = c.client.Close() })
	return c
})

// within calls a function with a context that ends soon, as the client of soloist does.
func within(do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(background, 2*time.Second)
	defer cancel()
	return do(ctx)
}

// leader returns the member that leads.
func (c *trio) leader(t testing.TB) (leader *servers.EtcdServer) {
	t.Helper()
	servers.Wait(t, "a leader", func() bool {
		for _, m := range c.members {
			err := within(func(ctx context.Context) error {
				status, err := c.client.Status(ctx, m.URL)
				if err == nil && status.Leader == status.Header.MemberId {
					leader = m
				}
				return err
			})
			if err == nil && leader == m {
				return true
			}
		}
		return false
	})
	return leader
}

// open returns a store with its own client, which leaves a member that is silent.
func (c *trio) open(t testing.TB, first int, prefix string) *etcdstore.Store {
	t.Helper()
	var addrs []string
	for i := range c.members {
		addrs = append(addrs, c.members[(first+i)%len(c.members)].Addr)
	}
	s, err := etcdstore.OpenURL(background, "etcd://"+strings.Join(addrs, ",")+"/"+prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// brought returns the cluster with records that no other test uses, for the checks of package failover.
func (c *trio) brought(t testing.TB) failover.Cluster {
	below := prefix()
	return failover.Cluster{
		Servers: []failover.Server{c.members[0], c.members[1], c.members[2]},
		Open:    func(first int) store.Store { return c.open(t, first, below) },
		Leader:  func() failover.Server { return c.leader(t) },
		Leads:   func(ctx context.Context, s failover.Server) bool { return s.(*servers.EtcdServer).Leads(ctx) },
	}
}

func TestFailover(t *testing.T) {
	servers.Long(t)
	failover.OneAway(t, cluster(t).brought(t))
}

// BenchmarkLeader: how long a client waits when the leader is killed.
func BenchmarkLeader(b *testing.B) { failover.Measure(b, cluster(b).brought(b)) }

func TestNoMajority(t *testing.T) {
	servers.Long(t)
	failover.NoMajority(t, cluster(t).brought(t))
}
