package redisstore_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var shared = servers.Shared(func(t servers.Test) *servers.RedisServer { return servers.Redis(t) })

func TestConformance(t *testing.T) {
	server := shared(t)
	opts, err := redis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	prefixes := map[store.Store]string{}
	open := func(t testing.TB, prefix string) store.Store {
		client := redis.NewClient(opts)
		t.Cleanup(func() { client.Close() })
		s, err := redisstore.New(client, redisstore.Config{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		prefixes[s] = prefix
		return s
	}
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) store.Store {
			n++
			return open(t, "law"+strconv.Itoa(n))
		},
		Reopen: func(t testing.TB, s store.Store) store.Store { return open(t, prefixes[s]) },
		Writes: func(t testing.TB, _ store.Store) int64 {
			client := redis.NewClient(opts)
			defer client.Close()
			info, err := client.Info(context.Background(), "persistence").Result()
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(info) {
				if v, ok := strings.CutPrefix(strings.TrimSpace(line), "rdb_changes_since_last_save:"); ok {
					n, _ := strconv.ParseInt(v, 10, 64)
					return n
				}
			}
			t.Fatal("no count of changes")
			return 0
		},
	})
}
