//go:build unix

package servers

import (
	"context"
	"errors"
	"time"

	"github.com/soloist-dev/soloist/internal/load"
)

// errEnough ends a crowd.
var errEnough = errors.New("enough changes")

// Crowd has n processes wait for one lock, each of which holds it for a moment and waits again soon, until its owner has changed so often. lock is how process i waits.
func Crowd(t Test, n, changes int, lock func(ctx context.Context, i int) (unlock func() error, err error)) {
	t.Helper()
	last, seen := -1, 0 // guarded by the lock
	crowd := load.Waiting{Waiters: n, For: Patience, Hold: time.Millisecond, Pause: 5 * time.Millisecond}
	_, err := crowd.Run(context.Background(), func(ctx context.Context, i int) (func() error, error) {
		unlock, err := lock(ctx, i)
		if err != nil {
			return nil, err
		}
		if last != i {
			last, seen = i, seen+1
		}
		if seen > changes {
			return nil, errors.Join(errEnough, unlock())
		}
		return unlock, nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("%d processes changed the owner of a lock %d times in %v, want %d times: %v", n, seen-1, Patience, changes, err)
	}
}
