package cron

import "strings"

// parseMacro parses what begins with @.
func (e *Expression) parseMacro(text, job string) error {
	name, argument := text, ""
	if end := strings.IndexAny(text, " \t"); end >= 0 {
		name, argument = text[:end], strings.TrimLeft(text[end:], " \t")
	}
	name = strings.ToLower(name)
	if name == "@every" {
		return e.parseEvery(argument, job)
	}
	if argument != "" {
		return e.wrong("%q stands alone: remove %q", name, argument)
	}
	switch name {
	case "@hourly":
		return e.parseCalendar([7]string{"0", "0", "*", "*", "*", "*", "*"}, job)
	case "@daily", "@midnight":
		return e.parseCalendar([7]string{"0", "0", "0", "*", "*", "*", "*"}, job)
	case "@weekly":
		return e.parseCalendar([7]string{"0", "0", "0", "*", "*", "0", "*"}, job)
	case "@monthly":
		return e.parseCalendar([7]string{"0", "0", "0", "1", "*", "*", "*"}, job)
	case "@yearly", "@annually":
		return e.parseCalendar([7]string{"0", "0", "0", "1", "1", "*", "*"}, job)
	case "@reboot":
		return e.wrong("@reboot has no meaning here: one machine boots, a cluster does not; " +
			"run the work at start-up, or give it times")
	}
	return e.wrong("%q is unknown: use @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually "+
		"or @every with a duration", name)
}
