package cron

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// longest is the length in bytes of the longest expression accepted: far above any real one, and a bound on the work
// that an expression from a stranger can cause.
const longest = 1024

// Parse parses an expression. Its zone is UTC unless the expression begins with TZ= or CRON_TZ=. An expression that
// cannot match any day from 1970 to 2199, such as "0 0 30 2 *", is an error; one whose years have merely passed is
// not, because Parse does not read the clock. Every error is a *[ParseError].
func Parse(expr string) (*Expression, error) { return ParseIn(expr, time.UTC) }

// MustParse is Parse for expressions that are known to be right. It panics on an error.
func MustParse(expr string) *Expression {
	e, err := Parse(expr)
	if err != nil {
		panic(err)
	}
	return e
}

// ParseIn parses an expression whose zone is loc unless the expression begins with TZ= or CRON_TZ=. Replicas must all
// pass the same zone; time.Local is not the same everywhere.
func ParseIn(expr string, loc *time.Location) (*Expression, error) {
	return parse(expr, loc, "")
}

// parse parses an expression whose H is the hash of name.
func parse(expr string, loc *time.Location, name string) (*Expression, error) {
	e := &Expression{text: strings.TrimSpace(expr), location: loc}
	if len(e.text) > longest {
		length := len(e.text)
		e.text = e.text[:longest]
		return nil, e.wrong("is %d bytes long: at most %d are allowed", length, longest)
	}
	if problem := stray(e.text); problem != "" {
		return nil, e.wrong("%s", problem)
	}
	rest, err := e.parseSettings()
	if err != nil {
		return nil, err
	}
	switch {
	case rest == "":
		return nil, e.wrong("has no fields: give five to seven, such as \"0 3 * * *\", or a name such as @daily or @every 10m")
	case rest[0] == '@':
		err = e.parseMacro(rest, name)
	default:
		err = e.parseFields(rest, name)
	}
	if err != nil {
		return nil, err
	}
	if !e.prefixed && e.Location() != time.UTC {
		e.unnamed = tellsZone(e.location)
	}
	return e, nil
}

// stray names what an expression cannot hold: blanks that look like those between fields, characters that nobody sees, and a comment.
func stray(text string) (problem string) {
	for _, r := range text {
		switch {
		case r == '\t':
		case r == '\n', r == '\r':
			return "holds a line break: give one expression, with spaces between its fields"
		case r != ' ' && unicode.IsSpace(r):
			return fmt.Sprintf("holds the blank %U: put ordinary spaces between the fields", r)
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == utf8.RuneError:
			return fmt.Sprintf("holds the character %U, which is not visible: remove it", r)
		}
	}
	for field := range strings.FieldsSeq(text) {
		if field[0] == '#' && (len(field) == 1 || field[1] < '0' || field[1] > '9') { // #2 is a weekday that lacks its name
			at := strings.Index(text, field)
			return fmt.Sprintf("ends with a comment: remove %q", text[at:])
		}
	}
	return ""
}

// parseFields parses five, six or seven fields.
func (e *Expression) parseFields(text, name string) error {
	var fields [7]string
	count := 0
	for text != "" {
		end := strings.IndexAny(text, " \t")
		if end < 0 {
			end = len(text)
		}
		if count < len(fields) {
			fields[count] = text[:end]
		}
		count++
		text = strings.TrimLeft(text[end:], " \t")
	}
	second, year := "0", "*"
	given := fields[:min(count, len(fields))]
	switch count {
	case 5:
	case 6, 7:
		second, given = given[0], given[1:]
		if count == 7 {
			year = given[5]
		}
	default:
		plural := "s"
		if count == 1 {
			plural = ""
		}
		return e.wrong("has %d field%s: give five (minute hour day-of-month month day-of-week), "+
			"six (second in front) or seven (year behind)", count, plural)
	}
	err := e.parseCalendar([7]string{second, given[0], given[1], given[2], given[3], given[4], year}, name)
	if value, isNumber := parseNumber(fields[5]); err != nil && count == 6 && isNumber && value >= firstYear {
		return e.wrong("has %s where six fields have the day-of-week: a year needs all seven, second first", fields[5])
	}
	return err
}

// parseCalendar parses the seven fields in order: second, minute, hour, day-of-month, month, day-of-week, year.
func (e *Expression) parseCalendar(fields [7]string, name string) error {
	c := &e.calendar
	for i := range fields {
		field := &allFields[i]
		if e.quartz && field.name == quartzWeekday.name {
			field = &quartzWeekday
		}
		e.hashed = e.hashed || isHash(fields[i]) || strings.Contains(strings.ToUpper(fields[i]), ",H")
		piece, problem := field.parse(fields[i], c, name)
		if problem != "" {
			return &ParseError{Expression: e.text, Field: field.name, Piece: piece, Problem: problem}
		}
	}
	e.elapsing = beginsOpen(fields[1]) || beginsOpen(fields[2])
	c.days.either = !e.both && !beginsWithStar(fields[3]) && !beginsWithStar(fields[5])
	if _, found := c.next(0); !found {
		return e.wrong("never fires: no day from %d to %d is in day-of-month %q, month %q, day-of-week %q and year %q",
			firstYear, lastYear, fields[3], fields[4], fields[5], fields[6])
	}
	return nil
}

// wrong is an error about the expression as a whole.
func (e *Expression) wrong(format string, args ...any) error {
	return &ParseError{Expression: e.text, Problem: fmt.Sprintf(format, args...)}
}

// beginsWithStar reports whether a day field leaves the choice of days to the other one. As in Vixie cron the first
// character decides, so "*/2" does; "?" is "*" spelled as in Quartz.
func beginsWithStar(field string) bool { return field[0] == '*' || field[0] == '?' }

// beginsOpen reports whether a minute or hour field begins with *, */n or a/n, which mean "at this pace" and not "at
// these times".
func beginsOpen(field string) bool {
	first, _, _ := strings.Cut(field, ",")
	return field[0] == '*' || strings.Contains(first, "/") && !strings.Contains(first, "-")
}
