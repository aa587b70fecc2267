package soloist

import (
	"sync"
	"time"
)

// suspended is kernelSuspended; tests replace it. It reports false if the machine's clocks cannot be read.
var suspended = kernelSuspended

// A clock returns the time of package time's monotonic clock plus the duration of all suspends. Deadlines are computed
// with it. For the beginning of a lease, use the earliest possible instant; to compare with a deadline, use the latest
// possible one. Where the kernel does not report suspends, the wall clock is used to detect them.
type clock struct {
	host func() (atLeast, atMost time.Duration) // the suspends of a simulated host; nil means this machine

	mu   sync.Mutex
	read time.Time     // when the suspends were read last, by package time
	sum  time.Duration // a lower bound of their sum then
	wall time.Time     // up to when steps of the wall clock are included in sum
}

// reread is the maximum age of the sum that the beginning of a lease is computed with. A suspend that is not included
// yet makes the lease appear to end earlier than it does, which is safe.
const reread = time.Second

// suspends returns bounds of the sum of the suspends at the time now. atLeast and atMost were read from the kernel just
// before or after now. c.mu is held.
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

// sameSum is the largest difference between two readings that count as the same sum, because the clocks are not read at
// one instant. It is a tenth of the shortest margin. Without it, Lease.Left would include the time that reading takes,
// even in a synctest bubble.
const sameSum = 100 * time.Microsecond

// kernel returns bounds of the sum of the suspends. known is the sum as it was read last.
func (c *clock) kernel(known time.Duration) (atLeast, atMost time.Duration, ok bool) {
	if c.host != nil {
		atLeast, atMost = c.host()
		return atLeast, atMost, true
	}
	return suspended(known)
}

// guess returns the sum of the suspends according to the wall clock. c.mu is held.
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

// unsteady is how much the wall clock can gain on the monotonic one between two readings without having been set.
const unsteady = time.Millisecond

// stepped adds to the sum of the suspends what the wall clock gained on the monotonic one, and reports whether that was
// a step. A step forward counts as a suspend: a lease then counts as lost too early, which is safe. A step back does
// not undo one, because leases that began before would appear to last longer.
func stepped(sum, gained time.Duration) (time.Duration, bool) {
	if gained > unsteady {
		return sum + gained, true
	}
	return sum, gained < -unsteady
}

// earliest returns the time now, or a little before. It is cheap.
func (c *clock) earliest() time.Time {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := now.Sub(c.read); age < 0 || age > reread {
		atLeast, atMost, ok := c.kernel(c.sum)
		c.sum, _ = c.suspends(now, atLeast, atMost, ok)
		c.read = now
	}
	return now.Add(c.sum)
}

// latest returns the time now, or a little after.
func (c *clock) latest() time.Time {
	atLeast, atMost, ok := c.kernel(c.known())
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum, atMost = c.suspends(now, atLeast, atMost, ok)
	c.read = now
	return now.Add(atMost)
}

// until returns the instant of a deadline by package time, or an earlier one: now if the deadline has passed. Package time is read first, so that a
// process that stands still in between makes it earlier.
func (c *clock) until(deadline time.Time) time.Time {
	now := time.Now()
	return now.Add(max(0, deadline.Sub(c.latest())))
}

// known returns the sum of the suspends as it was read last.
func (c *clock) known() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sum
}
