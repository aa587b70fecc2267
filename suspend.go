package soloist

import "time"

// suspended is kernelSuspended, or what a test puts in its place.
var suspended = kernelSuspended

// Deadlines are reckoned on a line of time that is package time's monotonic clock plus all suspends. An instant that
// begins a lease is taken as early as it can have been, one that is compared with a deadline as late.

func earliestNow() time.Time {
	atLeast, _ := suspended()
	return time.Now().Add(atLeast)
}

func latestNow() time.Time {
	_, atMost := suspended()
	return time.Now().Add(atMost)
}
