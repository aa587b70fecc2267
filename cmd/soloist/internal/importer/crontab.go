package importer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/crontab"
)

// Crontab imports a crontab. Jobs keep the names that soloist cron gives them when it reads the crontab itself.
func Crontab(file string, data []byte, d crontab.Dialect) (Result, error) {
	t := &translation{file: file}
	d.Format = crontab.Crontab
	lines := strings.Split(string(data), "\n")
	for {
		parsed, err := crontab.Parse(file, []byte(strings.Join(lines, "\n")), d)
		if err == nil {
			for _, w := range parsed.Warnings {
				t.note(w.Line, "", "%s", w.Text)
			}
			for _, j := range parsed.Jobs {
				t.jobs = append(t.jobs, fromCrontab(j))
			}
			return t.result()
		}
		if !t.drop(lines, err) {
			if len(t.notes) > 0 { // no line is left
				return t.result()
			}
			return Result{}, err
		}
	}
}

// zoneLine matches a line that sets the zone of the jobs below it.
var zoneLine = regexp.MustCompile(`^(CRON_)?TZ\s*=`)

// drop leaves out the lines that are wrong. It reports false if there is none.
func (t *translation) drop(lines []string, err error) bool {
	all, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return false
	}
	dropped := false
	for _, err := range all.Unwrap() {
		var p *crontab.Problem
		if !errors.As(err, &p) || p.Line == 0 || p.Line > len(lines) {
			continue
		}
		if line := strings.TrimSpace(lines[p.Line-1]); line != "" {
			reason := strings.TrimPrefix(p.Error(), fmt.Sprintf("%s:%d: ", p.File, p.Line))
			if zoneLine.MatchString(line) {
				reason += "; the jobs below it have the zone from above it, which is not theirs: correct it in each of them"
			}
			t.note(p.Line, "", "the line is not carried over: %s", reason)
			lines[p.Line-1], dropped = "", true
		}
	}
	return dropped
}

// short returns a duration as people write it, "1m" and not "1m0s"; "" if it is 0.
func short(d time.Duration) string {
	if d == 0 {
		return ""
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if cut, ok := strings.CutSuffix(text, zero); ok {
			text = cut + zero[:1]
		}
	}
	return text
}

func fromCrontab(j crontab.Job) job {
	out := job{
		Name: j.Name, Schedule: j.Schedule, Delay: short(j.Delay), Stdin: text(j.Stdin), Dir: j.Dir,
		TTL: short(j.TTL), AtLeast: short(j.AtLeast), AtMost: short(j.AtMost), Jitter: short(j.Jitter),
		Missed: string(j.Missed), Cap: j.MissedCap, Grace: short(j.Grace), Crash: string(j.Crash), Nice: j.Nice, line: j.Line,
	}
	if zone, ok := strings.CutPrefix(j.Schedule, "CRON_TZ="); ok {
		out.Zone, out.Schedule, _ = strings.Cut(zone, " ")
	}
	if j.Shell == "/bin/sh" {
		out.Shell = text(j.Command)
	} else {
		out.Command = j.Argv()
	}
	for _, entry := range j.Env {
		if out.Env == nil {
			out.Env = map[string]text{}
		}
		name, value, _ := strings.Cut(entry, "=")
		out.Env[name] = text(value)
	}
	if j.Retry.Attempts > 0 {
		out.Retry = &retry{j.Retry.Attempts, short(j.Retry.Backoff), short(j.Retry.MaxBackoff)}
	}
	return out
}
