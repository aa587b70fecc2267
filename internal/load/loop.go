package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A Loop repeats an operation from some goroutines for some time.
type Loop struct {
	Workers  int
	For      time.Duration
	Warm     time.Duration // before, without being counted
	Begin    func() error  // is called after warming up, when nothing is under way; may be nil
	Progress func(done float64)
}

// errEnough ends a worker that has nothing left to do.
var errEnough = errors.New("enough")

// Run calls op(ctx, worker) until the time is over, and answers what it cost. An error of op ends it all. Operations under way when the
// time is over are waited for and counted.
func (l Loop) Run(ctx context.Context, op func(ctx context.Context, worker int) error) (*Sample, error) {
	if l.Warm > 0 {
		if _, err := l.run(ctx, l.Warm, op, nil); err != nil {
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
	times, err := l.run(ctx, l.For, op, l.Progress)
	s.since(before)
	if err != nil {
		return nil, err
	}
	s.Times, s.Operations = *times, times.n
	return s, nil
}

func (l Loop) run(ctx context.Context, d time.Duration, op func(context.Context, int) error, progress func(float64)) (*Times, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var over atomic.Bool
	defer time.AfterFunc(d, func() { over.Store(true) }).Stop()
	defer tell(d, progress)()
	times := make([]Times, l.Workers)
	var workers sync.WaitGroup
	for w := range l.Workers {
		workers.Go(func() {
			last := time.Now()
			for !over.Load() && ctx.Err() == nil {
				err := op(ctx, w)
				if errors.Is(err, errEnough) {
					return
				}
				if err != nil {
					cancel(err)
					return
				}
				now := time.Now()
				times[w].Add(now.Sub(last))
				last = now
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	all := &Times{}
	for i := range times {
		all.Merge(&times[i])
	}
	return all, nil
}

// tell reports how much of d has passed, until the function that it answers is called.
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
