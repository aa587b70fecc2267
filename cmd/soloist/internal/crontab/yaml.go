package crontab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/strictyaml"
)

func (r *report) parseYAML(data []byte) []Job {
	y := &yamlReader{report: r, Reader: &strictyaml.Reader{Report: r.Report}}
	if document := y.Document(data, "jobs"); document != nil {
		return y.file(document)
	}
	return nil
}

type yamlReader struct {
	*strictyaml.Reader
	report   *report
	defaults *strictyaml.Mapping
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
	m := y.Mapping(n, "", []string{"defaults", "jobs", "x-"})
	if m == nil {
		return nil
	}
	if d, ok := m.Values["defaults"]; ok {
		if y.defaults = y.Mapping(d, "defaults", shared); y.defaults != nil {
			y.checkDefaults()
		}
	}
	list, ok := m.Values["jobs"]
	if !ok {
		y.Fail(m.Line, "jobs", "there is no such key; list the jobs under it")
		return nil
	}
	items := strictyaml.Resolved(list)
	if items.Kind != yaml.SequenceNode {
		if !strictyaml.IsNull(items) {
			y.Fail(list.Line, "jobs", "%s stands here; write a list, each job after a dash", y.Kind(items))
		}
		return nil
	}
	var jobs []Job
	for _, item := range items.Content {
		if m := y.Mapping(item, "jobs", jobKeys); m != nil {
			jobs = append(jobs, y.job(m))
		}
	}
	return jobs
}

// checkDefaults reports what is wrong with the defaults once, and leaves only what is right in them.
func (y *yamlReader) checkDefaults() {
	for _, key := range slices.Clone(y.defaults.Keys) {
		before := y.Failures()
		alone := &strictyaml.Mapping{Line: y.defaults.Line, Key: y.defaults.Key, Values: map[string]*yaml.Node{key: y.defaults.Values[key]}}
		y.options(&Job{}, alone)
		y.zone(alone)
		if y.Failures() > before {
			delete(y.defaults.Values, key)
		}
	}
}

