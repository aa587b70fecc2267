package cron_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cron"
)

// A reference is an expression made up at random, together with what it means: told in the plainest way, one time at
// a time, and without the parser.
type reference struct {
	text     string
	day      func(time.Time) bool // judges the date that the clock shows, whatever the zone
	clock    func(time.Time) bool // judges the time of day
	elapsing bool
}

func (ref reference) matches(t time.Time) bool { return ref.clock(t) && ref.day(t) }

// A numbers is one field of numbers: its text, and the values it allows.
type numbers struct {
	text string
	set  map[int]bool
	open bool // it begins with *, */n or a/n
}

// randomNumbers makes up a field of numbers from low to high.
func randomNumbers(r *rand.Rand, low, high int) numbers {
	made := numbers{set: map[int]bool{}}
	var pieces []string
	for i := range 1 + r.IntN(3)/2*r.IntN(3) {
		from, to, step := low+r.IntN(high-low+1), low+r.IntN(high-low+1), 1+r.IntN(high)
		kind := r.IntN(6)
		switch kind {
		case 0:
			from, to, step = low, high, 1
			pieces = append(pieces, "*")
		case 1:
			from, to = low, high
			pieces = append(pieces, fmt.Sprintf("*/%d", step))
		case 2:
			to = high
			pieces = append(pieces, fmt.Sprintf("%d/%d", from, step))
		case 3:
			step = 1
			pieces = append(pieces, fmt.Sprintf("%d-%d", from, to))
		case 4:
			pieces = append(pieces, fmt.Sprintf("%d-%d/%d", from, to, step))
		default:
			to = from
			pieces = append(pieces, fmt.Sprint(from))
		}
		if i == 0 {
			made.open = kind <= 2
		}
		value, remaining := from, 0
		for {
			if remaining == 0 {
				made.set[value] = true
				remaining = step
			}
			remaining--
			if value == to {
				break
			}
			if value++; value > high {
				value = low
			}
		}
	}
	made.text = strings.Join(pieces, ",")
	return made
}

// A days is one of the two day fields.
type days struct {
	text    string
	matches func(time.Time) bool
}

func randomDayOfMonth(r *rand.Rand) days {
	n := 1 + r.IntN(31)
	switch r.IntN(9) {
	case 0, 1:
		return days{"*", func(time.Time) bool { return true }}
	case 2:
		return days{"?", func(time.Time) bool { return true }}
	case 3:
		return days{"L", func(t time.Time) bool { return t.AddDate(0, 0, 1).Month() != t.Month() }}
	case 4:
		before := min(n, 30)
		return days{fmt.Sprintf("L-%d", before), func(t time.Time) bool {
			return t.AddDate(0, 0, before).Month() == t.Month() && t.AddDate(0, 0, before+1).Month() != t.Month()
		}}
	case 5:
		return days{"LW", func(t time.Time) bool {
			next := t.AddDate(0, 0, 1)
			for isWeekend(next) {
				next = next.AddDate(0, 0, 1)
			}
			return !isWeekend(t) && next.Month() != t.Month()
		}}
	case 6:
		return days{fmt.Sprintf("%dW", n), func(t time.Time) bool { return isNearestWeekday(t, n) }}
	}
	made := randomNumbers(r, 1, 31)
	return days{made.text, func(t time.Time) bool { return made.set[t.Day()] }}
}

func isWeekend(t time.Time) bool { return t.Weekday() == time.Saturday || t.Weekday() == time.Sunday }

// isNearestWeekday asks every weekday of t's month how far it is from the day, the earlier one first.
func isNearestWeekday(t time.Time, day int) bool {
	nearest, distance := 0, 100
	exists := false
	for d := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC); d.Month() == t.Month(); d = d.AddDate(0, 0, 1) {
		exists = exists || d.Day() == day
		if away := max(d.Day()-day, day-d.Day()); !isWeekend(d) && away < distance {
			nearest, distance = d.Day(), away
		}
	}
	return exists && t.Day() == nearest
}

