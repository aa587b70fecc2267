package cron

import (
	"strings"
	"time"
)

// parseMacro parses what begins with @.
func (e *Expression) parseMacro(text string) error {
	name, argument := text, ""
	if end := strings.IndexAny(text, " \t"); end >= 0 {
		name, argument = text[:end], strings.TrimLeft(text[end:], " \t")
	}
	name = strings.ToLower(name)
	if name == "@every" {
		return e.parseEvery(argument)
	}
	if argument != "" {
		return e.wrong("%q stands alone: remove %q", name, argument)
	}
	switch name {
	case "@hourly":
		return e.parseCalendar([7]string{"0", "0", "*", "*", "*", "*", "*"})
	case "@daily", "@midnight":
		return e.parseCalendar([7]string{"0", "0", "0", "*", "*", "*", "*"})
	case "@weekly":
		return e.parseCalendar([7]string{"0", "0", "0", "*", "*", "0", "*"})
	case "@monthly":
		return e.parseCalendar([7]string{"0", "0", "0", "1", "*", "*", "*"})
	case "@yearly", "@annually":
		return e.parseCalendar([7]string{"0", "0", "0", "1", "1", "*", "*"})
	case "@reboot":
		return e.wrong("@reboot has no meaning here: one machine boots, a cluster does not; " +
			"run the work at start-up, or give it times")
	}
	return e.wrong("%q is unknown: use @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually "+
		"or @every with a duration", name)
}

// parseEvery parses the duration of @every. Times are whole milliseconds, because that is how a run is recorded: with
// a finer pace two runs would bear the same name.
func (e *Expression) parseEvery(text string) error {
	if text == "" {
		return e.wrong("@every needs a duration, such as @every 1h30m")
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return e.wrong("%q is no duration: use one like 90s, 10m or 1h30m", text)
	}
	if d < time.Millisecond || d%time.Millisecond != 0 {
		return e.wrong("%q is too short or too fine: use one or more whole milliseconds", text)
	}
	e.every = d.Milliseconds()
	return nil
}

// nextMultiple returns the first multiple of the pace after the given time, counted from the Unix epoch so that
// replicas which started at different moments agree.
func (e *Expression) nextMultiple(after time.Time) time.Time {
	next := int64(0)
	if seconds := after.Unix(); seconds > latest {
		return time.Time{}
	} else if seconds >= 0 {
		next = (after.UnixMilli()/e.every + 1) * e.every
	}
	if next/1000 >= endOfCalendar {
		return time.Time{}
	}
	return time.UnixMilli(next).In(e.Location())
}
