package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist"
)

// A Loop repeats an operation from some goroutines for some time.
type Loop struct {
	Workers  int
	For      time.Duration
	Warm     time.Duration // before that, without being counted
	Begin    func() error  // called after warming up, when no operation is running; may be nil
	Progress func(done float64)
}

// ErrEnough as the error of an operation ends its worker, which has nothing left to do.
var ErrEnough = errors.New("enough")

// Run calls op(ctx, worker) until the time is over, and returns what it cost. It waits for operations that are running
// then and counts them; each worker makes at least one. Operations that timed out are counted separately, unless there
// are no others. Any other error of op ends Run.
func (l Loop) Run(ctx context.Context, op func(ctx context.Context, worker int) error) (*Sample, error) {
	if l.Warm > 0 {
		if _, _, err := l.run(ctx, l.Warm, op, nil); err != nil {
			return nil, err
		}
	}
	if l.Begin != nil {
		if err := l.Begin(); err != nil {
			return nil, err
		}
	}
	s := &Sample{}
	before := used()
	times, late, err := l.run(ctx, l.For, op, l.Progress)
	s.since(before)
	if err != nil {
		return nil, err
	}
	s.Times, s.Operations, s.Late = *times, times.n, late
	return s, nil
}

// inTime reports whether an error does not mean that a store, a disk or a machine is too slow for the client's time
// limits.
func inTime(err error) bool {
	return !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, soloist.ErrUnknown) && !errors.Is(err, soloist.ErrLost)
}

func (l Loop) run(ctx context.Context, d time.Duration, op func(context.Context, int) error, progress func(float64)) (*Times, int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var over atomic.Bool
	defer time.AfterFunc(d, func() { over.Store(true) }).Stop()
	defer tell(d, progress)()
	times := make([]Times, l.Workers)
	lates := make([]error, l.Workers) // the last of each
	var late atomic.Int64
	var workers sync.WaitGroup
	for w := range l.Workers {
		workers.Go(func() {
			last := time.Now()
			for first := true; (first || !over.Load()) && ctx.Err() == nil; first = false {
				err := op(ctx, w)
				now := time.Now()
				switch {
				case err == nil:
					times[w].Add(now.Sub(last))
				case errors.Is(err, ErrEnough):
					return
				case inTime(err) || ctx.Err() != nil:
					cancel(err)
					return
				default:
					late.Add(1)
					lates[w] = err
				}
				last = now
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, 0, err
	}
	all := &Times{}
	for i := range times {
		all.Merge(&times[i])
	}
	if err := errors.Join(lates...); err != nil && all.n == 0 {
		return nil, 0, err
	}
	return all, late.Load(), nil
}

// tell reports how much of d has passed, until the function that it returns is called.
func tell(d time.Duration, progress func(float64)) (stop func()) {
	if progress == nil {
		return func() {}
	}
	end := make(chan struct{})
	var telling sync.WaitGroup
	start := time.Now()
	telling.Go(func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				progress(min(1, time.Since(start).Seconds()/max(d.Seconds(), 1e-9)))
			case <-end:
				return
			}
		}
	})
	return func() {
		close(end)
		telling.Wait()
	}
}
