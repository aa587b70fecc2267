package histories

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A troubled store loses answers, gives up requests that are under way, and repeats requests later. What the store
// truly answered is recorded below it.
type troubled struct {
	*recorded
	share float64 // of the requests that have trouble, 0 to 1
	work  *sync.WaitGroup
}

var errAnswerLost = errors.New("the answer was lost")

// through makes a request with what trouble chance has for it.
func through[Q, A any](ctx context.Context, s *troubled, asked []Q, do func(context.Context, []Q) ([]A, error)) ([]A, error) {
	if rand.Float64() >= s.share {
		return do(ctx, asked)
	}
	switch rand.IntN(3) {
	case 0:
		s.rec.fault("answer lost")
		_, _ = do(ctx, asked)
		return nil, store.AsUnknown(errAnswerLost)
	case 1:
		s.rec.fault("given up")
		bound, cancel := context.WithTimeout(ctx, time.Duration(rand.Int64N(int64(3*time.Millisecond))))
		defer cancel()
		return do(bound, asked)
	}
	s.rec.fault("repeated")
	again := append([]Q(nil), asked...)
	s.work.Go(func() {
		time.Sleep(time.Duration(rand.Int64N(int64(50 * time.Millisecond)))) // a request that is late, not a condition to wait for
		_, _ = do(context.WithoutCancel(ctx), again)
	})
	return do(ctx, asked)
}

// Acquire is as in store.Store, with trouble.
func (s *troubled) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	return through(ctx, s, claims, s.recorded.Acquire)
}

// Extend is as in store.Store, with trouble.
func (s *troubled) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	return through(ctx, s, extensions, s.recorded.Extend)
}

// Release is as in store.Store, with trouble.
func (s *troubled) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	return through(ctx, s, releases, s.recorded.Release)
}
