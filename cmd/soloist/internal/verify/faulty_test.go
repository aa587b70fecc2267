package verify

import (
	"context"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A request that is repeated reaches the store once more, also when the client has its reply and has ended the first. A reply of a request that the
// client has given up need not come, but the request may be carried out.
func TestRepetitionOutlastsItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{rec: newRecorder(io.Discard), odds: map[Fault]float64{Repeat: 1}, slow: time.Second, rng: rand.New(rand.NewPCG(1, 1))}
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
