package crontab

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// A lines reader goes through a crontab from top to bottom.
type lines struct {
	*report
	dialect Dialect
	user    string // whose jobs may be run

	env    map[string]string
	shell  string
	tz     *time.Location // of TZ, or nil
	cronTZ *time.Location // of CRON_TZ, or nil; it outranks tz
	cronAt int            // the line of that
	notes  []note         // of the comments directly above
	jobs   []Job
}

// A note is a key that a comment sets.
type note struct {
	line       int
	key, value string // both "" for the comment itself, which wants a job; "# name:" may be prose where none follows
}

func (r *report) parseCrontab(data []byte, d Dialect) []Job {
	l := &lines{report: r, dialect: d, user: d.User, env: make(map[string]string), shell: "/bin/sh"}
	if d.SystemUsers && l.user == "" {
		l.user = currentUser()
	}
	r.Whole(data)
	number := 0
	for line := range strings.SplitSeq(string(data), "\n") {
		number++
		l.line(number, strings.Trim(strings.TrimSuffix(line, "\r"), " \t"))
	}
	l.forget()
	return l.jobs
}

func (l *lines) line(number int, text string) {
	switch {
	case text == "":
		l.forget()
	case text[0] == '#':
		l.comment(number, text)
	case variableLike(text):
		l.forget()
		l.variable(number, text)
	default:
		l.job(number, text)
		l.notes = nil
	}
}

// forget drops the notes that no job followed. Those of a comment that can't be prose are an error.
func (l *lines) forget() {
	for _, n := range l.notes {
		if n.key == "" {
			l.Fail(n.line, "", `there is no job directly below this "# soloist:" comment; put it above the job's line`)
		}
	}
	l.notes = nil
}

var (
	nameComment    = regexp.MustCompile(`^#+[ \t]*name:[ \t]*(.*)$`)
	soloistComment = regexp.MustCompile(`^#+[ \t]*soloist:[ \t]*(.*)$`)
)

func (l *lines) comment(number int, text string) {
	if m := nameComment.FindStringSubmatch(text); m != nil {
		l.notes = append(l.notes, note{number, "name", m[1]})
		return
	}
	m := soloistComment.FindStringSubmatch(text)
	if m == nil {
		return
	}
	l.notes = append(l.notes, note{line: number})
	for word := range strings.FieldsSeq(m[1]) {
		key, value, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			l.Fail(number, "", "%q is no key=value; write words such as ttl=30s", word)
			continue
		}
		l.notes = append(l.notes, note{number, key, value})
	}
}

// noteKeys are the keys of a comment.
var noteKeys = func() []string {
	keys := []string{"name", "zone", "dir"}
	for _, s := range slices.Concat(settings, retrySettings) {
		keys = append(keys, s.key)
	}
	return keys
}()

// apply applies the notes to a job and returns its zone and the lines of the keys.
func (l *lines) apply(j *Job) (*time.Location, map[string]int) {
	zone, at := l.zone(), make(map[string]int)
	for _, n := range l.notes {
		if n.key == "" {
			continue
		}
		if first, twice := at[n.key]; twice {
			l.Fail(n.line, n.key, "it is set on line %d already; remove one", first)
			continue
		}
		at[n.key] = n.line
		var err error
		set, known := settingOf(slices.Concat(settings, retrySettings), n.key)
		switch {
		case n.key == "name":
			j.Name, err = n.value, checkName(n.value)
		case n.key == "zone":
			var given *time.Location
			if given, err = zoneNamed(n.value); err == nil {
				zone = given
			}
		case n.key == "dir":
			j.Dir, err = n.value, checkDir(n.value)
		case known:
			err = set.set(&j.Options, n.value)
		default:
			l.Fail(n.line, n.key, "there is no such key; the keys are %s", quoted(noteKeys))
		}
		if err != nil {
			l.Fail(n.line, n.key, "%v", err)
		}
	}
	return zone, at
}

// zone is that of the schedules below the variables.
func (l *lines) zone() *time.Location {
	switch {
	case l.cronTZ != nil:
		return l.cronTZ
	case l.tz != nil:
		return l.tz
	}
	return time.UTC
}

// job reads a line that is neither blank nor comment nor variable.
func (l *lines) job(number int, text string) {
	j := Job{Line: number, Shell: l.shell}
	zone, at := l.apply(&j)
	if !l.when(&j, text, zone) {
		return
	}
	j.Env = entries(l.env)
	l.agree(&j, func(key string) int {
		if line, ok := at[key]; ok {
			return line
		}
		return number
	})
	if j.Name == "" && at["name"] == 0 {
		j.Name, j.Derived = derivedName(&j), true
	}
	l.jobs = append(l.jobs, j)
}

// when reads schedule, user and command of a job, and tells whether there is enough of them to go on.
func (l *lines) when(j *Job, text string, zone *time.Location) bool {
	number := j.Line
	schedule, rest, fields, ok := splitSchedule(text)
	if !ok {
		l.Fail(number, "", "%s", noSchedule(schedule, rest, fields))
		return false
	}
	if err := j.schedule(schedule, zone); err != nil {
		l.Fail(number, "", "%v", err)
	}
	l.warnOfYear(number, schedule, fields)
	if l.dialect.SystemUsers {
		j.User, rest = cutWord(rest)
		if j.User != l.user && j.User != "" {
			l.Fail(number, "", "it is %q's, and this is %q: soloist does not change users; run it as %[1]q, or leave the line out", j.User, l.user)
		}
	} else if word, more := cutWord(rest); word == "root" && more != "" {
		l.Warn(number, "", `the command is "root": if that is the user of a system crontab, say that there is a user column`)
	}
	return l.what(j, rest, fields > 0)
}

// warnOfYear warns of six fields that supercronic reads as five and a year.
func (l *lines) warnOfYear(number int, schedule string, fields int) {
	five, isYear := strings.CutSuffix(schedule, " *")
	var other Job
	if fields == 6 && isYear && other.schedule(five, time.UTC) == nil {
		l.Warn(number, "", `six fields: the first is the second; supercronic reads it as the minute, and the last as the year. `+
			`If that is meant, remove the last "*"; else write "?" for it`)
	}
}

// what reads the command of a job.
func (l *lines) what(j *Job, rest string, afterFields bool) bool {
	word, _ := cutWord(rest)
	switch {
	case rest == "":
		l.Fail(j.Line, "", "there is no command after the schedule")
		return false
	case afterFields && field.MatchString(word):
		l.Fail(j.Line, "", "the command %q looks like a field of the schedule; if it is a command, write ./%[1]s or its full path. "+
			"A year needs seven fields, with the second in front", word)
		return false
	case strings.HasSuffix(rest, `\`):
		l.Fail(j.Line, "", `it ends with a backslash, but lines can't be continued; write it in one line`)
		return false
	}
	j.Command = rest
	if l.dialect.LiteralPercent {
		return true
	}
	command, stdin, found := splitPercent(rest)
	j.Command, j.Stdin = strings.TrimRight(command, " \t"), stdin
	if j.Command == "" {
		l.Fail(j.Line, "", `there is no command before the %%`)
		return false
	}
	if found {
		l.Warn(j.Line, "", `what follows %% is the command's standard input, as in cron; if a percent sign is meant, write \%%`)
	}
	return true
}
