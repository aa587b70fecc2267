package soloist

import (
	"fmt"
	"math"
	"time"

	"github.com/soloist-dev/soloist/cron"
)

// A Schedule defines when a job is due. Package cron parses schedules; Every, Delay and At return others, and an
// application can implement its own. Next is a pure function: it returns the first scheduled time strictly after the
// given one, or the zero time if there is none. Replicas must agree on it, so it must not depend on the local time zone
// or on when the process started. It must be safe for concurrent use. A scheduled time is a whole number of milliseconds:
// one that is not is rounded up. If a schedule is a fmt.Stringer, lists show its text.
type Schedule interface {
	Next(after time.Time) time.Time
}

// Every returns a schedule that is due at all multiples of d since 1970-01-01 UTC, so that replicas agree. d must be a
// whole number of milliseconds, at least 1 ms.
func Every(d time.Duration) Schedule { return every(d) }

type every time.Duration

func (e every) Next(after time.Time) time.Time {
	ms := int64(time.Duration(e) / time.Millisecond)
	at := after.UnixMilli()
	if at > math.MaxInt64-ms { // there is none
		return time.Time{}
	}
	return time.UnixMilli(at - mod(at, ms) + ms).In(after.Location())
}

func mod(a, b int64) int64 { return ((a % b) + b) % b }

func (e every) String() string { return "@every " + time.Duration(e).String() }

func (e every) check() error {
	if d := time.Duration(e); d < time.Millisecond || d%time.Millisecond != 0 {
		return invalid("schedule", e.String(), "the interval must be a whole number of milliseconds, at least 1ms")
	}
	return nil
}

// Delay returns a schedule that is due d after the end of the last run, and immediately if there was none. d must be at
// least 1 ms. A scheduled time is later than all before it, by 1 ms at least: the clock of the replica that had the job may have been ahead.
func Delay(d time.Duration) Schedule { return delay(d) }

type delay time.Duration

// Next returns when the job is due again if its last run ended at after.
func (d delay) Next(after time.Time) time.Time { return after.Add(time.Duration(d)) }

func (d delay) String() string { return "@delay " + time.Duration(d).String() }

func (d delay) check() error {
	if time.Duration(d) < time.Millisecond {
		return invalid("schedule", d.String(), "the delay must be at least 1ms")
	}
	return nil
}

// At returns a schedule that is due once, at t. t must be after 1970.
func At(t time.Time) Schedule { return at(t) }

type at time.Time

func (a at) Next(after time.Time) time.Time {
	if t := time.Time(a).Truncate(time.Millisecond); after.Before(t) {
		return t
	}
	return time.Time{}
}

func (a at) String() string { return "@at " + time.Time(a).Format(time.RFC3339Nano) }

func (a at) check() error {
	if t := time.Time(a); t.UnixMilli() <= 0 {
		return invalid("schedule", a.String(), "the time must be after 1970")
	}
	return nil
}

// custom is a schedule of the application's own. Its times are rounded up to whole milliseconds, in which marks count.
type custom struct{ Schedule }

func (c custom) Next(after time.Time) time.Time {
	next := c.Schedule.Next(after.Truncate(time.Millisecond)) // what is not after that has been rounded to it, or to less
	if next.IsZero() {
		return next
	}
	return next.Add(time.Millisecond - 1).Truncate(time.Millisecond)
}

// describe returns the text of a schedule. That of an expression has its zone.
func describe(s Schedule) string {
	if c, ok := s.(custom); ok {
		s = c.Schedule
	}
	if e, ok := s.(*cron.Expression); ok {
		if text, err := e.MarshalText(); err == nil {
			return string(text)
		}
		return fmt.Sprintf("%v (%v)", e, e.Location()) // which parseSchedule takes for the application's own: nobody else knows that zone
	}
	if text, ok := s.(fmt.Stringer); ok {
		return text.String()
	}
	return fmt.Sprintf("%T", s)
}

// latest returns the last time of s in (after, until], or the zero time. It calls Next a few dozen times, however many
// times of s lie between.
func latest(s Schedule, after, until time.Time) time.Time {
	first := s.Next(after)
	if first.IsZero() || first.After(until) {
		return time.Time{}
	}
	// Widen a window that ends at until, until it has a time of s in it; then halve it from below.
	low := until
	for step := time.Millisecond; ; step *= 2 {
		if low = until.Add(-step); !low.After(after) || step > 1<<60 {
			low = after
			break
		}
		if next := s.Next(low); !next.IsZero() && !next.After(until) {
			break
		}
	}
	found := s.Next(low)
	for high := until; high.Sub(low) > time.Millisecond; {
		middle := low.Add(high.Sub(low) / 2)
		if next := s.Next(middle); !next.IsZero() && !next.After(until) {
			low, found = next.Add(-1), next
		} else {
			high = middle
		}
	}
	return found
}
