//go:build unix

package servers

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/load"
	"github.com/soloist-dev/soloist/store"
)

// errEnough ends a crowd.
var errEnough = errors.New("enough changes")

// Crowd has one process for each store wait for one lock. Each holds it for a moment and waits again soon, until its
// owner has changed so often.
func Crowd(t Test, stores []store.Store, changes int) {
	t.Helper()
	var clients []*soloist.Client
	defer func() {
		for _, c := range clients {
			_ = c.Close() // its lock is released, or no test depends on that
		}
	}()
	for _, s := range stores {
		c, err := soloist.New(s, soloist.Config{})
		if err != nil {
			t.Fatalf("making a client: %v", err)
		}
		clients = append(clients, c)
	}
	last, seen := -1, 0 // guarded by the lock
	crowd := load.Waiting{Waiters: len(clients), For: Patience, Hold: time.Millisecond, Pause: 5 * time.Millisecond}
	_, err := crowd.Run(context.Background(), func(ctx context.Context, i int) (func() error, error) {
		lock, err := clients[i].Lock(ctx, "crowd")
		if err != nil {
			return nil, err
		}
		if last != i {
			last, seen = i, seen+1
		}
		if seen > changes {
			return nil, errors.Join(errEnough, lock.Release())
		}
		return lock.Release, nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("%d processes changed the owner of a lock %d times in %v, want %d times: %v",
			len(clients), seen-1, Patience, changes, err)
	}
}

// CrowdCosts has a crowd change the owner of its lock so often, and fails the test if a change costs more requests than limit, which sent counts. On a
// busy machine a change costs more, for more of those who wait have come back by then: the cheapest of three tries is judged.
func CrowdCosts(t Test, stores []store.Store, changes int, limit float64, sent func() float64) {
	t.Helper()
	cost := math.Inf(1)
	for range 3 {
		before := sent()
		Crowd(t, stores, changes)
		cost = min(cost, (sent()-before)/float64(changes))
		if cost <= limit {
			return
		}
	}
	t.Fatalf("a change of the owner costs %.1f requests, want %.0f at most", cost, limit)
}
