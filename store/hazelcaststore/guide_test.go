package hazelcaststore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store/hazelcaststore"
	"github.com/soloist-dev/soloist/test/servers"
)

// TestGuideFromHazelcast: while a fleet leaves the locks of a map, new replicas take the old lock inside of Do, and so exclude old ones and each other.
func TestGuideFromHazelcast(t *testing.T) {
	const replicas, each, key = 3, 10, "close-month"
	m := shared(t)
	old := m.entries(t, fresh())
	client, err := soloist.New(open(t, config(m.Addr), hazelcaststore.Config{Map: fresh()}), soloist.Config{RequestTimeout: servers.Patience, TTL: 3 * servers.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	number := 0 // guarded by the old lock
	oldReplica := func() error {
		ctx := old.NewLockContext(background)
		locked, err := old.TryLockWithLease(ctx, key, time.Hour)
		if err != nil {
			return err
		}
		if !locked {
			return soloist.ErrHeld
		}
		number++
		return old.Unlock(ctx, key)
	}
	closeMonth := func(context.Context) error {
		number++
		return nil
	}
	newReplica := func() error {
		ctx := background
		err := client.Do(ctx, "close-month", func(ctx context.Context, lease *soloist.Lease) error {
			ctx = old.NewLockContext(ctx) // old is the map of the locks
			locked, err := old.TryLock(ctx, "close-month")
			if err != nil {
				return err
			}
			if !locked {
				return soloist.ErrHeld // an old replica does it
			}
			defer old.Unlock(context.WithoutCancel(ctx), "close-month")
			return closeMonth(ctx)
		})
		return err
	}

	ctx := old.NewLockContext(background)
	if locked, err := old.TryLock(ctx, key); err != nil || !locked {
		t.Fatal(locked, err)
	}
	if err := newReplica(); !errors.Is(err, soloist.ErrHeld) {
		t.Errorf("while an old replica has the lock: %v", err)
	}
	if err := old.Unlock(ctx, key); err != nil {
		t.Fatal(err)
	}

	var all sync.WaitGroup
	for range replicas {
		for _, replica := range []func() error{oldReplica, newReplica} {
			all.Go(func() {
				for done := 0; done < each; {
					switch err := replica(); {
					case err == nil:
						done++
					case !errors.Is(err, soloist.ErrHeld):
						t.Error(err)
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
	}
	all.Wait()
	if want := 2 * replicas * each; number != want {
		t.Errorf("counted to %d, want %d", number, want)
	}
}
