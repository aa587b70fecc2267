package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/store/storetest"
	"github.com/soloist-dev/soloist/test/servers"
)

// harness is that of stores of the same URL, each law with its own prefix.
func harness(t *testing.T, url string, writes func(testing.TB, store.Store) int64, options ...string) storetest.Harness {
	t.Helper()
	urls := map[store.Store]string{}
	openAt := func(t testing.TB, at string) store.Store {
		s := open(t, at)
		urls[s] = at
		return s
	}
	return storetest.Harness{
		TimedTokens: true,
		Open:        func(t testing.TB) store.Store { return openAt(t, fresh(t, url, options...)) },
		Reopen:      func(t testing.TB, s store.Store) store.Store { return openAt(t, urls[s]) },
		Writes:      writes,
	}
}

// counting counts the changes of servers.
func counting(urls ...string) func(testing.TB, store.Store) int64 {
	return func(t testing.TB, _ store.Store) int64 {
		n := int64(0)
		for _, url := range urls {
			n += changes(t, plainClient(t, url))
		}
		return n
	}
}

// A client that the store is given.
func TestConformanceOfNew(t *testing.T) {
	server := shared(t)
	prefixes := map[store.Store]string{}
	openOn := func(t testing.TB, client *redis.Client, prefix string) store.Store {
		s, err := redisstore.New(client, redisstore.Config{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		prefixes[s] = prefix
		return s
	}
	openAt := func(t testing.TB, prefix string) store.Store { return openOn(t, plainClient(t, server.URL), prefix) }
	storetest.Run(t, storetest.Harness{
		Fail: func(t testing.TB, s store.Store, fate func() storetest.Fate) store.Store {
			client := plainClient(t, server.URL)
			client.AddHook(failing(fate))
			return openOn(t, client, prefixes[s])
		},
		TimedTokens: true,
		Open:        func(t testing.TB) store.Store { return openAt(t, prefix()) },
		Reopen:      func(t testing.TB, s store.Store) store.Store { return openAt(t, prefixes[s]) },
		Writes:      counting(server.URL),
	})
}

// failing is a hook of a client whose requests have a fate.
type failing func() storetest.Fate

func (f failing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f failing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, of redis.Cmder) error {
		err := f.request(func() error { return next(ctx, of) })
		of.SetErr(err)
		return err
	}
}

func (f failing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, of []redis.Cmder) error {
		err := f.request(func() error { return next(ctx, of) })
		if errors.Is(err, errLost) {
			for _, one := range of {
				one.SetErr(err)
			}
		}
		return err
	}
}

var errLost = errors.New("the connection broke")

func (f failing) request(send func() error) error {
	fate := f()
	if fate == storetest.Lost {
		return errLost
	}
	if err := send(); fate == storetest.Carried {
		return err
	}
	return errLost
}

func TestConformanceOfURL(t *testing.T) {
	server := shared(t)
	storetest.Run(t, harness(t, server.URL, counting(server.URL)))
}

func TestConformanceOfBatches(t *testing.T) {
	server := shared(t)
	h := harness(t, server.URL, counting(server.URL))
	h.Batches = true
	storetest.Run(t, h)
}