func (y *yamlReader) job(m *strictyaml.Mapping) Job {
	j := Job{Line: m.Line}
	if n, ok := m.Values["name"]; !ok {
		y.Fail(m.Line, "name", "the job has none; give it one, the same on every replica")
	} else if v, ok := y.Text(n, "name"); ok {
		j.Name = v
		if err := checkName(v); err != nil {
			y.Fail(n.Line, "name", "%v", err)
		}
	}
	d := y.defaults
	if d == nil {
		d = &strictyaml.Mapping{}
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
	y.report.agree(&j, func(key string) int {
		if key == "backoff" {
			return m.LineOf("retry")
		}
		return m.LineOf(key)
	})
	return j
}

// dropDefaults drops what means nothing for this job. Only where the job says it itself it is a mistake.
func (y *yamlReader) dropDefaults(j *Job, own *strictyaml.Mapping) {
	if _, ok := own.Values["missed"]; !ok && j.Delay > 0 {
		j.Missed = ""
	}
	if _, ok := own.Values["missed-cap"]; !ok && j.Missed != MissedAll {
		j.MissedCap = 0
	}
}

// zone is the zone of a mapping, or nil.
func (y *yamlReader) zone(m *strictyaml.Mapping) *time.Location {
	n, ok := m.Values["zone"]
	if !ok {
		return nil
	}
	v, ok := y.Text(n, "zone")
	if !ok {
		return nil
	}
	zone, err := zoneNamed(v)
	if err != nil {
		y.Fail(n.Line, "zone", "%v", err)
		return nil
	}
	return zone
}

// options reads the keys that defaults and jobs have in common.
func (y *yamlReader) options(j *Job, m *strictyaml.Mapping) {
	for _, s := range settings {
		y.setting(j, m, s)
	}
	if n, ok := m.Values["retry"]; ok {
		if retry := y.Mapping(n, "retry", keysOf(retrySettings)); retry != nil {
			j.Retry = Retry{}
			for _, s := range retrySettings {
				y.setting(j, retry, s)
			}
		}
	}
	if n, ok := m.Values["dir"]; ok {
		if v, ok := y.Text(n, "dir"); ok {
			j.Dir = v
			if err := checkDir(v); err != nil {
				y.Fail(n.Line, "dir", "%v", err)
			}
		}
	}
	if n, ok := m.Values["env"]; ok {
		if env := y.Mapping(n, "env", nil); env != nil {
			y.env(j, env)
		}
	}
}

func (y *yamlReader) setting(j *Job, m *strictyaml.Mapping, s setting) {
	n, ok := m.Values[s.key]
	if !ok {
		return
	}
	if v, ok := y.Text(n, s.key); ok {
		if err := s.set(&j.Options, v); err != nil {
			y.Fail(n.Line, s.key, "%v", err)
		}
	}
}

// env adds variables to a job, over those of the defaults.
func (y *yamlReader) env(j *Job, m *strictyaml.Mapping) {
	values := make(map[string]string, len(j.Env)+len(m.Keys))
	for _, entry := range j.Env {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	for _, name := range m.Keys {
		value, ok := y.Text(m.Values[name], name)
		switch {
		case !ok:
		case !variableName.MatchString(name):
			y.Fail(m.Key[name].Line, "env", "%q is no name of a variable; write letters, digits and _", name)
		case strings.HasPrefix(name, "SOLOIST_"):
			y.Fail(m.Key[name].Line, name, "the variables SOLOIST_* are set by soloist; use another name")
		default:
			values[name] = value
		}
	}
	j.Env = entries(values)
}

// when reads the one key that says when the job runs.
func (y *yamlReader) when(j *Job, m *strictyaml.Mapping, zone *time.Location) {
	var given []string
	for _, key := range []string{"schedule", "every", "delay", "at"} {
		if _, ok := m.Values[key]; ok {
			given = append(given, key)
		}
	}
	switch len(given) {
	case 0:
		y.Fail(m.Line, "schedule", "it is not said when the job runs; give one of schedule, every, delay and at")
		return
	case 1:
	default:
		y.Fail(m.LineOf(given[1]), given[1], "the job has %s already, on line %d; give one of them", given[0], m.LineOf(given[0]))
		return
	}
	key := given[0]
	if _, ok := m.Values["zone"]; ok && key != "schedule" {
		y.Fail(m.LineOf("zone"), "zone", "it is for schedule, and means nothing beside %s; remove it", key)
	}
	n := m.Values[key]
	v, ok := y.Text(n, key)
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
		y.Fail(n.Line, key, "%v", err)
	}
}

// what reads what the job runs.
func (y *yamlReader) what(j *Job, m *strictyaml.Mapping) {
	command, hasCommand := m.Values["command"]
	shell, hasShell := m.Values["shell"]
	switch {
	case hasCommand && hasShell:
		y.Fail(m.LineOf("shell"), "shell", "the job has command already, on line %d; give one of them", m.LineOf("command"))
	case hasCommand:
		y.command(j, command)
	case hasShell:
		if v, ok := y.Text(shell, "shell"); ok {
			j.Command, j.Shell = v, "/bin/sh"
			if strings.TrimSpace(v) == "" {
				y.Fail(shell.Line, "shell", "it is empty; write a line for the shell")
			}
		}
	default:
		y.Fail(m.Line, "command", `it is not said what the job runs; give command: ["program", "argument"] or shell: "a line"`)
	}
	if n, ok := m.Values["stdin"]; ok {
		j.Stdin, _ = y.Text(n, "stdin")
	}
}

func (y *yamlReader) command(j *Job, n *yaml.Node) {
	list := strictyaml.Resolved(n)
	if list.Kind != yaml.SequenceNode {
		y.Fail(n.Line, "command", `%s stands here; write a list such as ["./publish", "--fast"], or shell: for a line`, y.Kind(list))
		return
	}
	for _, item := range list.Content {
		if v, ok := y.Text(item, "command"); ok {
			j.Args = append(j.Args, v)
		}
	}
	if len(list.Content) == 0 || len(j.Args) > 0 && j.Args[0] == "" {
		y.Fail(n.Line, "command", `there is no program; write a list such as ["./publish", "--fast"]`)
	}
}

func checkDir(dir string) error {
	if dir == "" {
		return errors.New("it is empty; name a directory, or remove the key")
	}
	return nil
}
