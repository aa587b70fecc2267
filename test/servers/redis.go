//go:build unix

package servers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// A RedisServer is one Redis server, of its own process unless SOLOIST_TEST_REDIS_URL named it.
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

func redisAt(t Test, port int, dir string, settings ...string) *RedisServer {
	t.Helper()
	path := findProgram(t, "Redis", "redis-server", "valkey-server")
	args := append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}, settings...)
	p := launch(t, &Process{name: fmt.Sprintf("redis-%d", port), path: path, args: args, dir: dir, ready: redisReady(address(port))})
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
