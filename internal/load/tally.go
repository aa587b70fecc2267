package load

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// A tally counts the attempts of each job by the tick that they were scheduled for.
type tally struct {
	every time.Duration // between ticks
	ended chan struct{} // has a buffer of one, and receives a value with each run

	mu sync.Mutex
	at map[int64]map[string]int // by unix ms and job
}

func newTally(every time.Duration) *tally {
	return &tally{every: every, ended: make(chan struct{}, 1), at: map[int64]map[string]int{}}
}

func (c *tally) add(job string, scheduled time.Time) {
	c.mu.Lock()
	tick := scheduled.UnixMilli()
	if c.at[tick] == nil {
		c.at[tick] = map[string]int{}
	}
	c.at[tick][job]++
	c.mu.Unlock()
	select {
	case c.ended <- struct{}{}:
	default:
	}
}

// between returns the runs of all ticks between two instants, the attempts beyond the first of each run, and the fewest
// runs of one tick. A job runs once for each tick, but is attempted again if its lease is lost.
func (c *tally) between(begin, end time.Time) (all, again, fewest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fewest = math.MaxInt
	for tick := begin.Truncate(c.every).Add(c.every); tick.Before(end); tick = tick.Add(c.every) {
		jobs := c.at[tick.UnixMilli()]
		all, fewest = all+len(jobs), min(fewest, len(jobs))
		for _, attempts := range jobs {
			again += attempts - 1
		}
	}
	return all, again, fewest
}

// errBehind reports that the ticks come faster than the runs.
var errBehind = errors.New("the jobs of a tick were not run before the next ticks")

// await waits until each tick between two instants has that many runs, but not much longer.
func (c *tally) await(ctx context.Context, begin, end time.Time, runs int) error {
	ctx, cancel := context.WithDeadlineCause(ctx, end.Add(4*c.every), errBehind)
	defer cancel()
	for {
		if _, _, fewest := c.between(begin, end); fewest >= runs {
			return nil
		}
		select {
		case <-c.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
