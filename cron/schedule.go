package cron

import "time"

// A Schedule tells when something is due. Implementations are pure: the same argument always gives the same answer,
// on every replica, and Next(a) is the same for every a from one scheduled time up to, but not including, the next.
type Schedule interface {
	// Next returns the first scheduled time strictly after the given one, or the zero time if there is none.
	Next(after time.Time) time.Time
}

var _ Schedule = (*Expression)(nil)
