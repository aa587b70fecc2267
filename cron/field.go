package cron

import (
	"fmt"
	"strings"
)

// A field is one of the seven fields of an expression: what it may hold, and how to add what it holds to a calendar.
type field struct {
	name     string
	min, max int                     // bounds of a value; a day-of-week may also be 7, Sunday
	period   int                     // how far a range that wraps goes on counting; 0 if ranges may not wrap
	names    []string                // names of the values from min on, in full; three letters of each will do
	hashes   int                     // how many values from min on an H may stand for; 0 if none
	put      func(*calendar, uint64) // adds a set of values as bits; nil for the year, whose values do not fit
	special  func(f *field, piece string, c *calendar) (taken bool, problem string)
}

var (
	monthNames = []string{"JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE",
		"JULY", "AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER"}
	weekdayNames = []string{"SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"}
)

// allFields are the seven fields in the order of an expression that has them all.
var allFields = [7]field{
	{name: "second", min: 0, max: 59, period: 60, hashes: 60, put: func(c *calendar, set uint64) { c.seconds |= set }},
	{name: "minute", min: 0, max: 59, period: 60, hashes: 60, put: func(c *calendar, set uint64) { c.minutes |= set }},
	{name: "hour", min: 0, max: 23, period: 24, hashes: 24, put: func(c *calendar, set uint64) { c.hours |= uint32(set) }},
	{name: "day-of-month", min: 1, max: 31, period: 31, hashes: 28, special: specialDayOfMonth,
		put: func(c *calendar, set uint64) { c.days.ofMonth |= uint32(set) }},
	{name: "month", min: 1, max: 12, period: 12, hashes: 12, names: monthNames,
		put: func(c *calendar, set uint64) { c.months |= uint16(set) }},
	{name: "day-of-week", min: 0, max: 6, period: 7, hashes: 7, names: weekdayNames, special: specialDayOfWeek,
		put: func(c *calendar, set uint64) { c.days.ofWeek |= uint8(set) }},
	{name: "year", min: firstYear, max: lastYear},
}

// quartzWeekday takes the place of the day-of-week after WEEKDAYS=quartz: 1 is Sunday and 7 is Saturday, as in Quartz.
var quartzWeekday = field{name: "day-of-week", min: 1, max: 7, period: 7, hashes: 7, names: weekdayNames, special: specialDayOfWeek,
	put: func(c *calendar, set uint64) { c.days.ofWeek |= uint8(set >> 1) }}

// parse adds a whole field to the calendar, with H as the hash of name. A problem comes with the piece that has it.
func (f *field) parse(text string, c *calendar, name string) (piece, problem string) {
	if text == "?" && f.special != nil {
		text = "*"
	}
	if text == "*" { // by far the most frequent
		if f.put == nil {
			c.years = everyYear
		} else {
			f.put(c, 1<<(f.max+1)-1<<f.min)
		}
		return "", ""
	}
	for more := true; more; {
		piece, text, more = strings.Cut(text, ",")
		if problem = f.parsePiece(piece, c, name); problem != "" {
			return piece, problem
		}
	}
	return "", ""
}

// parsePiece adds one element of a list to the calendar.
func (f *field) parsePiece(piece string, c *calendar, name string) (problem string) {
	if piece == "" {
		return "is empty: put " + f.allowed() + " on each side of a comma"
	}
	if isHash(piece) {
		if piece, problem = f.resolve(piece, name); problem != "" {
			return problem
		}
	}
	if f.special != nil {
		if taken, problem := f.special(f, piece, c); taken {
			return problem
		}
	}
	s, problem := f.parseSpan(piece)
	if problem != "" {
		return problem
	}
	if f.put == nil {
		for year := s.from; year <= s.to; year += s.step {
			c.years.add(year)
		}
		return ""
	}
	set := uint64(0)
	for v := s.from; v <= s.to; v += s.step {
		set |= 1 << f.fold(v)
	}
	f.put(c, set)
	return ""
}

// A span is the values from, from+step, … up to to. One that wraps goes on counting beyond the field's maximum.
type span struct{ from, to, step int }

