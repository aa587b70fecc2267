//go:build unix

package live

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// A rig is a server that suffers, and the clients' way to it.
type rig struct {
	server     server
	standby    server // nil where there is none
	addr       string // of the server
	url        string // of the server itself
	data       string // the directory of its data
	proxy      *proxy
	wire       *proxy     // between the server and its standby
	throttling throttling // nil where nothing throttles
	slow       bool       // the server takes long to start, and clients to connect to it
	unfenced   bool       // the store promises no fencing as it is configured, and holds here nevertheless
	spans      int        // a run takes so many times as long as those of other rigs, since the server takes seconds to start; 0 means 1
	half       func()     // what happens once, in the middle of a run; nil where nothing does
}

func (b *rig) proxied(t *testing.T) *rig {
	t.Helper()
	p, err := newProxy(b.addr)
	must(t, err)
	t.Cleanup(p.close)
	b.proxy = p
	return b
}

// through is the URL that leads through the proxy.
func (b *rig) through() string {
	return strings.Replace(b.url, b.addr, b.proxy.addr(), 1)
}

var durableRedis = []string{"--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"}

func redisRig(t *testing.T) *rig {
	s := servers.Redis(t, durableRedis...)
	return (&rig{server: s, addr: s.Addr, url: s.URL, data: filepath.Join(filepath.Dir(s.LogFile()), "appendonlydir")}).proxied(t)
}

// The servers are small: several run at a time, and their data is in memory.
var smallPostgres = []string{"shared_buffers=32MB", "max_connections=60", "max_wal_size=64MB", "min_wal_size=32MB", "checkpoint_timeout=30s"}

func postgresRig(t *testing.T, settings ...string) *rig {
	s := servers.Postgres(t, append(smallPostgres, settings...)...)
	migrate(t, s.URL)
	return (&rig{server: s, addr: s.Addr, url: s.URL, data: filepath.Join(filepath.Dir(s.LogFile()), "data")}).proxied(t)
}

// synchronousRig is a primary whose commits wait for a standby, which is promoted when the primary has died. The primary never comes back.
func synchronousRig(t *testing.T) *rig {
	primary := servers.Postgres(t, append(smallPostgres, "synchronous_standby_names=standby")...)
	wire, err := newProxy(primary.Addr)
	must(t, err)
	t.Cleanup(wire.close)
	standby := servers.PostgresStandby(t, heardThrough(primary, wire.addr()), "standby", append(smallPostgres, "wal_retrieve_retry_interval=100ms")...)
	servers.Wait(t, "the standby to be synchronous", func() bool {
		return psql(t, primary.URL, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
	})
	migrate(t, primary.URL)
	b := (&rig{server: primary, standby: standby, addr: primary.Addr, url: primary.URL, wire: wire}).proxied(t)
	b.half = func() {
		primary.Kill()
		standby.Promote()
		b.server, b.standby = standby, nil
		b.proxy.retarget(1, standby.Addr)
	}
	return b
}

// heardThrough is a primary as a standby has it that reaches it at another address.
func heardThrough(primary *servers.PostgresServer, addr string) *servers.PostgresServer {
	seen := *primary
	seen.URL = strings.Replace(primary.URL, primary.Addr, addr, 1)
	return &seen
}

func mariadbRig(t *testing.T) *rig {
	s := servers.MariaDB(t, "--innodb-flush-log-at-trx-commit=1")
	migrate(t, s.URL)
	return (&rig{server: s, addr: s.Addr, url: s.URL, data: filepath.Join(filepath.Dir(s.LogFile()), "data")}).proxied(t)
}

// The coordination services are alone here: what happens to their leaders is in TestLeaders.

func etcdRig(t *testing.T) *rig {
	s := servers.Etcd(t, 1)[0]
	return (&rig{server: s, addr: s.Addr, url: "etcd://" + s.Addr + "/live"}).proxied(t)
}

func zookeeperRig(t *testing.T) *rig {
	s := servers.ZooKeeper(t, 1)[0]
	return (&rig{server: s, addr: s.Addr, url: "zk://" + s.Addr + "/live?sessiontimeout=2s", spans: 5}).proxied(t)
}

func consulRig(t *testing.T) *rig {
	s := servers.Consul(t, 1, nil)[0]
	return (&rig{server: s, addr: s.Addr, url: "consul://" + s.Addr + "/live"}).proxied(t)
}

func natsRig(t *testing.T) *rig {
	s := servers.NATS(t, 1, "jetstream: { max_mem: 64MB, max_file: 1GB, sync_interval: always }")[0]
	url := "nats://" + s.Addr + "/live?synced=true"
	migrate(t, url)
	return (&rig{server: s, addr: s.Addr, url: url}).proxied(t)
}

// psql runs a statement, and returns what it answers.
func psql(t *testing.T, url, statement string) string {
	t.Helper()
	out, err := exec.Command(servers.Program(t, "psql", "psql"), "-AtX", "-v", "ON_ERROR_STOP=1", "-c", statement, url).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", statement, err, out)
	}
	return strings.TrimSpace(string(out))
}

