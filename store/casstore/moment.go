package casstore

import "time"

// A Moment is an instant by two clocks: the monotonic one, which a system that is suspended stops, and the wall clock, which somebody may set.
type Moment struct{ counted, wall time.Time }

// Now returns the current instant.
func Now() Moment {
	now := time.Now()
	return Moment{counted: now, wall: now.Round(0)}
}

// Since returns how long ago m is, by the clock that says more. So the time that a lease had since then is not underestimated after the system was suspended.
func (m Moment) Since() time.Duration {
	return max(time.Since(m.counted), time.Now().Round(0).Sub(m.wall))
}
