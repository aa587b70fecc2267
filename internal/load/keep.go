package load

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist"
)

// usualTTL is the TTL to which the figures of case E are converted: the client's default.
const usualTTL = 30 * time.Second

// Keep is case E: locks are held and renewed. Leases are renewed at a third of their TTL, so what a period costs does not depend on
// the TTL, and a short one is measured in less time: where the machine or the store cannot keep up with it, a longer one.
func Keep(ctx context.Context, cfg Config) ([]Result, error) {
	for period := max(cfg.For/2, time.Second); ; period *= 4 {
		result, err := cfg.keep(ctx, period)
		if err == nil || inTime(err) || ctx.Err() != nil || period > usualTTL {
			return []Result{result}, err
		}
	}
}

func (cfg Config) keep(ctx context.Context, period time.Duration) (Result, error) {
	n := cfg.Size.Leases
	what := fmt.Sprintf("%d leases", n)
	var result Result
	err := cfg.on(ctx, soloist.Options{TTL: 3 * period}, func(r *replica) error {
		before, goroutines := heap(), runtime.NumGoroutine()
		leases, err := r.takeMany(ctx, names(fmt.Sprint("kept-", period), n), func(done float64) { cfg.Progress(done/2, what+": taking them") })
		if err != nil {
			return err
		}
		size := float64(int64(heap())-int64(before)) / float64(n)
		goroutines = runtime.NumGoroutine() - goroutines
		cfg.Mark()
		requests, names, start := r.counter.Requests.Load(), r.counter.Names.Load(), used()
		stop := tell(2*period, func(done float64) { cfg.Progress(0.5+done/2, what) })
		ended := napUntil(ctx, start.at.Add(2*period))
		stop()
		cfg.Mark()
		if ended != nil {
			return ended
		}
		for _, l := range leases {
			if err := l.Err(); err != nil {
				return fmt.Errorf("%q: %w", l.Name(), err)
			}
		}
		s := &Sample{Operations: 2}
		s.since(start)
		result = s.Result("E", what, "period", r.counter.Requests.Load()-requests)
		perSecond := 1 / (usualTTL / 3).Seconds()
		result.More = []More{
			{Name: "requests at a TTL of 30 s", Value: result.Requests * perSecond, Unit: "/s"},
			{Name: "CPU at a TTL of 30 s", Value: result.CPU / 1e6 * perSecond * 100, Unit: "% of a core"},
			{Name: "heap a lease", Value: size, Unit: "B"},
			{Name: "goroutines", Value: float64(goroutines)},
			{Name: "leases a request", Value: float64(r.counter.Names.Load()-names) / float64(max(1, r.counter.Requests.Load()-requests))},
		}
		return nil
	})
	return result, err
}

// takeMany acquires locks from some goroutines, so that they are acquired in batches.
func (r *replica) takeMany(ctx context.Context, called []string, progress func(float64)) ([]*soloist.Lease, error) {
	n := len(called)
	leases := make([]*soloist.Lease, n)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var takers sync.WaitGroup
	for taker := range 256 {
		takers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				l, err := r.TryLock(ctx, called[i])
				if err != nil {
					cancel(err)
					return
				}
				leases[i] = l
				if taker == 0 {
					progress(float64(i) / float64(n))
				}
			}
		})
	}
	takers.Wait()
	return leases, context.Cause(ctx)
}

func napUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
