package soloist

import (
	"sync"
	"time"
)

// suspended is kernelSuspended, or what a test puts in its place. It reports false when the machine's clocks cannot be read.
var suspended = kernelSuspended

// A clock tells the time on a line that is package time's monotonic clock plus all suspends, on which deadlines are reckoned. An
// instant that begins a lease is taken as early as it can have been, one that is compared with a deadline as late. Where the kernel does
// not tell the suspends the wall clock does.
type clock struct {
	host func() (atLeast, atMost time.Duration) // the suspends of a simulated host; nil for this machine's

	mu   sync.Mutex
	read time.Time     // when the suspends were read last, by package time
	sum  time.Duration // their sum then, at least
	wall time.Time     // since when steps of the wall clock are not in sum
}

// reread is how old the sum may be that begins a lease. A suspend that it does not know of yet makes the lease seem to end
// earlier than it does.
const reread = time.Second

// suspends bounds the sum of the suspends at the time now, just before or after which the kernel is asked. c.mu is held.
func (c *clock) suspends(now time.Time, atLeast, atMost time.Duration, ok bool) (time.Duration, time.Duration) {
	if !ok {
		atLeast = c.guess(now)
		return atLeast, atLeast
	}
	c.wall = now
	if c.host == nil && !c.read.IsZero() && (atLeast-c.sum).Abs() < sameSum && (atMost-c.sum).Abs() < sameSum {
		return c.sum, c.sum
	}
	return atLeast, atMost
}

// sameSum is by how much two readings of one sum may differ, since the clocks are not read at one instant. It is a tenth of the shortest
// margin. Without it the time that reading takes would show in what Lease.Left returns, also in a synctest bubble.
const sameSum = 100 * time.Microsecond

func (c *clock) kernel() (atLeast, atMost time.Duration, ok bool) {
	if c.host != nil {
		atLeast, atMost = c.host()
		return atLeast, atMost, true
	}
	return suspended()
}

// guess is the sum of the suspends by the wall clock. c.mu is held.
func (c *clock) guess(now time.Time) time.Duration {
	if c.wall.IsZero() {
		c.wall = now
	}
	var counted bool
	if c.sum, counted = stepped(c.sum, now.Round(0).Sub(c.wall.Round(0))-now.Sub(c.wall)); counted {
		c.wall = now
	}
	return c.sum
}

// unsteady is by how much the wall clock and the monotonic one may differ between two readings without having been set.
const unsteady = time.Millisecond

// stepped adds to the sum of the suspends what the wall clock has gained on the monotonic one, and says whether that was a step. A step
// forward counts as a suspend: a lease is given up too early, which is the safe side. A step back does not undo one: leases that began before
// would seem to last longer.
func stepped(sum, gained time.Duration) (time.Duration, bool) {
	if gained > unsteady {
		return sum + gained, true
	}
	return sum, gained < -unsteady
}

// earliest is the time now, or a little before. It is cheap.
func (c *clock) earliest() time.Time {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := now.Sub(c.read); age < 0 || age > reread {
		atLeast, atMost, ok := c.kernel()
		c.sum, _ = c.suspends(now, atLeast, atMost, ok)
		c.read = now
	}
	return now.Add(c.sum)
}

// latest is the time now, or a little after.
func (c *clock) latest() time.Time {
	atLeast, atMost, ok := c.kernel()
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum, atMost = c.suspends(now, atLeast, atMost, ok)
	c.read = now
	return now.Add(atMost)
}

// known is the sum of the suspends, as it was read last.
func (c *clock) known() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sum
}
