package cron

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parseEvery parses what follows @every: a duration, and perhaps an offset. Times are whole milliseconds, because a
// run is recorded so: with a finer pace two runs would have the same name.
func (e *Expression) parseEvery(text, job string) error {
	if text == "" {
		return e.wrong("@every needs a duration, such as @every 1h30m")
	}
	words := strings.Fields(text)
	every, problem := parseDuration(words[0])
	if problem == "" && every == 0 {
		problem = "is too short or too fine: use one or more whole milliseconds"
	}
	if problem != "" {
		return e.wrong("%q %s", words[0], problem)
	}
	e.every = every
	switch {
	case len(words) == 1:
		return nil
	case len(words) != 3 || !strings.EqualFold(words[1], "offset"):
		return e.wrong("@every takes one duration and one offset: use @every 1d, or @every 1d offset 3h")
	case strings.EqualFold(words[2], "H"):
		e.hashed = true
		e.offset = hash(job, "offset", every)
		if every%1000 == 0 {
			e.offset -= e.offset % 1000
		}
		return nil
	}
	if e.offset, problem = parseDuration(words[2]); problem != "" {
		return e.wrong("the offset %q %s", words[2], problem)
	}
	if e.offset >= every {
		return e.wrong("the offset %q is not less than %q: use 0s to less than that", words[2], words[0])
	}
	return nil
}

// nextMultiple returns the first multiple of the pace after the given time, counted from the offset to the Unix epoch
// so that replicas which started at different moments agree.
func (e *Expression) nextMultiple(after time.Time) time.Time {
	next := e.offset
	if seconds := after.Unix(); seconds > latest {
		return time.Time{}
	} else if seconds >= 0 {
		if passed := after.UnixMilli() - e.offset; passed >= 0 {
			next += (passed/e.every + 1) * e.every
		}
	}
	if next/1000 >= endOfCalendar {
		return time.Time{}
	}
	return time.UnixMilli(next).In(e.Location())
}

// A unit is one of the units that durations are written in.
type unit struct {
	letter byte
	size   time.Duration
}

const dayLength, weekLength = 24 * time.Hour, 7 * 24 * time.Hour

// parseDuration parses a duration into whole milliseconds: 90s and 1h30m as Go writes them, 2w and 1d12h with weeks and
// days in front, and P1DT12H as in ISO 8601. A day is 24 hours.
func parseDuration(text string) (milliseconds int64, problem string) {
	d, ok := time.Duration(0), false
	if iso, isISO := strings.CutPrefix(text, "P"); isISO {
		if date, _, _ := strings.Cut(iso, "T"); strings.ContainsAny(date, "YM") {
			return 0, "has years or months, whose lengths differ: use @yearly, @monthly or fields"
		}
		d, ok = isoDuration(iso)
	} else {
		d, ok = goDuration(text)
	}
	switch {
	case !ok:
		return 0, "is not a duration: use one like 90s, 10m, 1h30m, 1d12h, 2w or P1DT12H, of at most 290 years"
	case d < 0 || d%time.Millisecond != 0:
		return 0, "is too short or too fine: use whole milliseconds"
	}
	return d.Milliseconds(), ""
}

// goDuration parses weeks and days, and behind them what time.ParseDuration takes.
func goDuration(text string) (time.Duration, bool) {
	end := strings.LastIndexAny(text, "wd") + 1
	total, ok := sum(text[:end], []unit{{'w', weekLength}, {'d', dayLength}})
	if !ok || end > 0 && end == len(text) {
		return total, ok
	}
	if end > 0 && (text[end] == '-' || text[end] == '+') {
		return 0, false
	}
	d, err := time.ParseDuration(text[end:])
	if err != nil || d > math.MaxInt64-total {
		return 0, false
	}
	return total + d, true
}

// isoDuration parses what follows the P.
func isoDuration(text string) (time.Duration, bool) {
	date, clock, clocked := strings.Cut(text, "T")
	days, daysOK := sum(date, []unit{{'W', weekLength}, {'D', dayLength}})
	hours, hoursOK := sum(clock, []unit{{'H', time.Hour}, {'M', time.Minute}, {'S', time.Second}})
	if !daysOK || !hoursOK || text == "" || clocked && clock == "" || hours > math.MaxInt64-days {
		return 0, false
	}
	return days + hours, true
}

// sum adds up numbers with units behind them, each unit at most once and the largest first.
func sum(text string, units []unit) (total time.Duration, ok bool) {
	for text != "" {
		rest := strings.TrimLeft(text, "0123456789")
		n, err := strconv.ParseInt(text[:len(text)-len(rest)], 10, 64)
		i := slices.IndexFunc(units, func(u unit) bool { return rest != "" && u.letter == rest[0] })
		if err != nil || i < 0 || n > int64((math.MaxInt64-total)/units[i].size) {
			return 0, false
		}
		total += time.Duration(n) * units[i].size
		text, units = rest[1:], units[i+1:]
	}
	return total, true
}
