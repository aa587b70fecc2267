package crontab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

func (r *report) parseYAML(data []byte) []Job {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if !errors.Is(err, io.EOF) {
			r.failYAML(err)
		}
		return nil
	}
	if err := decoder.Decode(&second); err == nil {
		r.fail(second.Line, "", "a second document begins here; keep all jobs in one")
	} else if !errors.Is(err, io.EOF) {
		r.failYAML(err)
	}
	if len(document.Content) == 0 || isNull(document.Content[0]) {
		return nil
	}
	y := &yamlReader{report: r}
	return y.file(document.Content[0])
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// failYAML reports what the parser says of a text that is no YAML.
func (r *report) failYAML(err error) {
	text, line := err.Error(), 0
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	r.fail(line, "", "this is no YAML: %s", text)
}

type yamlReader struct {
	*report
	defaults *mapping
	keys     int // read so far
}

var (
	shared  = append([]string{"zone", "env", "dir", "retry"}, keysOf(settings)...)
	jobKeys = append([]string{"name", "schedule", "every", "delay", "at", "command", "shell", "stdin"}, shared...)
)

func keysOf(list []setting) []string {
	keys := make([]string, len(list))
	for i, s := range list {
		keys[i] = s.key
	}
	return keys
}

func (y *yamlReader) file(n *yaml.Node) []Job {
	m := y.mapping(n, "", []string{"defaults", "jobs", "x-"})
	if m == nil {
		return nil
	}
	if d, ok := m.values["defaults"]; ok {
		if y.defaults = y.mapping(d, "defaults", shared); y.defaults != nil {
			y.checkDefaults()
		}
	}
	list, ok := m.values["jobs"]
	if !ok {
		y.fail(m.line, "jobs", "there is no such key; list the jobs under it")
		return nil
	}
	items := resolved(list)
	if items.Kind != yaml.SequenceNode {
		if !isNull(items) {
			y.fail(list.Line, "jobs", "%s stands here; write a list, each job after a dash", kind(items))
		}
		return nil
	}
	var jobs []Job
	for _, item := range items.Content {
		if m := y.mapping(item, "jobs", jobKeys); m != nil {
			jobs = append(jobs, y.job(m))
		}
	}
	return jobs
}

// checkDefaults reports what is wrong with the defaults once, and leaves only what is right in them.
func (y *yamlReader) checkDefaults() {
	for _, key := range slices.Clone(y.defaults.keys) {
		before := len(y.errors) + y.more
		alone := &mapping{line: y.defaults.line, key: y.defaults.key, values: map[string]*yaml.Node{key: y.defaults.values[key]}}
		y.options(&Job{}, alone)
		y.zone(alone)
		if len(y.errors)+y.more > before {
			delete(y.defaults.values, key)
		}
	}
}

func (y *yamlReader) job(m *mapping) Job {
	j := Job{Line: m.line}
	if n, ok := m.values["name"]; !ok {
		y.fail(m.line, "name", "the job has none; give it one, the same on every replica")
	} else if v, ok := y.text(n, "name"); ok {
		j.Name = v
		if err := checkName(v); err != nil {
			y.fail(n.Line, "name", "%v", err)
		}
	}
	d := y.defaults
	if d == nil {
		d = &mapping{}
	}
	y.options(&j, d)
	y.options(&j, m)
	zone := y.zone(m)
	if zone == nil {
		if zone = y.zone(d); zone == nil {
			zone = time.UTC
		}
	}
	y.when(&j, m, zone)
	y.what(&j, m)
	y.dropDefaults(&j, m)
	y.agree(&j, func(key string) int {
		if key == "backoff" {
			return m.lineOf("retry")
		}
		return m.lineOf(key)
	})
	return j
}

// dropDefaults drops what means nothing for this job. Only where the job says it itself it is a mistake.
func (y *yamlReader) dropDefaults(j *Job, own *mapping) {
	if _, ok := own.values["missed"]; !ok && j.Delay > 0 {
		j.Missed = ""
	}
	if _, ok := own.values["missed-cap"]; !ok && j.Missed != MissedAll {
		j.MissedCap = 0
	}
}

// zone is the zone of a mapping, or nil.
func (y *yamlReader) zone(m *mapping) *time.Location {
	n, ok := m.values["zone"]
	if !ok {
		return nil
	}
	v, ok := y.text(n, "zone")
	if !ok {
		return nil
	}
	zone, err := zoneNamed(v)
	if err != nil {
		y.fail(n.Line, "zone", "%v", err)
		return nil
	}
	return zone
}

