//go:build unix

package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A RedisServer is one Redis server, in its own process unless SOLOIST_TEST_REDIS_URL named it.
type RedisServer struct {
	*Process        // nil when the server is somebody else's
	Addr     string // host:port; "" when the server is somebody else's
	URL      string // redis://host:port/0
}

// Redis starts a Redis server without persistence. Settings are as in redis.conf, a word each: "--maxmemory", "10mb".
// With settings the server is always our own.
func Redis(t Test, settings ...string) *RedisServer {
	t.Helper()
	if url := fromEnvironment("REDIS"); url != "" && len(settings) == 0 {
		return &RedisServer{URL: url}
	}
	return redisAt(t, FreePort(t), Directory(t), settings...)
}

// RedisTLS starts a Redis server that speaks TLS only, with these files in PEM, and asks clients for a certificate of the authority.
func RedisTLS(t Test, caFile, certFile, keyFile string, settings ...string) *RedisServer {
	t.Helper()
	port := FreePort(t)
	path := Program(t, "Redis", "redis-server", "valkey-server")
	dir := Directory(t)
	args := append([]string{"--port", "0", "--tls-port", strconv.Itoa(port), "--tls-ca-cert-file", caFile, "--tls-cert-file", certFile,
		"--tls-key-file", keyFile, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}, settings...)
	p := launch(t, &Process{name: fmt.Sprintf("redis-%d", port), path: path, args: args, dir: dir, ready: listening(address(port))})
	return &RedisServer{Process: p, Addr: address(port), URL: "rediss://" + address(port) + "/0"}
}

func redisAt(t Test, port int, dir string, settings ...string) *RedisServer {
	t.Helper()
	return redisWith(t, port, dir, nil, settings...)
}

func redisWith(t Test, port int, dir string, env []string, settings ...string) *RedisServer {
	t.Helper()
	return redisFrom(t, Program(t, "Redis", "redis-server", "valkey-server"), port, dir, env, settings...)
}

// redisFrom starts the server of a program.
func redisFrom(t Test, path string, port int, dir string, env []string, settings ...string) *RedisServer {
	t.Helper()
	args := append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}, settings...)
	p := launch(t, &Process{name: fmt.Sprintf("redis-%d", port), path: path, args: args, env: env, dir: dir, ready: redisReady(address(port))})
	return &RedisServer{Process: p, Addr: address(port), URL: "redis://" + address(port) + "/0"}
}

// redisReady is nil when PING is answered, be it by a demand for a password.
func redisReady(addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if deadline, ok := ctx.Deadline(); ok {
			_ = c.SetDeadline(deadline)
		}
		if _, err := fmt.Fprint(c, "PING\r\n"); err != nil {
			return err
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			return err
		}
		if strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH") {
			return nil
		}
		return fmt.Errorf("PING was answered %q", line)
	}
}

// A RedisSentinels is a master with a replica, and three Sentinels that watch them.
type RedisSentinels struct {
	Master, Replica *RedisServer
	Sentinels       []*RedisServer
	Name            string // of the master
	URL             string // redis+sentinel://…/NAME
}

// RedisSentinel starts servers that fail over when the master has not responded for a while: a machine that is busy must not make that of servers which
// nobody is to fail over. SOLOIST_TEST_REDIS_SENTINEL_URL names others.
func RedisSentinel(t Test, patience time.Duration) *RedisSentinels {
	t.Helper()
	if url := fromEnvironment("REDIS_SENTINEL"); url != "" {
		return &RedisSentinels{URL: url}
	}
	s := &RedisSentinels{Name: "main"}
	s.Master = redisAt(t, FreePort(t), Directory(t))
	host, port, _ := net.SplitHostPort(s.Master.Addr)
	s.Replica = redisAt(t, FreePort(t), Directory(t), "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	Wait(t, "the replica to follow its master", func() bool {
		return strings.Contains(ask(s.Master.Addr, "INFO replication"), "state=online")
	})
	var addrs []string
	for range 3 {
		dir, p := Directory(t), FreePort(t)
		conf := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor main %s %s 2\nsentinel down-after-milliseconds main %d\nsentinel failover-timeout main 4000\n",
			p, dir, host, port, patience.Milliseconds())
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatalf("writing the settings of a Sentinel: %v", err)
		}
		path := Program(t, "Redis", "redis-server", "valkey-server")
		process := launch(t, &Process{name: fmt.Sprintf("sentinel-%d", p), path: path, args: []string{conf, "--sentinel"}, dir: dir, ready: redisReady(address(p))})
		s.Sentinels = append(s.Sentinels, &RedisServer{Process: process, Addr: address(p)})
		addrs = append(addrs, address(p))
	}
	for _, sentinel := range s.Sentinels {
		Wait(t, "the Sentinels to know each other and the replica", func() bool {
			state := ask(sentinel.Addr, "INFO sentinel")
			return strings.Contains(state, "status=ok") && strings.Contains(state, "slaves=1,sentinels=3")
		})
	}
	s.URL = "redis+sentinel://" + strings.Join(addrs, ",") + "/" + s.Name
	return s
}

// A RedisNodes is a cluster of three primaries with a replica each.
type RedisNodes struct {
	Nodes []*RedisServer
	URL   string // redis+cluster://…
}

// RedisCluster starts a cluster that takes a node for dead which has not responded for a while: a machine that is busy must not make that of a cluster which
// nobody is to fail over. SOLOIST_TEST_REDIS_CLUSTER_URL names another.
func RedisCluster(t Test, patience time.Duration) *RedisNodes {
	t.Helper()
	if url := fromEnvironment("REDIS_CLUSTER"); url != "" {
		return &RedisNodes{URL: url}
	}
	cli := Program(t, "redis-cli", "redis-cli", "valkey-cli")
	c := &RedisNodes{}
	var addrs []string
	for range 6 {
		node := redisAt(t, FreePort(t), Directory(t), "--cluster-enabled", "yes", "--cluster-node-timeout", strconv.FormatInt(patience.Milliseconds(), 10),
			"--cluster-port", strconv.Itoa(FreePort(t)), "--repl-diskless-sync-delay", "0")
		c.Nodes, addrs = append(c.Nodes, node), append(addrs, node.Addr)
	}
	create := exec.Command(cli, append(append([]string{"--cluster", "create"}, addrs...), "--cluster-replicas", "1", "--cluster-yes")...)
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("making a cluster: %v\n%s", err, out)
	}
	for _, node := range c.Nodes {
		Wait(t, "the cluster to be whole", func() bool {
			return strings.Contains(ask(node.Addr, "CLUSTER INFO"), "cluster_state:ok") && !strings.Contains(ask(node.Addr, "INFO replication"), "master_link_status:down")
		})
	}
	for _, node := range c.Nodes {
		if strings.Contains(ask(node.Addr, "INFO replication"), "role:master") {
			Wait(t, "the replicas to follow", func() bool { return strings.Contains(ask(node.Addr, "INFO replication"), "state=online") })
		}
	}
	c.URL = "redis+cluster://" + strings.Join(addrs, ",")
	return c
}

// ask returns what a server replies to a command that is answered with one text, "" when it does not.
func ask(addr, command string) string {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := fmt.Fprint(conn, command+"\r\n"); err != nil {
		return ""
	}
	in := bufio.NewReader(conn)
	head, err := in.ReadString('\n')
	if err != nil || head[0] != '$' {
		return head
	}
	n, _ := strconv.Atoi(strings.TrimSpace(head[1:]))
	text := make([]byte, max(0, n))
	_, _ = io.ReadFull(in, text)
	return string(text)
}
