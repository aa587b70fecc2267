package importer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	annotation = regexp.MustCompile(`@(?:[a-z_][\w.]*\.)?(Scheduled|SchedulerLock)\s*\(((?:[^()"]|"(?:[^"\\]|\\.)*"|\([^()]*\))*)\)`)
	attribute  = regexp.MustCompile(`(\w+)\s*=\s*((?:"(?:[^"\\]|\\.)*"|[^,"])+)`)
	others     = regexp.MustCompile(`@[\w.]+(?:\s*\((?:[^()"]|"(?:[^"\\]|\\.)*"|\((?:[^()"]|"(?:[^"\\]|\\.)*"|\([^()]*\))*\))*\))?`)
	method     = regexp.MustCompile(`(?:void|fun|boolean|int|long|double|[A-Z][\w.]*(?:<[^(){};]*>)?(?:\[\])?)\s+(\w+)\s*\(`)
	container  = regexp.MustCompile(`@Schedules\s*\(\s*(?:value\s*=\s*)?\{|\)\s*,?\s*\}\s*\)`) // the ends of the list that @Schedules has
	comment    = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*(?s:.*?)\*/`)
)

// ShedLock imports Java or Kotlin sources, or a list of their lines: each @Scheduled with its @SchedulerLock is a job. The commands are for people to fill in: the
// method cannot be run by a command.
func ShedLock(file string, data []byte) (Result, error) {
	t := &translation{file: file}
	text := comment.ReplaceAllStringFunc(string(data), func(found string) string {
		if found[0] == '"' {
			return found
		}
		return " " + strings.Repeat("\n", strings.Count(found, "\n"))
	})
	text = container.ReplaceAllStringFunc(text, func(found string) string {
		kept := strings.Repeat("\n", strings.Count(found, "\n"))
		if found[0] == ')' {
			return ")" + kept
		}
		return kept
	})
	var scheduled, locked *annotated
	flush := func(end int) {
		if scheduled != nil {
			t.shedLocked(*scheduled, locked, text[scheduled.end:end])
		} else if locked != nil {
			t.note(locked.line, "", "a @SchedulerLock without @Scheduled is not carried over")
		}
		scheduled, locked = nil, nil
	}
	for _, at := range annotation.FindAllStringSubmatchIndex(text, -1) {
		a := &annotated{line: 1 + strings.Count(text[:at[0]], "\n"), end: at[1]}
		a.values, a.elsewhere = attributes(text[at[4]:at[5]])
		if text[at[2]:at[3]] == "Scheduled" {
			switch {
			case scheduled != nil && strings.Trim(text[scheduled.end:at[0]], ", \t\r\n") == "":
				t.note(scheduled.line, "", "the method has another @Scheduled, which alone is carried over: write a job for this one, with a name that no other job has")
			case scheduled != nil || locked != nil && between(text[locked.end:at[0]]):
				flush(at[0])
			}
			scheduled = a
			continue
		}
		if locked != nil || scheduled != nil && between(text[scheduled.end:at[0]]) {
			flush(at[0])
		}
		locked = a
	}
	flush(len(text))
	return t.result()
}

// between reports whether a method stands between two annotations.
func between(text string) bool {
	text = others.ReplaceAllString(text, "") // their values can have braces
	return strings.ContainsAny(text, "{}") || method.MatchString(text)
}

// An annotated is an annotation.
type annotated struct {
	line, end int
	values    map[string]string // as they are written, without the quotes of a text
	elsewhere map[string]bool   // whether a value is a name that stands for it, or has one in it
}

// elsewhere reports whether what a value means is in the program, or in its configuration, and not in the annotation.
func elsewhere(value string, quoted bool) bool {
	return strings.Contains(value, "${") || strings.Contains(value, "#{") || !quoted && !number.MatchString(value)
}

// number matches a number, or a product of numbers, in Java and Kotlin.
var number = regexp.MustCompile(`^[\d_]+L?(\s*\*\s*[\d_]+L?)*$`)

func attributes(text string) (values map[string]string, unknown map[string]bool) {
	values, unknown = map[string]string{}, map[string]bool{}
	for _, m := range attribute.FindAllStringSubmatch(text, -1) {
		value := strings.TrimSpace(m[2])
		unquoted, err := strconv.Unquote(value)
		if err == nil {
			value = unquoted
		}
		values[m[1]], unknown[m[1]] = value, elsewhere(value, err == nil)
	}
	return values, unknown
}

func (t *translation) shedLocked(s annotated, l *annotated, behind string) {
	j := job{line: s.line, Zone: s.values["zone"]}
	called := "METHOD"
	if m := method.FindStringSubmatch(behind); m != nil {
		called = m[1]
	}
	j.Name = called
	switch {
	case l == nil || l.values["name"] == "":
	case l.elsewhere["name"]:
		t.note(l.line, j.Name, "the name of the lock, %s, is not carried over: it is in the program or its configuration; a job that shares the lock needs that name", l.values["name"])
	default:
		j.Name = l.values["name"]
	}
	if l == nil {
		t.note(s.line, j.Name, "it has no @SchedulerLock: each instance ran it, and now one machine does")
	}
	if err := t.springTimes(&j, s); err != nil {
		t.note(s.line, j.Name, "the job is not carried over: %v", err)
		return
	}
	if l != nil {
		t.shedTimes(&j, *l)
	}
	j.Command = []string{"./" + called}
	t.note(s.line, j.Name, "the command ./%s stands for the method: write what runs it", called)
	t.jobs = append(t.jobs, j)
}

// springTimes reads when Spring runs a method.
func (t *translation) springTimes(j *job, s annotated) error {
	unit := "MILLISECONDS"
	if u := s.values["timeUnit"]; u != "" {
		unit = u[strings.LastIndexByte(u, '.')+1:]
	}
	for _, key := range []string{"initialDelay", "initialDelayString", "scheduler"} {
		if s.values[key] != "" {
			t.note(s.line, j.Name, "%s is not carried over", key)
		}
	}
	if cron := s.values["cron"]; cron != "" {
		fields := strings.Fields(cron)
		switch {
		case s.elsewhere["cron"]:
			return fmt.Errorf("the value of cron, %q, is in the program or its configuration", cron)
		case cron == "-":
			return errors.New(`cron "-" turns it off`)
		case len(fields) != 6 && !strings.HasPrefix(cron, "@"):
			return fmt.Errorf("cron, %q, has %d fields, and Spring needs six", cron, len(fields))
		}
		if j.Schedule = cron; j.Zone == "" {
			t.note(s.line, j.Name, "without a zone the schedule is in that of the program's machine; here it is in UTC")
		}
		if len(fields) == 6 {
			if days := springWeekdays(fields[5]); days != fields[5] {
				fields[5] = days
				j.Schedule = strings.Join(fields, " ")
			}
		}
		if len(fields) == 6 && !slices.Contains([]string{"*", "?"}, fields[3]) && !slices.Contains([]string{"*", "?"}, fields[5]) {
			j.Schedule = "DAYS=both " + j.Schedule // as in Spring
		}
		return nil
	}
	for key, to := range map[string]*string{"fixedRate": &j.Every, "fixedRateString": &j.Every, "fixedDelay": &j.Delay, "fixedDelayString": &j.Delay} {
		if s.values[key] == "" {
			continue
		}
		d, err := javaDuration(s.values[key], unit)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		*to, j.Zone = short(d), ""
		return nil
	}
	return fmt.Errorf("it is not said when it runs")
}

// springWeekdays writes out which days the steps of a field of weekdays are: Spring counts them from Monday to Sunday, soloist from Sunday to Saturday. A range from Sunday to Sunday is a whole
// week in Spring.
func springWeekdays(field string) string {
	items := strings.Split(field, ",")
	for i, item := range items {
		from, to, isRange := strings.Cut(item, "-")
		if isRange {
			if weekday(from) == 7 && weekday(to) == 7 {
				items[i] = "0-7"
			}
			continue
		}
		from, step, _ := strings.Cut(item, "/")
		n, err := strconv.Atoi(step)
		day := weekday(from)
		if err != nil || n < 1 || day == 0 {
			continue
		}
		var days []string
		for ; day <= 7; day += min(n, 7) {
			days = append(days, strconv.Itoa(day))
		}
		items[i] = strings.Join(days, ",")
	}
	return strings.Join(items, ",")
}

// weekday returns the number that a day has in Spring, 1 for Monday and for all days, or 0 for what is no day.
func weekday(text string) int {
	if text == "*" {
		return 1
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= 7 {
		return n
	}
	return 1 + slices.Index([]string{"MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"}, strings.ToUpper(text))
}

// shedTimes reads how long ShedLock keeps a lock.
func (t *translation) shedTimes(j *job, l annotated) {
	if s := l.values["lockAtLeastFor"]; s != "" {
		d, err := javaDuration(s, "MILLISECONDS")
		if err != nil {
			t.note(l.line, j.Name, "lockAtLeastFor is not carried over: %v", err)
		} else if d > 0 {
			j.AtLeast = short(d)
		}
	}
	if s := l.values["lockAtMostFor"]; s != "" {
		t.note(l.line, j.Name, "lockAtMostFor %s is not carried over: a lease is renewed while the command runs, and ends 30s after its machine died (ttl); at-most stops a command that takes too long", s)
	}
}

var (
	isoDuration = regexp.MustCompile(`^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$`)
	days        = regexp.MustCompile(`^(\d+)d$`)
	units       = map[string]time.Duration{
		"NANOSECONDS": time.Nanosecond, "MICROSECONDS": time.Microsecond, "MILLISECONDS": time.Millisecond, "SECONDS": time.Second,
		"MINUTES": time.Minute, "HOURS": time.Hour, "DAYS": 24 * time.Hour,
	}
)

// javaDuration reads a number of units or a product of numbers, an ISO 8601 duration such as PT10M or P1D, or a short one such as 10m or 5d.
func javaDuration(text, unit string) (time.Duration, error) {
	if number.MatchString(text) && units[unit] > 0 {
		return javaNumber(text, units[unit])
	}
	if m := days.FindStringSubmatch(text); m != nil {
		return javaNumber(m[1], units["DAYS"])
	}
	upper := strings.ToUpper(text)
	if m := isoDuration.FindStringSubmatch(upper); m != nil && upper != "P" && !strings.HasSuffix(upper, "T") {
		whole, err := javaNumber(cmp.Or(m[1], "0"), units["DAYS"])
		if err != nil {
			return 0, err
		}
		short := "0s"
		for i, suffix := range []string{"h", "m", "s"} {
			if m[i+2] != "" {
				short += m[i+2] + suffix
			}
		}
		part, err := time.ParseDuration(short)
		if err == nil && part <= math.MaxInt64-whole {
			return whole + part, nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	return 0, fmt.Errorf("%q is no duration that can be read here", text)
}

// javaNumber returns so many units as a product of numbers says.
func javaNumber(text string, unit time.Duration) (time.Duration, error) {
	product := unit
	for factor := range strings.SplitSeq(text, "*") {
		digits := strings.TrimSuffix(strings.ReplaceAll(strings.TrimSpace(factor), "_", ""), "L")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n > 0 && product > time.Duration(math.MaxInt64/n) {
			return 0, fmt.Errorf("%q is too long for a duration", text)
		}
		product *= time.Duration(n)
	}
	return product, nil
}
