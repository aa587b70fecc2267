package redisstore

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
)

// address looks whether one server answers at an address: several that know nothing of each other would each grant the same names.
func (s *Store) address(ctx context.Context) []store.Finding {
	client, ok := s.client.(*redis.Client)
	if !ok {
		return nil
	}
	const subject, connections = "address", 4
	ids := map[string]bool{}
	var held []*redis.Conn
	defer func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	for range min(connections, max(1, client.Options().PoolSize)) { // all at once, so that each is another connection
		conn := client.Conn()
		held = append(held, conn)
		text, err := ask(ctx, s, func(ctx context.Context) (string, error) { return conn.Info(ctx, "server").Result() })
		if err != nil {
			return []store.Finding{found(subject, err.Error(), store.LevelUnknown, "let the user call INFO, or make sure that one server answers there")}
		}
		for line := range strings.Lines(text) {
			if id, ok := strings.CutPrefix(strings.TrimSpace(line), "run_id:"); ok {
				ids[id] = true
			}
		}
	}
	switch len(ids) {
	case 0:
		return []store.Finding{found(subject, "the server does not tell which it is", store.LevelUnknown, "make sure that one server answers there")}
	case 1:
		return []store.Finding{found(subject, fmt.Sprintf("one server on %d connections", len(held)), store.LevelOK, "")}
	}
	return []store.Finding{found(subject, fmt.Sprintf("%d servers on %d connections", len(ids), len(held)), store.LevelError,
		"each would grant what another has granted: connect to one primary, not through something that spreads connections")}
}

// loopback reports whether nothing leaves the machine on the way to the server.
func (s *Store) loopback() bool {
	client, ok := s.client.(*redis.Client)
	if !ok {
		return false
	}
	opts := client.Options()
	host, _, err := net.SplitHostPort(opts.Addr)
	if opts.Network == "unix" {
		return true
	}
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