// options reads the keys that defaults and jobs have in common.
func (y *yamlReader) options(j *Job, m *mapping) {
	for _, s := range settings {
		y.setting(j, m, s)
	}
	if n, ok := m.values["retry"]; ok {
		if retry := y.mapping(n, "retry", keysOf(retrySettings)); retry != nil {
			j.Retry = Retry{}
			for _, s := range retrySettings {
				y.setting(j, retry, s)
			}
		}
	}
	if n, ok := m.values["dir"]; ok {
		if v, ok := y.text(n, "dir"); ok {
			j.Dir = v
			if err := checkDir(v); err != nil {
				y.fail(n.Line, "dir", "%v", err)
			}
		}
	}
	if n, ok := m.values["env"]; ok {
		if env := y.mapping(n, "env", nil); env != nil {
			y.env(j, env)
		}
	}
}

func (y *yamlReader) setting(j *Job, m *mapping, s setting) {
	n, ok := m.values[s.key]
	if !ok {
		return
	}
	if v, ok := y.text(n, s.key); ok {
		if err := s.set(&j.Options, v); err != nil {
			y.fail(n.Line, s.key, "%v", err)
		}
	}
}

// env adds variables to a job, over those of the defaults.
func (y *yamlReader) env(j *Job, m *mapping) {
	values := make(map[string]string, len(j.Env)+len(m.keys))
	for _, entry := range j.Env {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	for _, name := range m.keys {
		value, ok := y.text(m.values[name], name)
		switch {
		case !ok:
		case !variableName.MatchString(name):
			y.fail(m.key[name].Line, "env", "%q is no name of a variable; write letters, digits and _", name)
		case strings.HasPrefix(name, "SOLOIST_"):
			y.fail(m.key[name].Line, name, "the variables SOLOIST_* are set by soloist; use another name")
		default:
			values[name] = value
		}
	}
	j.Env = entries(values)
}

// when reads the one key that says when the job runs.
func (y *yamlReader) when(j *Job, m *mapping, zone *time.Location) {
	var given []string
	for _, key := range []string{"schedule", "every", "delay", "at"} {
		if _, ok := m.values[key]; ok {
			given = append(given, key)
		}
	}
	switch len(given) {
	case 0:
		y.fail(m.line, "schedule", "it is not said when the job runs; give one of schedule, every, delay and at")
		return
	case 1:
	default:
		y.fail(m.lineOf(given[1]), given[1], "the job has %s already, on line %d; give one of them", given[0], m.lineOf(given[0]))
		return
	}
	key := given[0]
	if _, ok := m.values["zone"]; ok && key != "schedule" {
		y.fail(m.lineOf("zone"), "zone", "it is for schedule, and means nothing beside %s; remove it", key)
	}
	n := m.values[key]
	v, ok := y.text(n, key)
	if !ok {
		return
	}
	var err error
	switch key {
	case "schedule":
		err = j.schedule(v, zone)
	case "every":
		var d time.Duration
		if d, err = duration(v, time.Millisecond); err == nil {
			err = j.schedule("@every "+d.String(), time.UTC)
		}
	case "delay":
		j.Delay, err = duration(v, time.Millisecond)
	case "at":
		if j.At, err = time.Parse(time.RFC3339, v); err != nil {
			err = fmt.Errorf("%q is no time; write one such as 2026-12-31T23:59:00Z or 2026-12-31T23:59:00+01:00", v)
		}
	}
	if err != nil {
		y.fail(n.Line, key, "%v", err)
	}
}

// what reads what the job runs.
func (y *yamlReader) what(j *Job, m *mapping) {
	command, hasCommand := m.values["command"]
	shell, hasShell := m.values["shell"]
	switch {
	case hasCommand && hasShell:
		y.fail(m.lineOf("shell"), "shell", "the job has command already, on line %d; give one of them", m.lineOf("command"))
	case hasCommand:
		y.command(j, command)
	case hasShell:
		if v, ok := y.text(shell, "shell"); ok {
			j.Command, j.Shell = v, "/bin/sh"
			if strings.TrimSpace(v) == "" {
				y.fail(shell.Line, "shell", "it is empty; write a line for the shell")
			}
		}
	default:
		y.fail(m.line, "command", `it is not said what the job runs; give command: ["program", "argument"] or shell: "a line"`)
	}
	if n, ok := m.values["stdin"]; ok {
		j.Stdin, _ = y.text(n, "stdin")
	}
}

func (y *yamlReader) command(j *Job, n *yaml.Node) {
	list := resolved(n)
	if list.Kind != yaml.SequenceNode {
		y.fail(n.Line, "command", `%s stands here; write a list such as ["./publish", "--fast"], or shell: for a line`, kind(list))
		return
	}
	for _, item := range list.Content {
		if v, ok := y.text(item, "command"); ok {
			j.Args = append(j.Args, v)
		}
	}
	if len(list.Content) == 0 || len(j.Args) > 0 && j.Args[0] == "" {
		y.fail(n.Line, "command", `there is no program; write a list such as ["./publish", "--fast"]`)
	}
}

func checkDir(dir string) error {
	if dir == "" {
		return errors.New("it is empty; name a directory, or remove the key")
	}
	return nil
}
