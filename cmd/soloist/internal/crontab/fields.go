package crontab

import (
	"regexp"
	"strings"
)

// field is a word that is made of what fields of a schedule are made of. It decides where the command begins; whether
// the fields are right, package cron says.
var field = func() *regexp.Regexp {
	const name = `jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat`
	const value = `(?:\*|\?|\d+|LW|L|(?:` + name + `))(?:[LW]|#\d+)?`
	const item = value + `(?:[-~]` + value + `)?(?:/\d+)?`
	return regexp.MustCompile(`(?i)^~?` + item + `(?:,` + item + `)*$`)
}()

// The numbers of fields that a schedule can have.
const minFields, maxFields = 5, 7

// splitSchedule splits a line after the schedule. fields is the number of its words that are fields, 0 for a name; ok is
// false when the line does not begin with a schedule.
func splitSchedule(line string) (schedule, rest string, fields int, ok bool) {
	if strings.HasPrefix(line, "@") {
		schedule, rest = cutWord(line)
		if strings.EqualFold(schedule, "@every") {
			pace, after := cutWord(rest)
			return strings.TrimSpace(schedule + " " + pace), after, 0, true
		}
		return schedule, rest, 0, true
	}
	var words []string
	rest = line
	for fields < maxFields {
		word, after := cutWord(rest)
		if after == "" || !field.MatchString(word) {
			break
		}
		words = append(words, word)
		rest = after
		fields++
	}
	return strings.Join(words, " "), rest, fields, fields >= minFields
}

// cutWord cuts the first word off, and the blanks after it.
func cutWord(s string) (word, rest string) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], " \t")
}