// gap is the longest time between two faults. More than half of what the clients ask must succeed.
func (b *rig) gap() time.Duration {
	if b.slow {
		return 10 * *gap
	}
	return *gap
}

// stormy is a run in which a storm blows over the rig, and in the middle of which happens what the rig says.
func (b *rig) stormy(t *testing.T) (r run, missing func() []string) {
	s := &storm{proxy: b.proxy, throttling: b.throttling, slow: b.slow, ttl: *ttl, gap: b.gap(), rng: rand.New(rand.NewPCG(*seed, 0)), effective: map[string]int{}}
	r = run{url: b.through(), unfenced: b.unfenced, span: time.Duration(max(1, b.spans)) * *span, ttl: *ttl, faults: "all", meanwhile: func(ctx context.Context) map[string]int {
		if b.half != nil {
			end, _ := ctx.Deadline()
			first, cancel := context.WithTimeout(ctx, time.Until(end)/2)
			defer cancel()
			s.server, s.standby = b.server, b.standby
			s.blow(first)
			b.half()
			s.effective["failover"]++
		}
		s.server, s.standby = b.server, b.standby
		s.blow(ctx)
		return s.effective
	}}
	if b.half != nil {
		r.span *= 2
	}
	return r, s.missing
}

// once does something, and waits until the run ends.
func once(do func(context.Context)) func(context.Context) map[string]int {
	return func(ctx context.Context) map[string]int {
		do(ctx)
		<-ctx.Done()
		return nil
	}
}

// repeatedly does something until the run ends, and counts it.
func repeatedly(what string, every time.Duration, do func()) func(context.Context) map[string]int {
	return func(ctx context.Context) map[string]int {
		n := 0
		for wait(ctx, every) {
			do()
			n++
		}
		return map[string]int{what: n}
	}
}

// copied copies a directory with its owners.
func copied(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.RemoveAll(to))
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copying %s to %s: %v\n%s", from, to, err, out)
	}
}

// restore makes the server's data be what it was when it was saved. Others may be connected to it all the while.
func (b *rig) save(t *testing.T) (restore func()) {
	t.Helper()
	b.server.Stop()
	copied(t, b.data, b.data+".saved")
	b.server.Start()
	return func() {
		b.server.Kill()
		copied(t, b.data+".saved", b.data)
		b.server.Start()
	}
}

// redisCommand runs a command, and returns the beginning of the reply, "" when the server cannot be reached.
func redisCommand(t *testing.T, addr, command string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := fmt.Fprint(conn, command+"\r\n"); err != nil {
		return ""
	}
	reply := make([]byte, 1024)
	n, _ := conn.Read(reply)
	return string(reply[:n])
}
