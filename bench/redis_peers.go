package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bsm/redislock"
	gocronlock "github.com/go-co-op/gocron-redis-lock/v2"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func redisPeers() []spec {
	return []spec{
		{name: "floor: SET NX PX, compare and delete (go-redis)", cases: "ABDE", floor: true, module: "github.com/redis/go-redis/v9", sends: []string{"set", "eval", "evalsha"}, open: openRedisFloor},
		{name: "the same, pipelined (rueidis)", cases: "ABD", module: "github.com/redis/rueidis", sends: []string{"set", "eval", "evalsha"}, open: openRueidisFloor},
		{name: "redsync", cases: "ABCDEH", module: "github.com/go-redsync/redsync/v4", sends: []string{"set", "eval", "evalsha"}, open: openRedsync},
		{name: "redislock", cases: "ABCDEH", module: "github.com/bsm/redislock", sends: []string{"eval", "evalsha"}, open: openRedislock},
		{name: "rueidislock", cases: "ABCDEH", module: "github.com/redis/rueidis", sends: []string{"eval", "evalsha"}, open: openRueidislock},
		{name: "gocron's Redis locker", cases: "ABH", module: "github.com/go-co-op/gocron-redis-lock/v2", sends: []string{"set", "eval", "evalsha"}, open: openGocron},
	}
}

// deleteIfMine is the script that everybody who writes such a lock by hand uses.
const deleteIfMine = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`

const extendIfMine = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0`

var errNotMine = errors.New("the lock was not held any more")

func goRedis(url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	options.PoolSize = 64
	return redis.NewClient(options), nil
}

func openRedisFloor(_ context.Context, url string, ttl time.Duration) (contender, error) {
	client, err := goRedis(url)
	if err != nil {
		return nil, err
	}
	free, prolong := redis.NewScript(deleteIfMine), redis.NewScript(extendIfMine)
	run := func(ctx context.Context, script *redis.Script, name string, args ...any) error {
		n, err := script.Run(ctx, client, []string{name}, args...).Int()
		if err == nil && n == 0 {
			err = errNotMine
		}
		return err
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			mine := rand.Text()
			err := client.SetArgs(ctx, name, mine, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
			switch {
			case errors.Is(err, redis.Nil):
				return hold{}, errHeld
			case err != nil:
				return hold{}, err
			}
			return hold{
				unlock: func() error { return run(context.Background(), free, name, mine) },
				extend: func(ctx context.Context) error { return run(ctx, prolong, name, mine, ttl.Milliseconds()) },
			}, nil
		},
		close: func() { _ = client.Close() },
	}, nil
}

func openRueidisFloor(_ context.Context, url string, ttl time.Duration) (contender, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	free := rueidis.NewLuaScript(deleteIfMine)
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			mine := rand.Text()
			err := client.Do(ctx, client.B().Set().Key(name).Value(mine).Nx().PxMilliseconds(ttl.Milliseconds()).Build()).Error()
			switch {
			case rueidis.IsRedisNil(err):
				return hold{}, errHeld
			case err != nil:
				return hold{}, err
			}
			return hold{unlock: func() error {
				n, err := free.Exec(context.Background(), client, []string{name}, []string{mine}).AsInt64()
				if err == nil && n == 0 {
					err = errNotMine
				}
				return err
			}}, nil
		},
		close: client.Close,
	}, nil
}

func openRedsync(_ context.Context, url string, ttl time.Duration) (contender, error) {
	client, err := goRedis(url)
	if err != nil {
		return nil, err
	}
	rs := redsync.New(goredis.NewPool(client))
	of := func(m *redsync.Mutex) hold {
		ok := func(done bool, err error) error {
			if err == nil && !done {
				err = errNotMine
			}
			return err
		}
		return hold{
			unlock: func() error { return ok(m.Unlock()) },
			extend: func(ctx context.Context) error { return ok(m.ExtendContext(ctx)) },
		}
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			m := rs.NewMutex(name, redsync.WithExpiry(ttl))
			err := m.TryLockContext(ctx)
			var taken *redsync.ErrTaken
			if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
				return hold{}, errHeld
			}
			return of(m), err
		},
		lock: func(ctx context.Context, name string) (hold, error) {
			m := rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt32)) // and its own pauses
			return of(m), m.LockContext(ctx)
		},
		close: func() { _ = client.Close() },
	}, nil
}

func openRedislock(_ context.Context, url string, ttl time.Duration) (contender, error) {
	client, err := goRedis(url)
	if err != nil {
		return nil, err
	}
	locker := redislock.New(client)
	obtain := func(ctx context.Context, name string, options *redislock.Options) (hold, error) {
		l, err := locker.Obtain(ctx, name, ttl, options)
		if errors.Is(err, redislock.ErrNotObtained) {
			return hold{}, errHeld
		}
		return hold{
			unlock: func() error { return l.Release(context.Background()) },
			extend: func(ctx context.Context) error { return l.Refresh(ctx, ttl, nil) },
		}, err
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) { return obtain(ctx, name, nil) },
		lock: func(ctx context.Context, name string) (hold, error) {
			// Its README waits for 100 ms between tries.
			return obtain(ctx, name, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
		},
		close: func() { _ = client.Close() },
	}, nil
}

func openRueidislock(_ context.Context, url string, ttl time.Duration) (contender, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: option, KeyMajority: 1, NoLoopTracking: true, KeyValidity: ttl, ExtendInterval: ttl / 3,
	})
	if err != nil {
		return nil, err
	}
	of := func(ctx context.Context, cancel context.CancelFunc) hold {
		return hold{unlock: func() error { cancel(); <-ctx.Done(); return nil }}
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			held, cancel, err := locker.TryWithContext(context.WithoutCancel(ctx), name) // the lock ends with its context
			if errors.Is(err, rueidislock.ErrNotLocked) {
				return hold{}, errHeld
			}
			return of(held, cancel), err
		},
		lock: func(ctx context.Context, name string) (hold, error) {
			held, cancel, err := locker.WithContext(ctx, name)
			return of(held, cancel), err
		},
		close: locker.Close,
	}, nil
}

// openGocron is the locker with which schedulers of gocron exclude each other.
func openGocron(_ context.Context, url string, ttl time.Duration) (contender, error) {
	client, err := goRedis(url)
	if err != nil {
		return nil, err
	}
	locker, err := gocronlock.NewRedisLocker(client, gocronlock.WithTries(1), gocronlock.WithExpiry(ttl))
	if err != nil {
		return nil, err
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			l, err := locker.Lock(ctx, name)
			if errors.Is(err, gocronlock.ErrFailedToObtainLock) {
				return hold{}, errHeld
			}
			if err != nil {
				return hold{}, fmt.Errorf("gocron's locker: %w", err)
			}
			return hold{unlock: func() error { return l.Unlock(context.Background()) }}, nil
		},
		close: func() { _ = client.Close() },
	}, nil
}