func TestConformanceOfCorruptRecords(t *testing.T) {
	server := shared(t)
	admin := plainClient(t, server.URL)
	for _, mode := range []string{"timeout=5s", "redisson=true", "share=job-lock:e:*"} {
		t.Run(mode, func(t *testing.T) {
			prefixes := map[store.Store]string{}
			err := storetest.Check(t, "corrupt-harms-its-name", storetest.Harness{
				Open: func(t testing.TB) store.Store {
					url := fresh(t, server.URL, mode)
					s := open(t, url)
					_, prefix, _ := strings.Cut(url, "prefix=")
					prefixes[s], _, _ = strings.Cut(prefix, "&")
					return s
				},
				Corrupt: func(t testing.TB, s store.Store, name string, way int) string {
					if way == len(overwritten)-wholly {
						return ""
					}
					return corrupting(t, admin, prefixes[s], name, way)
				},
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestConformanceInAppendOnlyFile(t *testing.T) {
	server := servers.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	storetest.Run(t, harness(t, server.URL, counting(server.URL)))
}

func TestConformanceOfCluster(t *testing.T) {
	cluster := sharedCluster(t)
	var writes func(testing.TB, store.Store) int64
	var urls []string
	for _, node := range cluster.Nodes {
		urls = append(urls, node.URL)
	}
	if len(urls) > 0 {
		writes = counting(urls...)
	}
	storetest.Run(t, harness(t, cluster.URL, writes))
}

func TestConformanceOfSentinel(t *testing.T) {
	sentinel := sharedSentinel(t)
	var writes func(testing.TB, store.Store) int64
	if sentinel.Master != nil {
		writes = counting(sentinel.Master.URL)
	}
	storetest.Run(t, harness(t, sentinel.URL, writes))
}

func TestConformanceWaitingForReplica(t *testing.T) {
	sentinel := sharedSentinel(t)
	storetest.Run(t, harness(t, sentinel.URL, nil, "wait=1"))
}

func TestConformanceWithAStringThatIsShared(t *testing.T) {
	server := shared(t)
	storetest.Run(t, harness(t, server.URL, counting(server.URL), "share=job-lock:default:*"))
}

func TestConformanceWithRedisson(t *testing.T) {
	server := shared(t)
	storetest.Run(t, harness(t, server.URL, counting(server.URL), "redisson=true"))
}

func TestConformanceOfLeastPrivilege(t *testing.T) {
	server := servers.Redis(t)
	admin := plainClient(t, server.URL)
	if err := admin.Do(background, words(aclLine("app", "canary-secret", "t*"))...).Err(); err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(server.URL, "redis://", "redis://app:canary-secret@", 1)
	storetest.Run(t, harness(t, url, counting(server.URL)))
}

// aclLine is the one of docs/stores/redis.md, for another user and prefix.
func aclLine(user, password, prefix string) string {
	line := strings.ReplaceAll(redisstore.ACL, "{soloist:", "{"+prefix+":")
	return strings.Replace(line, "soloist on >PASSWORD", user+" on >"+password, 1)
}

func words(line string) []any {
	var all []any
	for word := range strings.FieldsSeq(line) {
		all = append(all, word)
	}
	return all
}

func TestRingIsRefused(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	if _, err := redisstore.New(ring, redisstore.Config{}); err == nil || !strings.Contains(err.Error(), "Ring") {
		t.Error(err)
	}
}

// A client whose requests would outlive their contexts, or that repeats them, is refused, with what to set.
func TestClientsThatRequestInTheirOwnWayAreRefused(t *testing.T) {
	for what, c := range map[string]redis.UniversalClient{
		"ContextTimeoutEnabled":   redis.NewClient(&redis.Options{}),
		"ContextTimeoutEnabled, ": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}),
		"-2":                      redis.NewClient(&redis.Options{ContextTimeoutEnabled: true, ReadTimeout: -2}),
		"MaxRetries 3":            redis.NewClient(&redis.Options{ContextTimeoutEnabled: true}),
		"MaxRetries to -1":        redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: true, MaxRetries: 1}),
		"settings cannot be seen": struct{ redis.UniversalClient }{redis.NewClient(&redis.Options{ContextTimeoutEnabled: true, MaxRetries: -1})},
		"-2,":                     redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: true, WriteTimeout: -2}),
	} {
		defer c.Close()
		_, err := redisstore.New(c, redisstore.Config{})
		var invalid *store.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), strings.TrimRight(what, ", ")) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, timeout := range []time.Duration{0, -1, time.Minute} {
		c := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true, MaxRetries: -1, ReadTimeout: timeout, WriteTimeout: timeout})
		defer c.Close()
		s, err := redisstore.New(c, redisstore.Config{})
		if err != nil {
			t.Fatalf("with a ReadTimeout of %d: %v", timeout, err)
		}
		s.Close()
	}
}

