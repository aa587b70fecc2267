package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{}) // go-redis reports every lost connection and new master
	servers.Main(m)
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

var (
	background = context.Background()

	shared         = servers.Shared(func(t servers.Test) *servers.RedisServer { return servers.Redis(t) })
	sharedCluster  = servers.Shared(func(t servers.Test) *servers.RedisNodes { return servers.RedisCluster(t, time.Minute) })
	sharedSentinel = servers.Shared(func(t servers.Test) *servers.RedisSentinels { return servers.RedisSentinel(t, time.Minute) })
)

// plainClient is what go-redis makes by default, with what New asks for.
func plainClient(t testing.TB, url string) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opts.ContextTimeoutEnabled, opts.MaxRetries = true, -1
	c := redis.NewClient(opts)
	t.Cleanup(func() { c.Close() })
	return c
}

func openURL(url string) (*redisstore.Store, error) { return redisstore.OpenURL(background, url) }

// open opens a store that ends with the test.
func open(t testing.TB, url string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.OpenURL(background, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// fresh is a URL with its own prefix.
func fresh(t testing.TB, url string, options ...string) string {
	t.Helper()
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return url + separator + strings.Join(append([]string{"prefix=" + prefix()}, options...), "&")
}

var prefixes atomic.Int64

// prefix is one that no other test of this run uses.
func prefix() string {
	return fmt.Sprintf("t%d-%d", time.Now().UnixNano(), prefixes.Add(1))
}

func acquire(t testing.TB, s store.Store, name, holder string) store.Outcome {
	t.Helper()
	out, err := s.Acquire(background, []store.Claim{{Name: name, Holder: holder, TTL: time.Minute}})
	if err != nil {
		t.Fatalf("acquiring %q: %v", name, err)
	}
	return out[0]
}

// take acquires a name that is free.
func take(t testing.TB, s store.Store, name, holder string) store.Release {
	t.Helper()
	out := acquire(t, s, name, holder)
	if out.Err != nil {
		t.Fatalf("acquiring %q: %v", name, out.Err)
	}
	return store.Release{Name: name, Holder: holder, Token: out.Grant.Token, Retain: time.Hour}
}

func release(s store.Store, r store.Release) error {
	errs, err := s.Release(background, []store.Release{r})
	if err != nil {
		return err
	}
	return errs[0]
}

func extend(s store.Store, r store.Release) error {
	errs, err := s.Extend(background, []store.Extension{{Name: r.Name, Holder: r.Holder, Token: r.Token, TTL: time.Minute}})
	if err != nil {
		return err
	}
	return errs[0]
}

// tried is the error of an acquisition, wherever it stands.
func tried(ctx context.Context, s store.Store, name, holder string) error {
	out, err := s.Acquire(ctx, []store.Claim{{Name: name, Holder: holder, TTL: time.Minute}})
	if err != nil {
		return err
	}
	return out[0].Err
}

// info reads a number of INFO.
func info(t testing.TB, c redis.UniversalClient, section, field string) int64 {
	t.Helper()
	text, err := c.Info(background, section).Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("INFO %s has no %s", section, field)
	return 0
}

func changes(t testing.TB, c redis.UniversalClient) int64 {
	return info(t, c, "persistence", "rdb_changes_since_last_save")
}

// repeated repeats try until it returns nil, and says how long that took.
func repeated(t testing.TB, what string, try func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		err := try()
		if err == nil {
			return time.Since(begin)
		}
		if time.Since(begin) > servers.Patience {
			t.Fatalf("%s: not within %v: %v", what, servers.Patience, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func isUnknown(err error) bool { return errors.Is(err, store.ErrUnknown) }