func randomDayOfWeek(r *rand.Rand) days {
	names := []string{"SUN", "mon", "Tue", "WED", "thu", "Fri", "SAT"}
	weekday := r.IntN(7)
	switch r.IntN(8) {
	case 0, 1, 2:
		return days{"*", func(time.Time) bool { return true }}
	case 3:
		return days{"?", func(time.Time) bool { return true }}
	case 4:
		return days{names[weekday] + "L", func(t time.Time) bool {
			return int(t.Weekday()) == weekday && t.AddDate(0, 0, 7).Month() != t.Month()
		}}
	case 5:
		nth := 1 + r.IntN(5)
		return days{fmt.Sprintf("%d#%d", weekday, nth), func(t time.Time) bool {
			return int(t.Weekday()) == weekday && t.AddDate(0, 0, -7*(nth-1)).Month() == t.Month() &&
				t.AddDate(0, 0, -7*nth).Month() != t.Month()
		}}
	}
	made := randomNumbers(r, 0, 6)
	return days{made.text, func(t time.Time) bool { return made.set[int(t.Weekday())] }}
}

// randomReference makes up an expression. A frequent one fires often enough to be compared within days.
func randomReference(r *rand.Rand, frequent, seconds bool) reference {
	second, minute, hour := numbers{text: "0", set: map[int]bool{0: true}}, randomNumbers(r, 0, 59), randomNumbers(r, 0, 23)
	month, dayOfMonth, dayOfWeek := randomNumbers(r, 1, 12), randomDayOfMonth(r), randomDayOfWeek(r)
	text := ""
	if seconds {
		second = randomNumbers(r, 0, 59)
		text = second.text + " "
	}
	if frequent {
		month = numbers{text: "*", set: map[int]bool{}}
		for m := range 12 {
			month.set[m+1] = true
		}
		dayOfMonth = days{"*", func(time.Time) bool { return true }}
	}
	prefix, prefixed := "", r.IntN(4) == 0
	if prefixed {
		prefix = "DAYS=both "
	}
	both := prefixed || strings.ContainsAny(dayOfMonth.text[:1], "*?") || strings.ContainsAny(dayOfWeek.text[:1], "*?")
	return reference{
		text:     prefix + text + strings.Join([]string{minute.text, hour.text, dayOfMonth.text, month.text, dayOfWeek.text}, " "),
		elapsing: minute.open || hour.open,
		clock: func(t time.Time) bool {
			return second.set[t.Second()] && minute.set[t.Minute()] && hour.set[t.Hour()]
		},
		day: func(t time.Time) bool {
			if !month.set[int(t.Month())] {
				return false
			}
			byMonth, byWeek := dayOfMonth.matches(t), dayOfWeek.matches(t)
			return byMonth && byWeek || !both && (byMonth || byWeek)
		},
	}
}

// times lists the scheduled times after one instant and up to another, by watching the clock tick. For fixed times it
// keeps the latest time that the clock has shown: a tick is due if a match lies in what it shows for the first time,
// or jumps over.
func (ref reference) times(after, until time.Time, loc *time.Location, tick time.Duration) (all []time.Time) {
	memory := 30 * time.Hour // longer than any change of the clocks
	if tick < time.Minute {
		memory = 4 * time.Hour // enough for all but those that leave out a day
	}
	shown := onTheWall(after.Add(-memory), loc)
	for t := after.Add(-memory); !t.After(until); t = t.Add(tick) {
		now := onTheWall(t, loc)
		due := ref.elapsing && ref.matches(now)
		for ; now.After(shown); shown = shown.Add(tick) {
			due = due || !ref.elapsing && ref.matches(shown.Add(tick))
		}
		if due && t.After(after) {
			all = append(all, t)
		}
	}
	return all
}