// What is forgotten leaves nothing but the floor of tokens.
func TestSweepLeavesNothing(t *testing.T) {
	server := shared(t)
	opts, err := redis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	opts.ContextTimeoutEnabled, opts.MaxRetries = true, -1
	client := redis.NewClient(opts)
	defer client.Close()
	const lined = "timeout=5s" // there are no lines in the other modes
	for _, mode := range []string{lined, "redisson=true", "share=job-lock:e:*"} {
		t.Run(mode, func(t *testing.T) {
			url := fresh(t, server.URL, mode)
			s := open(t, url)
			for _, name := range []string{"a", "b"} {
				r := take(t, s, name, "h")
				r.Retain = 0
				if mode == lined {
					ctx, cancel := context.WithCancel(background)
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						_, _, _ = s.Queue(ctx, store.Claim{Name: name, Holder: "waits", TTL: time.Minute})
					}()
					servers.Wait(t, "leaving the line", func() bool {
						left, err := s.Leave(background, name, "waits")
						return err == nil && left
					})
					cancel()
					<-ended
				}
				if err := release(s, r); err != nil {
					t.Fatal(err)
				}
			}
			if n, err := s.Sweep(background, 10); err != nil || n != 2 {
				t.Errorf("swept %d, %v", n, err)
			}
			_, prefix, _ := strings.Cut(url, "prefix=")
			prefix, _, _ = strings.Cut(prefix, "&")
			left, err := client.Keys(background, "*"+prefix+":*").Result()
			if err != nil || len(left) != 1 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}

// A sweep goes on after the names of one script, until it has forgotten as many as it may.
func TestSweepGoesOn(t *testing.T) {
	s := open(t, fresh(t, shared(t).URL, "timeout=5s"))
	const names = 450
	claims, releases := make([]store.Claim, names), make([]store.Release, names)
	for i := range claims {
		claims[i] = store.Claim{Name: fmt.Sprint("name ", i), Holder: "h", TTL: time.Minute}
	}
	outs, err := s.Acquire(background, claims)
	if err != nil {
		t.Fatal(err)
	}
	for i, out := range outs {
		releases[i] = store.Release{Name: claims[i].Name, Holder: "h", Token: out.Grant.Token}
	}
	errs, err := s.Release(background, releases)
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{400, 50, 0} {
		if n, err := s.Sweep(background, 400); n != want || err != nil {
			t.Errorf("a sweep of 400 forgot %d, %v; want %d", n, err, want)
		}
	}
}

// A configuration is good up to its bounds. A cluster's client has neither shared keys nor WAIT, and there must be a
// client.
func TestConfigsAreGoodUpToTheirBounds(t *testing.T) {
	one := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true, MaxRetries: -1})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { one.Close(); cluster.Close() })
	type config = redisstore.Config
	for _, c := range []struct {
		client redis.UniversalClient
		config config
		wrong  string // "" if nothing is
	}{
		{one, config{}, ""},
		{one, config{Prefix: strings.Repeat("p", 64)}, ""},
		{one, config{Prefix: strings.Repeat("p", 65)}, "prefix"},
		{one, config{Prefix: "!~"}, ""},
		{one, config{Prefix: "a b"}, "prefix"},
		{one, config{Prefix: "a\x7f"}, "prefix"},
		{one, config{Prefix: "a{"}, "prefix"},
		{one, config{Prefix: "a}"}, "prefix"},
		{one, config{Share: "*" + strings.Repeat("s", 254)}, ""},
		{one, config{Share: "*" + strings.Repeat("s", 255)}, "share"},
		{one, config{Share: "s"}, "share"},
		{one, config{Share: "*s*"}, "share"},
		{one, config{Share: "* s"}, "share"},
		{one, config{Redisson: true}, ""},
		{one, config{Redisson: true, Share: "*"}, "redisson"},
		{one, config{Wait: 100}, ""},
		{one, config{Wait: 101}, "wait"},
		{one, config{Wait: -1}, "wait"},
		{one, config{WaitTimeout: time.Millisecond}, ""},
		{one, config{WaitTimeout: time.Millisecond - 1}, "wait timeout"},
		{one, config{WaitTimeout: time.Minute}, ""},
		{one, config{WaitTimeout: time.Minute + 1}, "wait timeout"},
		{cluster, config{}, ""},
		{cluster, config{Share: "*"}, "client"},
		{cluster, config{Redisson: true}, "client"},
		{cluster, config{Wait: 1}, "client"},
		{nil, config{}, "client"},
	} {
		s, err := redisstore.New(c.client, c.config)
		if err == nil {
			err = s.Close()
		}
		wrong := ""
		if invalid := (*store.InvalidError)(nil); errors.As(err, &invalid) {
			wrong = invalid.What
		}
		if wrong != c.wrong || wrong == "" && err != nil {
			t.Errorf("%T with %+v: %v; want %q to be wrong", c.client, c.config, err, c.wrong)
		}
	}
}
