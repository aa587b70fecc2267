package cron

import (
	"fmt"
	"strings"
)

// specialDayOfMonth adds L, L-n, LW, L-nW and nW. It leaves every other piece untaken.
func specialDayOfMonth(f *field, piece string, c *calendar) (taken bool, problem string) {
	if strings.Contains(piece, "#") {
		return true, "# counts weekdays: write it in the day-of-week, as in FRI#2"
	}
	base, nearest := cutLetter(piece, 'W')
	if rest, fromLast := strings.CutPrefix(strings.ToUpper(base), "L"); fromLast {
		return true, addFromLast(rest, nearest, c)
	}
	if !nearest {
		if strings.ContainsAny(piece, "wW") {
			return true, "W goes with one day of the month and nothing behind it: use 15W or LW"
		}
		return false, ""
	}
	day, isNumber := parseNumber(base)
	if !isNumber || day < f.min || day > f.max {
		return true, fmt.Sprintf("W goes with one day from %d to %d, not with %q: use 15W or LW", f.min, f.max, base)
	}
	c.days.nearest |= 1 << day
	return true, ""
}

// addFromLast adds the day that lies the number in "-n" before the last one, or the weekday nearest to it. An empty
// text is the last day itself.
func addFromLast(text string, nearest bool, c *calendar) (problem string) {
	days := 0
	if text != "" {
		number, isOffset := strings.CutPrefix(text, "-")
		var isNumber bool
		days, isNumber = parseNumber(number)
		if !isOffset || !isNumber || days < 1 || days > 30 {
			return "L is the last day: use L, LW, or L-1 to L-30 for days before it"
		}
	}
	if nearest {
		c.days.nearestFromLast |= 1 << days
	} else {
		c.days.fromLast |= 1 << days
	}
	return ""
}

// specialDayOfWeek adds L, FRIL and FRI#2. It leaves every other piece untaken.
func specialDayOfWeek(f *field, piece string, c *calendar) (taken bool, problem string) {
	if day, number, found := strings.Cut(piece, "#"); found {
		return true, addNth(f, day, number, c)
	}
	day, last := cutLetter(piece, 'L')
	if !last {
		if strings.ContainsAny(piece, "lL") {
			return true, "L goes with one weekday and nothing behind it: use FRIL or 5L for the last Friday"
		}
		return false, ""
	}
	if day == "" {
		c.days.ofWeek |= 1 << 6 // as in Quartz: the last day of its week
		return true, ""
	}
	weekday, problem := f.parseValue(day)
	if problem != "" {
		return true, "L goes with one weekday, as in FRIL: " + problem
	}
	c.days.last |= 1 << (f.fold(weekday) - f.min)
	return true, ""
}

// addNth adds the weekday's nth occurrence in a month.
func addNth(f *field, day, number string, c *calendar) (problem string) {
	weekday, problem := f.parseValue(day)
	if problem != "" {
		return "# goes with one weekday, as in FRI#2: " + problem
	}
	n, isNumber := parseNumber(number)
	if !isNumber || n < 1 || n > 5 {
		return fmt.Sprintf("a month has no weekday number %q: use #1 to #5", number)
	}
	c.days.nth[n-1] |= 1 << (f.fold(weekday) - f.min)
	return ""
}

// cutLetter cuts a letter of either case off the end.
func cutLetter(text string, letter byte) (before string, found bool) {
	last := len(text) - 1
	if text[last]&^0x20 != letter {
		return text, false
	}
	return text[:last], true
}
