package crontab

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"
)

// variableLike reports whether a line sets a variable, or means to, and is not a job: of the letters only H begins a
// schedule, and a setting such as TZ=Europe/Berlin may stand in front of one.
func variableLike(text string) bool {
	if word, _ := cutWord(text); scheduleSetting.MatchString(word) {
		_, _, _, isJob := splitSchedule(text)
		return !isJob
	}
	c := text[0] | 0x20
	if c == 'h' && len(text) > 1 && strings.IndexByte(" \t,/(", text[1]) >= 0 {
		return strings.HasPrefix(strings.TrimLeft(text[1:], " \t"), "=")
	}
	return c >= 'a' && c <= 'z' || text[0] == '_' || text[0] == '"' || text[0] == '\''
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// mail are the variables of cron about mail.
var mail = map[string]bool{"MAILTO": true, "MAILFROM": true, "CONTENT_TYPE": true, "CONTENT_TRANSFER_ENCODING": true}

// variable reads a line NAME = value.
func (l *lines) variable(number int, text string) {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		word, _ := cutWord(text)
		l.Fail(number, "", "%q begins neither a variable (NAME = value) nor a job (five to seven fields, or a name such as @daily)", word)
		return
	}
	name, err := unquote(name)
	if err != nil || !variableName.MatchString(name) {
		l.Fail(number, "", "%q is no name of a variable; write letters, digits and _", name)
		return
	}
	if value, err = unquote(value); err != nil {
		l.Fail(number, name, "%v", err)
		return
	}
	l.set(number, name, value)
}

func (l *lines) set(number int, name, value string) {
	switch {
	case strings.HasPrefix(name, "SOLOIST_"):
		l.Fail(number, name, "the variables SOLOIST_* are set by soloist; use another name")
	case mail[name]:
		l.Warn(number, name, "it is ignored: no mail is sent")
	case name == "USER", name == "LOGNAME":
		l.Warn(number, name, "it is ignored: users are not changed")
	case name == "RANDOM_DELAY", name == "START_HOURS_RANGE":
		l.Warn(number, name, `it is ignored; write a comment "# soloist: jitter=…" above a job`)
	case name == "SHELL":
		if value == "" {
			l.Fail(number, name, "it is empty; write a path such as /bin/sh")
			return
		}
		l.shell, l.env[name] = value, value
	case name == "TZ":
		l.env[name] = value
		l.tz = l.zoneOf(number, name, value)
		if l.cronTZ != nil && l.tz != nil && l.tz.String() != l.cronTZ.String() {
			l.Warn(number, name, "it is passed on to the commands below; their schedules stay in %v, by CRON_TZ on line %d; an empty CRON_TZ= above gives them to TZ", l.cronTZ, l.cronAt)
		}
	case name == "CRON_TZ" && value == "":
		l.cronTZ = nil
	case name == "CRON_TZ":
		l.cronTZ, l.cronAt = l.zoneOf(number, name, value), number
	default:
		l.env[name] = value
	}
}

func (l *lines) zoneOf(number int, name, value string) *time.Location {
	zone, err := zoneNamed(value)
	if err != nil {
		l.Fail(number, name, "%v", err)
		return nil
	}
	return zone
}

// unquote removes the blanks around text, or quotes around it that match.
func unquote(text string) (string, error) {
	text = strings.Trim(text, " \t")
	if text == "" || text[0] != '"' && text[0] != '\'' {
		return text, nil
	}
	end := strings.IndexByte(text[1:], text[0]) + 1
	switch {
	case end == 0:
		return "", errors.New("its quotes are not closed")
	case end != len(text)-1:
		return "", errors.New("there is something after its closing quote")
	}
	return text[1:end], nil
}

// entries are variables as NAME=value, sorted.
func entries(values map[string]string) []string {
	var list []string
	for name, value := range values {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
