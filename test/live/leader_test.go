//go:build unix

package live

import (
	"context"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// A member is a server of a cluster in which one leads.
type member interface {
	server
	Leads(ctx context.Context) bool
}

// leads is a member that leads a stream.
type leads struct {
	*servers.NATSServer
	stream string
}

func (l leads) Leads(ctx context.Context) bool { return l.NATSServer.Leads(ctx, l.stream) }

// A trio is a cluster of three members, and a URL that names them all.
type trio struct {
	members []member
	url     string
}

// members are servers, and their addresses for a URL.
func members[S member](all []S, addr func(S) string) (m []member, addrs string) {
	var at []string
	for _, s := range all {
		m, at = append(m, s), append(at, addr(s))
	}
	return m, strings.Join(at, ",")
}

func etcdTrio(t *testing.T) trio {
	m, addrs := members(servers.Etcd(t, 3), func(s *servers.EtcdServer) string { return s.Addr })
	return trio{m, "etcd://" + addrs + "/live"}
}

func consulTrio(t *testing.T) trio {
	m, addrs := members(servers.Consul(t, 3, nil), func(s *servers.ConsulServer) string { return s.Addr })
	return trio{m, "consul://" + addrs + "/live"}
}

func zookeeperTrio(t *testing.T) trio {
	m, addrs := members(servers.ZooKeeper(t, 3), func(s *servers.ZooKeeperServer) string { return s.Addr })
	return trio{m, "zk://" + addrs + "/live?sessiontimeout=10s"}
}

func natsTrio(t *testing.T) trio {
	var all []leads
	for _, s := range servers.NATS(t, 3, "jetstream: { max_mem: 64MB, max_file: 1GB, sync_interval: always }") {
		all = append(all, leads{s, "KV_live"})
	}
	m, addrs := members(all, func(s leads) string { return s.Addr })
	c := trio{m, "nats://" + addrs + "/live?synced=true&replicas=3"}
	servers.Wait(t, "a bucket with three replicas", func() bool { return soloist(t, c.url, "migrate", "up").Run() == nil })
	return c
}

// leader waits for a leader other than a member that is away, and returns nil when ctx ends before.
func (c trio) leader(ctx context.Context, away member) member {
	for {
		for _, m := range c.members {
			if m != away && m.Leads(ctx) {
				return m
			}
		}
		if !wait(ctx, 20*time.Millisecond) {
			return nil
		}
	}
}

// What happens to a leader.
const (
	leaderKilled = "leader killed"
	leaderPaused = "leader paused until another leads"
)

// kill ends a leader with SIGKILL, and starts it again when another leads. It took effect if one did.
func (c trio) kill(ctx context.Context, leader member) bool {
	leader.Kill()
	status, ok := leader.Ended().Sys().(syscall.WaitStatus)
	next := c.leader(ctx, leader)
	leader.Start()
	return ok && status.Signal() == syscall.SIGKILL && next != nil
}

// pause stops a leader until another leads. It took effect if one did.
func (c trio) pause(ctx context.Context, leader member) bool {
	leader.Pause()
	defer leader.Resume()
	return c.leader(ctx, leader) != nil && leader.Paused()
}

// deposed is a run in which one leader after the other is killed or paused. Between two of them the clients have as much time as that has taken, so that they work
// for half of the run at least.
func (c trio) deposed() (r run, missing func() []string) {
	s := &storm{effective: map[string]int{leaderKilled: 0, leaderPaused: 0}}
	rng := rand.New(rand.NewPCG(*seed, 0))
	r = run{url: c.url, span: 3 * *span, ttl: *ttl, faults: "all", meanwhile: func(ctx context.Context) map[string]int {
		for n := rng.IntN(2); ; n++ {
			kind, depose := leaderKilled, c.kill
			if n%2 == 1 {
				kind, depose = leaderPaused, c.pause
			}
			leader := c.leader(ctx, nil)
			if leader == nil {
				return s.effective
			}
			began := time.Now()
			if depose(ctx, leader) {
				s.effective[kind]++
			}
			if !wait(ctx, time.Since(began)+time.Duration(rng.Int64N(int64(*gap)))) {
				return s.effective
			}
		}
	}}
	return r, s.missing
}

// Clusters hold while their leaders are killed and paused in the midst of the clients' batches.
func TestLeaders(t *testing.T) {
	servers.Live(t)
	for _, c := range []struct {
		name  string
		start func(*testing.T) trio
	}{
		{"etcd", etcdTrio}, {"ZooKeeper", zookeeperTrio}, {"Consul", consulTrio}, {"NATS", natsTrio},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mustHold(t, func(t *testing.T) (run, func() []string) { return c.start(t).deposed() })
		})
	}
}
