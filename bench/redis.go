package main

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// redisBackends returns Redis as the system's packages have it, and the other versions that the conformance suite runs on: "valkey-9.1", "redis-8.2".
func redisBackends() []backend {
	all := []backend{redisBackend("Redis", func(t servers.Test) *servers.RedisServer { return servers.Redis(t) })}
	for _, v := range servers.RedisVersions {
		all = append(all, redisBackend(v.Name+"-"+v.Version, func(t servers.Test) *servers.RedisServer { return servers.RedisOf(t, v) }))
	}
	return all
}

func redisBackend(name string, serve func(servers.Test) *servers.RedisServer) backend {
	open := func(ctx context.Context, url string) (store.Store, error) { return redisstore.OpenURL(ctx, url) }
	ours := oursOn(open)
	ours.sends = []string{"eval", "evalsha", "subscribe", "ssubscribe", "unsubscribe", "sunsubscribe"}
	given := oursOn(openGiven)
	given.name, given.cases, given.sends = "soloist, given client", "ABD", ours.sends
	start := func(t servers.Test) (*server, error) { return startRedis(t, serve(t)) }
	return backend{name: name, start: start, open: open, specs: slices.Concat(redisPeers(), []spec{ours, given}, serviceOn(name, ours, open), bareService(name)), java: []javaSpec{
		{name: "ShedLock, Jedis", provider: "jedis"},
		{name: "Redisson RLock", provider: "redisson"},
		{name: "Redisson RFencedLock", provider: "redisson-fenced"},
	}}
}

// openGiven opens a store on a client of the user's.
func openGiven(_ context.Context, url string) (store.Store, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	options.ContextTimeoutEnabled, options.MaxRetries, options.PoolSize = true, -1, 64
	client := redis.NewClient(options)
	s, err := redisstore.New(client, redisstore.Config{})
	return withClient{s, client}, err
}

// withClient closes the client after its store.
type withClient struct {
	*redisstore.Store
	client *redis.Client
}

func (s withClient) Close() error { return errors.Join(s.Store.Close(), s.client.Close()) }

func startRedis(t servers.Test, s *servers.RedisServer) (*server, error) {
	options, err := redis.ParseURL(s.URL)
	if err != nil {
		return nil, err
	}
	options.PoolSize = 1
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	version := ""
	if info, err := client.Info(context.Background(), "server").Result(); err == nil {
		version = "Redis " + submatch(regexp.MustCompile(`redis_version:(\S+)`), info)
		if valkey := submatch(regexp.MustCompile(`valkey_version:(\S+)`), info); valkey != "" {
			version = "Valkey " + valkey
		}
	}
	return &server{
		url: s.URL, version: version,
		pid:   func() int { return 0 }, // count returns the CPU too
		count: func(ctx context.Context) (counts, error) { return redisCounts(ctx, client) },
	}, nil
}

// redisCPU is finer than what the system says of the process.
var redisCPU = regexp.MustCompile(`(?m)^used_cpu_(?:sys|user):([0-9.]+)`)

var commandStat = regexp.MustCompile(`(?m)^cmdstat_([a-z|]+):calls=(\d+),usec=(\d+)`)

// redisCounts counts commands by their names, because Redis counts those that a script calls like those that clients send.
func redisCounts(ctx context.Context, client *redis.Client) (counts, error) {
	text, err := client.Info(ctx, "commandstats", "cpu").Result()
	if err != nil {
		return counts{}, err
	}
	c := counts{byName: map[string]int64{}, micros: map[string]int64{}}
	for _, m := range commandStat.FindAllStringSubmatch(text, -1) {
		c.byName[m[1]], _ = strconv.ParseInt(m[2], 10, 64)
		c.micros[m[1]], _ = strconv.ParseInt(m[3], 10, 64)
	}
	for _, m := range redisCPU.FindAllStringSubmatch(text, -1) {
		seconds, _ := strconv.ParseFloat(m[1], 64)
		c.cpu += time.Duration(seconds * float64(time.Second))
	}
	return c, nil
}

func submatch(re *regexp.Regexp, text string) string {
	if m := re.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}
