package load

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// A tally counts runs by the tick that they were scheduled for.
type tally struct {
	every time.Duration // between ticks
	ended chan struct{} // has a buffer of one, and receives a value with each run

	mu sync.Mutex
	at map[int64]int // by unix ms
}

func newTally(every time.Duration) *tally {
	return &tally{every: every, ended: make(chan struct{}, 1), at: map[int64]int{}}
}

func (c *tally) add(scheduled time.Time) {
	c.mu.Lock()
	c.at[scheduled.UnixMilli()]++
	c.mu.Unlock()
	select {
	case c.ended <- struct{}{}:
	default:
	}
}

// between returns the runs of all ticks between two instants, and the fewest runs of one tick.
func (c *tally) between(begin, end time.Time) (all, fewest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fewest = math.MaxInt
	for tick := begin.Truncate(c.every).Add(c.every); tick.Before(end); tick = tick.Add(c.every) {
		n := c.at[tick.UnixMilli()]
		all, fewest = all+n, min(fewest, n)
	}
	return all, fewest
}

// errBehind reports that the ticks come faster than the runs.
var errBehind = errors.New("the jobs of a tick were not run before the next ticks")

// await waits until each tick between two instants has that many runs, but not much longer.
func (c *tally) await(ctx context.Context, begin, end time.Time, runs int) error {
	ctx, cancel := context.WithDeadlineCause(ctx, end.Add(4*c.every), errBehind)
	defer cancel()
	for {
		if _, fewest := c.between(begin, end); fewest >= runs {
			return nil
		}
		select {
		case <-c.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
