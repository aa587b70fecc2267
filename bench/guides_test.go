package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/redisstore"
	"github.com/soloist-dev/soloist/test/servers"
)

// The code of docs/guides/from-redis-locks.md, before and after, with the work as a parameter.

func withRedsync(ctx context.Context, rdb *redis.Client, closeMonth func(context.Context) error) error {
	mutex := redsync.New(goredis.NewPool(rdb)).NewMutex("close-month", redsync.WithExpiry(10*time.Minute), redsync.WithTries(1))
	if err := mutex.LockContext(ctx); err != nil {
		return err // held, or Redis did not respond
	}
	defer mutex.UnlockContext(context.WithoutCancel(ctx))
	return closeMonth(ctx) // for 10 minutes at most: nobody extends the lock, or says that it has ended
}

func withRedislock(ctx context.Context, rdb *redis.Client, closeMonth func(context.Context) error) error {
	lock, err := redislock.New(rdb).Obtain(ctx, "close-month", 10*time.Minute, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil // another one does it
	} else if err != nil {
		return err
	}
	defer lock.Release(context.WithoutCancel(ctx))
	return closeMonth(ctx)
}

func withSoloist(ctx context.Context, client *soloist.Client, closeMonth func(context.Context) error) error {
	err := client.Do(ctx, "close-month", func(ctx context.Context, lease *soloist.Lease) error {
		return closeMonth(ctx) // ctx ends if the lease is lost; lease.Token() goes with the writes
	})
	if errors.Is(err, soloist.ErrHeld) {
		return nil // another one does it
	}
	return err
}

// The code of docs/guides/from-shedlock.md.

func besideShedLock(ctx context.Context, client *soloist.Client, report func(context.Context, time.Time) error) (err error) {
	err = client.Run(ctx, soloist.Job{
		Name: "report", Schedule: cron.MustParse("0 */5 * * * *"), AtLeast: 5 * time.Second,
		Do: func(ctx context.Context, run soloist.Run) error { return report(ctx, run.ScheduledAt) },
	})
	return err
}

// TestGuideFromShedLock runs the job of the guide, until its context ends.
func TestGuideFromShedLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := soloist.New(memstore.New(), soloist.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 11*time.Minute)
		defer cancel()
		runs := 0
		err = besideShedLock(ctx, client, func(context.Context, time.Time) error { runs++; return nil })
		if err != nil || runs != 2 {
			t.Errorf("%d runs in 11 minutes: %v", runs, err)
		}
	})
}

// TestGuideFromRedisLocks runs the code of the guide against a server.
func TestGuideFromRedisLocks(t *testing.T) {
	options, err := redis.ParseURL(servers.Redis(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	options.ContextTimeoutEnabled = true
	options.MaxRetries = -1
	rdb := redis.NewClient(options)
	defer rdb.Close()
	s, err := redisstore.New(rdb, redisstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := soloist.New(s, soloist.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ran := 0
	closeMonth := func(context.Context) error { ran++; return nil }
	err = errors.Join(withRedsync(t.Context(), rdb, closeMonth), withRedislock(t.Context(), rdb, closeMonth), withSoloist(t.Context(), client, closeMonth))
	if err != nil || ran != 3 {
		t.Errorf("%d of 3 ran: %v", ran, err)
	}
}
