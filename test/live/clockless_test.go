//go:build unix

package live

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/test/servers"
)

// Rigs of the stores without a clock.

// dynamoDBRig is the vendor's emulator, with its tables on disk.
func dynamoDBRig(t *testing.T) *rig {
	s := servers.DynamoDBOnDisk(t)
	addr := strings.TrimPrefix(s.Endpoint, "http://")
	url := "dynamodb://live?region=eu-central-1&endpoint=" + s.Endpoint
	migrate(t, url)
	return (&rig{server: s, addr: addr, url: url}).proxied(t).throttled(t, false, refuseAsDynamoDB)
}

// throttled gives a rig of a server that speaks HTTP what refuses requests.
func (b *rig) throttled(t *testing.T, two bool, refuse http.HandlerFunc) *rig {
	t.Helper()
	throttler, end, err := newHTTPThrottler(b.addr, two, refuse)
	must(t, err)
	t.Cleanup(end)
	b.throttling = refusing(throttler, func() { b.proxy.retarget(1, throttler.addr()) }, func() { b.proxy.retarget(1, b.addr) })
	return b
}

// cassandraRig is one node, which keeps what it has acknowledged.
func cassandraRig(t *testing.T) *rig {
	s := servers.CassandraSynced(t)
	servers.Wait(t, "the superuser of Cassandra", func() bool {
		done, err := cql(s.Addr, "CREATE KEYSPACE IF NOT EXISTS live WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
		return err == nil && done
	})
	throttler, err := newCassandraThrottler(s.Addr)
	must(t, err)
	t.Cleanup(func() { _ = throttler.listener.Close() })
	b := &rig{server: s, addr: throttler.addr(), url: "cassandra://cassandra:cassandra@" + throttler.addr() + "/live", unfenced: true, slow: true}
	migrate(t, b.url)
	b.throttling = refusing(throttler.throttler, func() { throttler.on.Store(true) }, func() { throttler.on.Store(false) })
	return b.proxied(t)
}

// A grid is a cluster of Hazelcast. What happens to it happens to one member after the other; a member that has come back has its part of the entries before the
// next one suffers, for each entry has one backup.
type grid struct {
	t                        *testing.T
	*servers.HazelcastServer // the member that suffers
	members                  []*servers.HazelcastServer
}

// Start starts the member again, and moves on to the next one.
func (g *grid) Start() {
	g.HazelcastServer.Start()
	g.settle()
	g.HazelcastServer = g.members[(slices.Index(g.members, g.HazelcastServer)+1)%len(g.members)]
}

// settle waits until all members are there and every entry has its backup.
func (g *grid) settle() {
	servers.Wait(g.t, "the cluster to be whole", func() bool {
		for _, m := range g.members {
			if !m.Safe(len(g.members)) {
				return false
			}
		}
		return true
	})
}

// hazelcastRig is a cluster of three members. Each client is connected to one of them.
func hazelcastRig(t *testing.T) *rig {
	cluster := servers.NewHazelcastCluster(t, 3)
	g := &grid{t: t, HazelcastServer: cluster.Members[0], members: cluster.Members}
	g.settle()
	b := &rig{server: g, addr: g.Addr, unfenced: true}
	b.url = fmt.Sprintf("hazelcast://%s/live?unisocket=true&cluster=%s", g.Addr, servers.HazelcastName)
	b.proxied(t)
	var addrs []string
	for _, m := range cluster.Members {
		addrs = append(addrs, m.Addr)
	}
	b.proxy.retarget(1, addrs...)
	b.throttling = slowed(g, b.proxy)
	return b
}

// temporalRig is Temporal itself, with its data in PostgreSQL. It needs tens of seconds on a busy machine until it grants again after it was killed or stopped; in a short run
// most of what is asked fails for that.
func temporalRig(t *testing.T) *rig {
	s := servers.TemporalOnPostgres(t)
	servers.Wait(t, "the namespace", func() bool { return s.Register("default") == nil })
	url := "temporal://" + s.Addr + "/default"
	servers.Wait(t, "the namespace to be known", func() bool { return soloist(t, url, "locks", "list").Run() == nil })
	return (&rig{server: s, addr: s.Addr, url: url, slow: true, spans: 3}).proxied(t).throttled(t, true, refuseAsTemporal)
}
