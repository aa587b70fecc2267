package soloist

import (
	"sync"
	"time"
)

// suspended is kernelSuspended, or what a test puts in its place.
var suspended = kernelSuspended

// A clock tells the time on a line that is package time's monotonic clock plus all suspends, on which deadlines are reckoned. An
// instant that begins a lease is taken as early as it can have been, one that is compared with a deadline as late.
type clock struct {
	suspended func() (atLeast, atMost time.Duration) // that of a simulated host; nil for this machine's

	mu   sync.Mutex
	read time.Time     // when the suspends were read last, by package time
	sum  time.Duration // their sum then, at least
}

// reread is how old the sum may be that begins a lease. A suspend that it does not know of yet makes the lease seem to end
// earlier than it does.
const reread = time.Second

func (c *clock) suspends() (atLeast, atMost time.Duration) {
	if c.suspended != nil {
		return c.suspended()
	}
	return suspended()
}

// earliest is the time now, or a little before. It is cheap.
func (c *clock) earliest() time.Time {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := now.Sub(c.read); age < 0 || age > reread {
		c.sum, _ = c.suspends()
		c.read = now
	}
	return now.Add(c.sum)
}

// latest is the time now, or a little after.
func (c *clock) latest() time.Time {
	atLeast, atMost := c.suspends()
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum, c.read = atLeast, now
	return now.Add(atMost)
}

// known is the sum of the suspends, as it was read last.
func (c *clock) known() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sum
}