// parseSpan parses *, a, a-b and each of them with a step.
func (f *field) parseSpan(piece string) (s span, problem string) {
	base, step, stepped := strings.Cut(piece, "/")
	s.step = 1
	if stepped {
		if s.step, problem = f.parseStep(step); problem != "" {
			return s, problem
		}
	}
	if negative, isNegative := strings.CutPrefix(base, "-"); isNegative {
		if _, isNumber := parseNumber(negative); isNumber {
			return s, fmt.Sprintf("%s is negative: use %s", base, f.allowed())
		}
	}
	low, high, ranged := strings.Cut(base, "-")
	if base == "*" {
		s.from, s.to = f.min, f.max
		return s, ""
	}
	if s.from, problem = f.parseValue(low); problem != "" {
		return s, problem
	}
	switch {
	case ranged:
		if s.to, problem = f.parseValue(high); problem != "" {
			return s, problem
		}
		return f.wrap(s)
	case stepped:
		s.from, s.to = f.fold(s.from), f.max
	default:
		s.to = s.from
	}
	return s, ""
}

// wrap makes a range run forward: over the end of the week, of the day, of the year. A Sunday written as 7 stays 7 at
// the end of a range, so that 5-7 ends with it and 0-7 is the whole week.
func (f *field) wrap(s span) (span, string) {
	if s.from > f.max {
		s.from, s.to = f.fold(s.from), f.fold(s.to)
	}
	if s.from <= s.to {
		return s, ""
	}
	if f.period == 0 {
		return s, fmt.Sprintf("runs backwards: write %d-%d", s.to, s.from)
	}
	s.to += f.period
	return s, ""
}

// fold brings a value beyond the maximum back to where it belongs: Sunday written as 7 is 0.
func (f *field) fold(value int) int {
	if value > f.max {
		return value - f.period
	}
	return value
}

// parseValue parses a number or a name.
func (f *field) parseValue(text string) (value int, problem string) {
	value, isNumber := parseNumber(text)
	if isNumber {
		if value < f.min || value > f.highest() {
			return 0, fmt.Sprintf("%s is out of range: use %s", text, f.allowed())
		}
		return value, ""
	}
	for i, name := range f.names {
		if short := name[:3]; len(text) == len(name) && strings.EqualFold(name, text) || len(text) == 3 && strings.EqualFold(short, text) {
			return f.min + i, ""
		}
	}
	switch {
	case text == "":
		return 0, "lacks a value: use " + f.allowed()
	case text == "?":
		return 0, "? stands alone and only for all days: use *, or ? as the whole day-of-month or day-of-week"
	}
	return 0, fmt.Sprintf("%q is not understood: use %s", text, f.allowed())
}

// parseStep parses what follows a slash. A step as large as the field, such as the 60 of minutes, leaves the first value alone, as
// crontabs have it. A larger one is a mistake: somebody means 90 minutes.
func (f *field) parseStep(text string) (step int, problem string) {
	step, isNumber := parseNumber(text)
	switch count := f.max - f.min + 1; {
	case !isNumber:
		return 0, fmt.Sprintf("the step %q is no number: use one from 1 on, as in */5", text)
	case step == 0:
		return 0, "a step of 0 goes nowhere: use one from 1 on, as in */5"
	case step > count:
		return 0, fmt.Sprintf("the step %s is larger than the %d values of the field: use 1 to %d, or @every for a longer pace", text, count, count)
	}
	return step, ""
}

// highest is the largest number that may be written in the field.
func (f *field) highest() int {
	if f.period == 7 {
		return 7
	}
	return f.max
}

// allowed describes what values the field may hold.
func (f *field) allowed() string {
	if f.names == nil {
		return fmt.Sprintf("%d to %d", f.min, f.highest())
	}
	return fmt.Sprintf("%d to %d or %s to %s", f.min, f.highest(), f.names[0][:3], f.names[len(f.names)-1][:3])
}

// parseNumber parses one or more digits. What is too large for any field is merely large.
func parseNumber(text string) (value int, ok bool) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		value = min(value*10+int(text[i]-'0'), 1_000_000)
	}
	return value, text != ""
}
