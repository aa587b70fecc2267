package cron

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// Describe says in plain English what an expression means: "at 03:00 on weekdays (Europe/Berlin)". The words are for
// people and may change; what they say is exact, and where no short phrase is, every field is told by itself.
func Describe(e *Expression) string {
	if e.every > 0 {
		pace := time.Duration(e.every) * time.Millisecond
		return everyDuration(pace) + ", counted from 1970-01-01T00:00:00Z"
	}
	c := &e.calendar
	if c.seconds == 0 {
		return "never"
	}
	words := []string{c.clockWords()}
	if days := c.days.words(); days != "" {
		words = append(words, days)
	} else if c.atTimesOfDay() && c.months == everyMonth {
		words = append(words, "every day")
	}
	if c.months != everyMonth {
		words = append(words, "in "+spans(uint64(c.months), 1, 12, func(m int) string { return time.Month(m).String() }))
	}
	if c.years != everyYear {
		words = append(words, "in "+c.years.words())
	}
	return strings.Join(words, " ") + " (" + e.Location().String() + ")"
}

const (
	everyMonth  = 1<<13 - 1<<1
	everyHour   = 1<<24 - 1
	everySixty  = 1<<60 - 1
	fewClocks   = 4 // as many times of a day are told one by one
	fewNumbers  = 12
	topOfMinute = 1 << 0
	topOfHour   = 1 << 0
)

// atTimesOfDay reports whether the clock is told as a list of times.
func (c *calendar) atTimesOfDay() bool {
	return bits.OnesCount64(c.seconds)*bits.OnesCount64(c.minutes)*bits.OnesCount32(c.hours) <= fewClocks
}

// clockWords tells seconds, minutes and hours.
func (c *calendar) clockWords() string {
	if c.atTimesOfDay() {
		return "at " + c.timesOfDay()
	}
	hours := c.hourWords()
	switch {
	case c.seconds == topOfMinute && c.minutes == topOfHour:
		if c.hours == everyHour {
			return "every hour"
		}
		if step := pace(uint64(c.hours), 24); step > 1 {
			return fmt.Sprintf("every %d hours from 00:00", step)
		}
		return "on the hour" + hours
	case c.seconds == topOfMinute:
		if step := pace(c.minutes, 60); step > 0 {
			return every(step, "minute") + hours
		}
		return numbered("at minute", c.minutes, 59) + hours + c.ofEveryHour()
	case c.minutes == everySixty:
		if step := pace(c.seconds, 60); step > 0 {
			return every(step, "second") + hours
		}
	}
	seconds := numbered("at second", c.seconds, 59)
	if c.seconds == everySixty {
		seconds = "every second"
	}
	if c.minutes == everySixty {
		return seconds + " of every minute" + hours
	}
	return seconds + " of" + strings.TrimPrefix(numbered("at minute", c.minutes, 59), "at") + hours + c.ofEveryHour()
}

// ofEveryHour completes a phrase about minutes when no hours follow.
func (c *calendar) ofEveryHour() string {
	if c.hours == everyHour {
		return " of every hour"
	}
	return ""
}

// hourWords tells the hours, unless all are meant. The end of each is written out, since "to 17" would be doubtful.
func (c *calendar) hourWords() string {
	if c.hours == everyHour {
		return ""
	}
	stretches := runs(uint64(c.hours), 0, 23)
	if len(stretches) > fewClocks {
		return numbered(" of hour", uint64(c.hours), 23)
	}
	var words []string
	for _, r := range stretches {
		words = append(words, fmt.Sprintf("from %02d:00 to %02d:59", r.from, r.to))
	}
	return " " + list(words)
}

// timesOfDay lists each time by itself.
func (c *calendar) timesOfDay() string {
	var times []string
	for clock, found := c.nextClock(0); found; clock, found = c.nextClock(clock + 1) {
		text := fmt.Sprintf("%02d:%02d", clock/3600, clock/60%60)
		if c.seconds != topOfMinute {
			text += fmt.Sprintf(":%02d", clock%60)
		}
		times = append(times, text)
	}
	return list(times)
}

// words tells the days, unless all are meant.
func (r *dayRule) words() string {
	month, week := r.monthWords(), r.weekWords()
	switch {
	case r.either:
		return month + " or " + week
	case month == "":
		return week
	case week == "":
		return month
	}
	return month + " if also " + week
}

// monthWords tells the day-of-month field, or nothing if it holds all days.
func (r *dayRule) monthWords() string {
	if r.ofMonth == everyDayOfMonth && !r.either {
		return ""
	}
	var words []string
	if r.ofMonth != 0 {
		words = append(words, numbered("on day", uint64(r.ofMonth), 31))
	}
	for rest := r.fromLast; rest != 0; rest &= rest - 1 {
		words = append(words, "on "+fromLastWords(bits.TrailingZeros32(rest)))
	}
	for rest := r.nearest; rest != 0; rest &= rest - 1 {
		words = append(words, fmt.Sprintf("on the weekday nearest day %d", bits.TrailingZeros32(rest)))
	}
	for rest := r.nearestFromLast; rest != 0; rest &= rest - 1 {
		if n := bits.TrailingZeros32(rest); n > 0 {
			words = append(words, "on the weekday nearest "+fromLastWords(n))
		} else {
			words = append(words, "on the last weekday")
		}
	}
	return list(words) + " of the month"
}

func fromLastWords(n int) string {
	if n == 0 {
		return "the last day"
	}
	if n == 1 {
		return "the day before the last day"
	}
	return fmt.Sprintf("the day %d days before the last day", n)
}

// weekWords tells the day-of-week field, or nothing if it holds all days.
func (r *dayRule) weekWords() string {
	if r.ofWeek == everyDayOfWeek && !r.either {
		return ""
	}
	var words []string
	switch r.ofWeek {
	case 0:
	case 1<<time.Saturday | 1<<time.Sunday:
		words = append(words, "on weekends")
	case everyDayOfWeek &^ (1<<time.Saturday | 1<<time.Sunday):
		words = append(words, "on weekdays")
	case everyDayOfWeek:
		words = append(words, "on any day of the week")
	default:
		words = append(words, "on "+list(weekdays(r.ofWeek)))
	}
	for i, ordinal := range []string{"first", "second", "third", "fourth", "fifth"} {
		for _, weekday := range weekdays(r.nth[i]) {
			words = append(words, "on the "+ordinal+" "+weekday+" of the month")
		}
	}
	for _, weekday := range weekdays(r.last) {
		words = append(words, "on the last "+weekday+" of the month")
	}
	return list(words)
}

// weekdays names the weekdays of a set, from Monday on.
func weekdays(set uint8) (names []string) {
	for i := range 7 {
		if weekday := time.Weekday((i + 1) % 7); set>>weekday&1 != 0 {
			names = append(names, weekday.String())
		}
	}
	return names
}

// words tells the years of the set.
func (s *yearSet) words() string {
	var words []string
	for year, found := s.next(firstYear); found; year, found = s.next(year + 1) {
		last := year
		for next, more := s.next(last + 1); more && next == last+1; next, more = s.next(last + 1) {
			last = next
		}
		switch {
		case last == year:
			words = append(words, fmt.Sprint(year))
		default:
			words = append(words, fmt.Sprintf("%d to %d", year, last))
		}
		year = last
	}
	return list(words)
}
