package verify

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A request that is repeated reaches the store once more, also when the client has its reply and has ended the first.
func TestRepetitionOutlastsItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(newRecorder(io.Discard), orders{TTL: time.Second, Seed: 1})
		n.odds = map[Fault]float64{Repeat: 1}
		var carriedOut atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		_, err := through(ctx, n, []int{1}, func(ctx context.Context, asked []int) ([]int, error) {
			if ctx.Err() == nil {
				carriedOut.Add(1)
			}
			return asked, ctx.Err()
		})
		if err != nil || carriedOut.Load() != 1 {
			t.Errorf("carried out %d times at first, %v", carriedOut.Load(), err)
		}
		cancel()
		if n.late.Wait(); carriedOut.Load() != 2 {
			t.Errorf("carried out %d times, want once more after the request has ended", carriedOut.Load())
		}
	})
}