// onTheWall is what a clock shows, as though it were UTC.
func onTheWall(t time.Time, loc *time.Location) time.Time {
	t = t.In(loc)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// nextTimes lists the same times by asking Next. It stops, with one time too many, if they do not run forward.
func nextTimes(e *cron.Expression, after, until time.Time) (all []time.Time) {
	for t := e.Next(after); !t.IsZero() && !t.After(until); t = e.Next(t) {
		all = append(all, t.UTC())
		if !t.After(after) {
			break
		}
		after = t
	}
	return all
}

// changes are moments shortly before clocks are set.
var changes = []struct{ zone, moment string }{
	{"UTC", "2026-02-26T00:00:00Z"},
	{"Europe/Berlin", "2026-03-28T10:00:00Z"},
	{"Europe/Berlin", "2026-10-24T10:00:00Z"},
	{"America/New_York", "2026-03-07T10:00:00Z"},
	{"America/New_York", "2026-10-31T10:00:00Z"},
	{"Australia/Lord_Howe", "2026-04-04T00:00:00Z"},
	{"Australia/Lord_Howe", "2026-10-03T00:00:00Z"},
	{"America/Sao_Paulo", "2018-11-03T12:00:00Z"},
	{"America/Sao_Paulo", "2018-02-17T12:00:00Z"},
	{"Africa/Cairo", "2024-04-25T12:00:00Z"},
	{"Africa/Cairo", "2024-10-31T08:00:00Z"},
	{"Asia/Beirut", "2024-03-30T12:00:00Z"},
	{"Africa/Casablanca", "2026-02-14T12:00:00Z"},
	{"Antarctica/Troll", "2026-03-28T12:00:00Z"},
	{"Pacific/Apia", "2011-12-29T12:00:00Z"},
	{"Pacific/Kwajalein", "1993-08-20T00:00:00Z"},
	{"Pacific/Kiritimati", "1994-12-30T12:00:00Z"},
	{"Asia/Kathmandu", "1985-12-31T00:00:00Z"},
}

// TestReference compares Next with the clock watcher around changes of the clocks.
func TestReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, change := range changes {
		t.Run(change.zone+"/"+change.moment[:7], func(t *testing.T) {
			after, err := time.Parse(time.RFC3339, change.moment)
			if err != nil {
				t.Fatal(err)
			}
			for range 30 {
				compare(t, randomReference(r, true, false), change.zone, after, 48*time.Hour, time.Minute)
			}
			for range 4 {
				start := after.Add(time.Duration(r.IntN(20*3600)) * time.Second)
				compare(t, randomReference(r, true, true), change.zone, start, 3*time.Hour, time.Second)
			}
		})
	}
}

// TestReferenceYears compares Next with the reference day by day over years.
func TestReferenceYears(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		ref := randomReference(r, false, false)
		start := time.Date(1970+r.IntN(200), time.Month(1+r.IntN(12)), 1+r.IntN(28), 0, 0, 0, 0, time.UTC)
		e, err := cron.Parse(ref.text)
		if err == nil {
			compareDays(t, ref, e, start)
			continue
		}
		for day := range 28 * 366 {
			if date := start.AddDate(0, 0, day); ref.day(date) {
				t.Fatalf("%v, but it fires on %s", err, date)
			}
		}
	}
}

func compare(t *testing.T, ref reference, zoneName string, after time.Time, span, tick time.Duration) {
	t.Helper()
	compareIn(t, ref, zone(t, zoneName), after, span, tick)
}

func compareIn(t *testing.T, ref reference, loc *time.Location, after time.Time, span, tick time.Duration) {
	t.Helper()
	e, err := cron.ParseIn(ref.text, loc)
	if err != nil {
		t.Fatal(err)
	}
	got, want := nextTimes(e, after, after.Add(span)), ref.times(after, after.Add(span), e.Location(), tick)
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("%q after %s (elapsing: %v):\ngot  %v\nwant %v", e, after, ref.elapsing, got, want)
	}
}

// compareDays compares the first scheduled time of each of the thousand days from start.
func compareDays(t *testing.T, ref reference, e *cron.Expression, start time.Time) {
	t.Helper()
	first := start
	for !ref.clock(first) {
		first = first.Add(time.Minute)
	}
	for day := range 1000 {
		midnight, due := start.AddDate(0, 0, day), first.AddDate(0, 0, day)
		got := e.Next(midnight.Add(-time.Nanosecond))
		if fires := got.Before(midnight.AddDate(0, 0, 1)) && !got.IsZero(); fires != ref.day(midnight) || fires && !got.Equal(due) {
			t.Fatalf("%q from %s: got %s, want %v at %s", e, midnight, got, ref.day(midnight), due)
		}
	}
}
