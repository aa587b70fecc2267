package soloist

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A schedule that can never be right is refused, and one that is at the edge is not.
func TestSchedulesThatAreNotValid(t *testing.T) {
	type checked interface {
		Schedule
		check() error
	}
	for _, row := range []struct {
		schedule Schedule
		valid    bool
	}{
		{Every(0), false}, {Every(-time.Second), false}, {Every(time.Millisecond - 1), false}, {Every(time.Millisecond), true}, {Every(time.Millisecond + 1), false}, {Every(time.Hour), true},
		{Delay(0), false}, {Delay(-time.Second), false}, {Delay(time.Millisecond - 1), false}, {Delay(time.Millisecond), true},
		{At(time.Time{}), false}, {At(time.UnixMilli(0)), false}, {At(time.UnixMilli(1)), true},
	} {
		_, _, err := (Job{Name: "x", Schedule: row.schedule, Do: doNothing}).filled(Options{})
		if errors.Is(err, store.ErrInvalid) == row.valid || (err == nil) != row.valid {
			t.Errorf("%s: %v; want valid %t", row.schedule.(checked), err, row.valid)
		}
	}
}

// sparse is due at some times only, and must not be asked about times before some instant.
type sparse []time.Time

func (s sparse) Next(after time.Time) time.Time {
	for _, t := range s {
		if t.After(after) {
			return t
		}
	}
	return time.Time{}
}

// The last of the times of a schedule in a window is found however far they lie apart, and none outside of it is.
func TestLatestTimeOfASchedule(t *testing.T) {
	at := func(d time.Duration) time.Time { return time.UnixMilli(0).Add(d) }
	const year = 365 * 24 * time.Hour
	all := sparse{at(0), at(time.Millisecond), at(time.Second), at(time.Hour), at(year), at(200 * year), at(200*year + time.Millisecond)}
	for _, row := range []struct {
		after, until time.Duration
		want         int // its index in all; -1 for none
	}{
		{-time.Hour, -1, -1}, {-time.Hour, 0, 0}, {0, time.Millisecond, 1}, {0, time.Millisecond - 1, -1}, {-1, time.Millisecond - 1, 0},
		{0, time.Hour - 1, 2}, {time.Second, time.Hour, 3}, {time.Hour, 100 * year, 4}, {-50 * year, 100 * year, 4}, {time.Hour, 200 * year, 5}, {-50 * year, 230 * year, 6}, {200*year + time.Millisecond, 230 * year, -1},
	} {
		var want time.Time
		if row.want >= 0 {
			want = all[row.want]
		}
		if got := latest(all, at(row.after), at(row.until)); !got.Equal(want) {
			t.Errorf("in (%v, %v]: %v, want %v", row.after, row.until, got, want)
		}
	}
	old, now := time.Date(-2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2030, 1, 1, 0, 0, 0, 500, time.UTC)
	if got := latest(Every(time.Second), old, now); !got.Equal(now.Truncate(time.Second)) {
		t.Errorf("in four thousand years: %v", got)
	}
	once := time.UnixMilli(5000)
	if got := At(once.Add(999 * time.Microsecond)); !got.Next(once.Add(-1)).Equal(once) || !got.Next(once).IsZero() {
		t.Errorf("once, within a millisecond: %v, and after that %v", got.Next(once.Add(-1)), got.Next(once))
	}
	end := time.UnixMilli(math.MaxInt64)
	if got := Every(time.Hour).Next(end); !got.IsZero() {
		t.Errorf("after the end of time: %v", got)
	}
}

// halfPast is due half a millisecond after each second.
type halfPast struct{}

func (halfPast) Next(after time.Time) time.Time {
	const half = 500 * time.Microsecond
	return Every(time.Second).Next(after.Add(-half)).Add(half)
}

// A time of the application's own schedule that is rounded up to a whole millisecond is the next one up to then, also when its own instant has passed.
func TestNextOfATimeThatWasRounded(t *testing.T) {
	rounded := time.UnixMilli(1001)
	for after, want := range map[time.Duration]time.Time{
		-time.Second:              rounded,
		-time.Millisecond:         rounded,
		-500*time.Microsecond - 1: rounded,
		-500 * time.Microsecond:   rounded,
		-1:                        rounded,
		0:                         rounded.Add(time.Second),
		time.Millisecond:          rounded.Add(time.Second),
	} {
		if next := (custom{halfPast{}}).Next(rounded.Add(after)); !next.Equal(want) {
			t.Errorf("%v from it: %v, want %v", after, next, want)
		}
	}
}
