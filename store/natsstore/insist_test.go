package natsstore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestInsist: a question that nobody replies to is asked again, and the first reply ends all. With its context all of them end.
func TestInsist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, ended atomic.Int64
		ask := func(ctx context.Context) (int, error) {
			defer ended.Add(1)
			if asked.Add(1) == 3 {
				return 3, nil
			}
			<-ctx.Done()
			return 0, ctx.Err()
		}
		began := time.Now()
		if reply, err := insist(t.Context(), ask); reply != 3 || err != nil || asked.Load() != 3 || ended.Load() != 3 || time.Since(began) != 2*askAgain {
			t.Errorf("replied %d, %v after %d questions, of which %d have ended, in %v", reply, err, asked.Load(), ended.Load(), time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*askAgain/2)
		defer cancel()
		if _, err := insist(ctx, ask); !errors.Is(err, context.DeadlineExceeded) || asked.Load() != 6 || ended.Load() != 6 {
			t.Errorf("%v after %d questions, of which %d have ended", err, asked.Load()-3, ended.Load()-3)
		}
	})
}
