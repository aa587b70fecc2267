package cron

import (
	"iter"
	"time"
)

// Prev returns the last scheduled time strictly before the given one, in the expression's zone, or the zero time if
// there is none. It costs some forty calls of Next.
func (e *Expression) Prev(before time.Time) time.Time {
	// Next never runs backwards. So the moments from which it leads to a time before the given one are all those up to
	// some last moment, and from there it leads to the time that is wanted.
	leads := func(from int64) bool {
		next := e.Next(time.UnixMilli(from))
		return !next.IsZero() && next.Before(before)
	}
	low, high := int64(-2*day)*1000, int64(endOfCalendar+2*day)*1000 // the calendar begins and ends with the years of the zone
	if !leads(low) {
		return time.Time{}
	}
	for low+1 < high {
		if middle := low + (high-low)/2; leads(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return e.Next(time.UnixMilli(low))
}

// After iterates over the scheduled times strictly after the given one, oldest first. It ends with the last scheduled
// time, which may be in 2199.
func (e *Expression) After(t time.Time) iter.Seq[time.Time] { return iterate(e.Next, t) }

// Before iterates over the scheduled times strictly before the given one, newest first.
func (e *Expression) Before(t time.Time) iter.Seq[time.Time] { return iterate(e.Prev, t) }

// iterate walks from one scheduled time to another.
func iterate(step func(time.Time) time.Time, t time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for t := step(t); !t.IsZero() && yield(t); t = step(t) {
		}
	}
}
