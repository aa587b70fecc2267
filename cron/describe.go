package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Describe returns in plain English what an expression means: "at 03:00 on weekdays (Europe/Berlin)". The words are for
// people and may change. What they say is exact: two expressions with the same words have the same scheduled times,
// except that an H is described as what it stands for.
func Describe(e *Expression) string {
	if e.every > 0 {
		return e.everyWords()
	}
	c := &e.calendar
	if c.seconds == 0 {
		return "never"
	}
	words := []string{c.clockWords()}
	months := spans(uint64(c.months), 1, 12, func(m int) string { return time.Month(m).String() })
	ofMonth := " of the month"
	if bits.OnesCount16(c.months) == 1 && !c.days.either {
		ofMonth = " of " + months
	}
	days := c.days.words(ofMonth)
	switch {
	case days != "":
		words = append(words, days)
	case c.timesOfDay() != nil && c.months == everyMonth:
		words = append(words, "every day")
	}
	if c.months != everyMonth && !strings.Contains(days, " of "+months) {
		words = append(words, "in "+months)
	}
	if c.years != everyYear {
		words = append(words, c.years.words())
	}
	return strings.Join(words, " ") + e.zoneWords()
}

// everyWords describes @every.
func (e *Expression) everyWords() string {
	from := "1970-01-01T00:00:00Z"
	if e.offset > 0 {
		from = durationWords(time.Duration(e.offset)*time.Millisecond) + " after " + from
	}
	return everyDuration(time.Duration(e.every)*time.Millisecond) + ", counted from " + from
}

// zoneWords names the zone, and says what happens when its clocks are set where the words before do not tell: times of
// day read like fixed times, and anything else like a pace.
func (e *Expression) zoneWords() string {
	name := e.Location().String()
	if reads := e.calendar.timesOfDay() == nil; reads == e.elapsing || !setsClocks(e.Location()) {
		return " (" + name + ")"
	}
	if e.elapsing {
		return ", whenever the clocks show it (" + name + ")"
	}
	return ", each time once a day (" + name + ")"
}

const (
	everyMonth  = 1<<13 - 1<<1
	everyHour   = 1<<24 - 1
	everySixty  = 1<<60 - 1
	fewClocks   = 4  // as many times of a day are listed
	fewHours    = 12 // and as many if they are hours apart
	fewNumbers  = 12
	topOfMinute = 1 << 0
	topOfHour   = 1 << 0
)

// clockWords describes seconds, minutes and hours.
func (c *calendar) clockWords() string {
	if times := c.timesOfDay(); times != nil {
		return "at " + list(times)
	}
	hours := c.hourWords()
	switch {
	case c.seconds == topOfMinute && c.minutes == topOfHour:
		return c.fullHours()
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

// fullHours describes hours without minutes that are too many to list.
func (c *calendar) fullHours() string {
	if c.hours == everyHour {
		return "every hour"
	}
	if step := pace(uint64(c.hours), 24); step > 1 {
		return fmt.Sprintf("every %d hours from 00:00", step)
	}
	var words []string
	for _, r := range runs(uint64(c.hours), 0, 23) {
		if r.from == r.to {
			words = append(words, fmt.Sprintf("at %02d:00", r.from))
		} else {
			words = append(words, fmt.Sprintf("from %02d:00 to %02d:00", r.from, r.to))
		}
	}
	return "every hour " + list(words)
}

// ofEveryHour completes a phrase about minutes when no hours follow.
func (c *calendar) ofEveryHour() string {
	if c.hours == everyHour {
		return " of every hour"
	}
	return ""
}

// hourWords describes the hours, unless all are meant. The end of each is written out, since "to 17" would be doubtful.
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

// timesOfDay lists the times of a day, or returns nil if they are too many to be listed, or better told as a stretch.
func (c *calendar) timesOfDay() (times []string) {
	count := bits.OnesCount64(c.seconds) * bits.OnesCount64(c.minutes) * bits.OnesCount32(c.hours)
	few := fewClocks
	if bits.OnesCount64(c.seconds)*bits.OnesCount64(c.minutes) == 1 && pace(uint64(c.hours), 24) == 0 &&
		len(runs(uint64(c.hours), 0, 23)) > 2 {
		few = fewHours
	}
	if count > few {
		return nil
	}
	for clock, found := c.nextClock(0); found; clock, found = c.nextClock(clock + 1) {
		text := fmt.Sprintf("%02d:%02d", clock/3600, clock/60%60)
		if c.seconds != topOfMinute {
			text += fmt.Sprintf(":%02d", clock%60)
		}
		times = append(times, text)
	}
	return times
}

// words describes the days, unless all are meant. A day of the month is followed by ofMonth: " of the month".
func (r *dayRule) words(ofMonth string) string {
	month, week := r.monthWords(ofMonth), r.weekWords(ofMonth)
	on, is := make([]string, len(week)), make([]string, len(week))
	for i, w := range week {
		on[i], is[i] = w.on, w.is
	}
	switch {
	case r.either:
		return month + " or " + list(on)
	case month == "":
		return list(on)
	case week == nil:
		return month
	}
	return month + ", if that is " + alternatives(is)
}

// monthWords describes the day-of-month field, or returns nothing if it holds all days.
func (r *dayRule) monthWords(ofMonth string) string {
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
	return list(words) + ofMonth
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

// A dayPhrase is one phrase about days of the week, to follow a time ("on Friday") and to follow "that is" ("a Friday").
type dayPhrase struct{ on, is string }

// weekWords describes the day-of-week field, or returns nil if it holds all days.
func (r *dayRule) weekWords(ofMonth string) (phrases []dayPhrase) {
	if r.ofWeek == everyDayOfWeek && !r.either {
		return nil
	}
	switch names := weekdays(r.ofWeek); r.ofWeek {
	case 0:
	case 1<<time.Saturday | 1<<time.Sunday:
		phrases = append(phrases, dayPhrase{"on weekends", "a day of the weekend"})
	case everyDayOfWeek &^ (1<<time.Saturday | 1<<time.Sunday):
		phrases = append(phrases, dayPhrase{"on weekdays", "a weekday"})
	case everyDayOfWeek:
		phrases = append(phrases, dayPhrase{on: "on any day of the week"})
	default:
		phrases = append(phrases, dayPhrase{"on " + list(names), "a " + alternatives(names)})
	}
	the := func(ordinal, weekday string) {
		is := "the " + ordinal + " " + weekday + ofMonth
		phrases = append(phrases, dayPhrase{"on " + is, is})
	}
	for i, ordinal := range []string{"first", "second", "third", "fourth", "fifth"} {
		for _, weekday := range weekdays(r.nth[i]) {
			the(ordinal, weekday)
		}
	}
	for _, weekday := range weekdays(r.last) {
		the("last", weekday)
	}
	return phrases
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

// words describes the years of the set.
func (s *yearSet) words() string {
	var years []int
	for year, found := s.next(firstYear); found; year, found = s.next(year + 1) {
		years = append(years, year)
	}
	if step := difference(years); step > 1 && len(years) > fewClocks {
		return fmt.Sprintf("in every %s year from %d to %d", nth(step), years[0], years[len(years)-1])
	}
	var words []string
	for i, year := range years {
		begins, ends := i == 0 || years[i-1] != year-1, i == len(years)-1 || years[i+1] != year+1
		switch {
		case begins:
			words = append(words, strconv.Itoa(year))
		case ends:
			words[len(words)-1] += fmt.Sprintf(" to %d", year)
		}
	}
	return "in " + list(words)
}
