package crontab

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/soloist-dev/soloist/cron"
)

// field is a word that is made of what fields of a schedule are made of. It decides where the command begins; whether
// the fields are right, package cron decides.
var field = func() *regexp.Regexp {
	const name = `jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:tember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|` +
		`sun(?:day)?|mon(?:day)?|tue(?:sday)?|wed(?:nesday)?|thu(?:rsday)?|fri(?:day)?|sat(?:urday)?`
	const value = `(?:\*|\?|\d+|LW|L|(?:` + name + `))(?:[LW]|#\d+)?`
	const item = `(?:H(?:\([^)]*\))?|` + value + `(?:[-~]` + value + `)?)(?:/\d+)?`
	return regexp.MustCompile(`(?i)^~?` + item + `(?:,` + item + `)*$`)
}()

// scheduleSetting is a word that sets something for one schedule, in front of it.
var scheduleSetting = regexp.MustCompile(`^(?:CRON_TZ|TZ|DAYS|WEEKDAYS)=\S+$`)

// The numbers of fields that a schedule can have.
const minFields, maxFields = 5, 7

// splitSchedule splits a line after the schedule and the settings in front of it. fields is the number of its words
// that are fields, 0 for a name; ok is false when the line does not begin with a schedule.
func splitSchedule(line string) (schedule, rest string, fields int, ok bool) {
	var words []string
	rest = line
	for word, after := cutWord(rest); scheduleSetting.MatchString(word); word, after = cutWord(rest) {
		words, rest = append(words, word), after
	}
	if strings.HasPrefix(rest, "@") {
		name, rest := splitName(rest)
		return strings.Join(append(words, name), " "), rest, 0, true
	}
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

// fieldNames are those of a schedule of five fields.
var fieldNames = []string{"minute", "hour", "day-of-month", "month", "day-of-week"}

// noSchedule reports why a line is no job: what it has in place of the field after those that were found.
func noSchedule(found, rest string, fields int) string {
	word, command := cutWord(rest)
	if five := strings.TrimSpace(found + " " + word); command != "" && strings.ContainsAny(word, "0123456789*?,-~/#") {
		for range minFields - fields - 1 {
			word, command = cutWord(command)
			five += " " + word
		}
		var wrong *cron.ParseError
		if _, err := cron.Parse(five); command != "" && errors.As(err, &wrong) && wrong.Field != "" {
			return fmt.Sprintf("%q: %s %q: %s", five, wrong.Field, wrong.Piece, wrong.Problem)
		}
	}
	word, _ = cutWord(rest)
	return fmt.Sprintf("a job begins with five to seven fields or a name such as @daily, and then has a command; %q comes after %d fields, where the %s is due",
		word, fields, fieldNames[fields])
}

// splitName splits a line after a name such as @daily and its arguments.
func splitName(line string) (name, rest string) {
	name, rest = cutWord(line)
	if !strings.EqualFold(name, "@every") {
		return name, rest
	}
	pace, rest := cutWord(rest)
	name = strings.TrimSpace(name + " " + pace)
	if word, after := cutWord(rest); strings.EqualFold(word, "offset") {
		offset, rest := cutWord(after)
		return name + " offset " + offset, rest
	}
	return name, rest
}

// cutWord cuts the first word off, and the blanks after it.
func cutWord(s string) (word, rest string) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], " \t")
}
