package cron

import "strings"

// parseSettings takes the settings in front of an expression, such as TZ=Europe/Berlin, and returns what follows them.
func (e *Expression) parseSettings() (rest string, err error) {
	rest = e.text
	given := map[string]bool{}
	for {
		setting, after := rest, ""
		if end := strings.IndexAny(rest, " \t"); end >= 0 {
			setting, after = rest[:end], strings.TrimLeft(rest[end:], " \t")
		}
		key, value, found := strings.Cut(setting, "=")
		if !found {
			break
		}
		if err := e.set(key, value); err != nil {
			return "", err
		}
		key = strings.TrimPrefix(key, "CRON_") // TZ and CRON_TZ are one setting
		if given[key] {
			return "", e.wrong("gives %s= twice: give it once", key)
		}
		given[key] = true
		rest = after
	}
	if e.location == nil {
		return "", e.wrong("was given a nil *time.Location: give time.UTC or another zone")
	}
	return rest, nil
}

// set applies one setting.
func (e *Expression) set(key, value string) error {
	switch key {
	case "TZ", "CRON_TZ":
		location, err := zoneNamed(value)
		if err != nil {
			return e.wrong("%v", err)
		}
		e.location, e.prefixed = location, true
	case "DAYS":
		if value != "both" {
			return e.wrong("has DAYS=%s: use DAYS=both, for days that match both day fields, or leave it out", value)
		}
		e.both = true
	case "WEEKDAYS":
		if value != "quartz" {
			return e.wrong("has WEEKDAYS=%s: use WEEKDAYS=quartz, for weekdays from 1 = Sunday to 7 = Saturday, or leave it out", value)
		}
		e.quartz = true
	default:
		return e.wrong("begins with %q: the settings are TZ= (or CRON_TZ=), DAYS= and WEEKDAYS=, in capitals, as in TZ=Europe/Berlin", key+"=")
	}
	return nil
}
