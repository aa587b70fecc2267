package importer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Kubernetes imports the CronJobs of manifests. A command runs on the machines of the fleet, and not in a container: so the image, the volumes and all
// else that makes a pod is named, and not carried over.
func Kubernetes(file string, data []byte) (Result, error) {
	t := &translation{file: file, read: map[*yaml.Node]bool{}}
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return t.result()
		}
		if err != nil {
			return Result{}, fmt.Errorf("%s: this is no YAML: %w", file, err)
		}
		t.manifest(document.Content[0], "")
	}
}

// An object is a mapping of a manifest, from which keys are taken; what is left is not carried over.
type object struct {
	node   *yaml.Node
	path   string
	values map[string]*yaml.Node
	lines  map[string]int
	keys   []string
}

// meant returns the node that an alias names, or else n.
func meant(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func objectOf(n *yaml.Node, path string) *object {
	n = meant(n)
	o := &object{node: n, path: path, values: map[string]*yaml.Node{}, lines: map[string]int{}}
	if n == nil || n.Kind != yaml.MappingNode {
		return o
	}
	o.add(n, map[*yaml.Node]bool{})
	return o
}

// add adds the entries of a mapping that o has not yet: those that the mapping itself has come before those that it merges (<<).
func (o *object) add(n *yaml.Node, merging map[*yaml.Node]bool) {
	if n = meant(n); n == nil || n.Kind != yaml.MappingNode || merging[n] {
		return
	}
	merging[n] = true
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Tag == "!!merge" && meant(value).Kind == yaml.SequenceNode:
			merged = append(merged, meant(value).Content...)
		case key.Tag == "!!merge":
			merged = append(merged, value)
		case o.values[key.Value] == nil:
			o.keys, o.values[key.Value], o.lines[key.Value] = append(o.keys, key.Value), value, key.Line
		}
	}
	for _, from := range merged {
		o.add(from, merging)
	}
}

func (o *object) take(key string) *yaml.Node {
	n := meant(o.values[key])
	o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == key })
	return n
}

func (o *object) text(key string) string {
	if n := o.take(key); n != nil {
		return n.Value
	}
	return ""
}

func (o *object) object(key string) *object { return objectOf(o.take(key), o.path+key+".") }

// texts returns a list of strings.
func (o *object) texts(key string) []string {
	n := o.take(key)
	if n == nil {
		return nil
	}
	var all []string
	for _, item := range n.Content {
		all = append(all, meant(item).Value)
	}
	return all
}

// manifest imports a manifest. Without a kind it is of the one that its list is of.
func (t *translation) manifest(n *yaml.Node, listed string) {
	n = meant(n)
	if t.read[n] { // an alias: a list can contain itself
		return
	}
	t.read[n] = true
	o := objectOf(n, "")
	switch kind := cmp.Or(o.text("kind"), listed); {
	case kind == "List" || kind == "CronJobList":
		if items := o.take("items"); items != nil {
			for _, item := range items.Content {
				t.manifest(item, strings.TrimSuffix(kind, "List"))
			}
		}
	case kind == "CronJob":
		t.cronJob(o, n.Line)
	case n.Kind == yaml.MappingNode:
		t.note(n.Line, "", "a %q is not carried over: it is no CronJob", kind)
	case n.Tag != "!!null":
		t.note(n.Line, "", "what begins here is not carried over: it is no manifest")
	}
}

func (t *translation) cronJob(o *object, line int) {
	o.take("apiVersion")
	o.take("status")
	metadata, spec := o.object("metadata"), o.object("spec")
	j := job{Name: metadata.text("name"), line: line}
	left := func(of ...*object) {
		for _, o := range of {
			for _, key := range o.keys {
				t.note(o.lines[key], j.Name, "%s%s is not carried over", o.path, key)
			}
		}
	}
	j.Schedule, j.Zone = eitherDay(spec.text("schedule")), spec.text("timeZone")
	if j.Zone == "" && !strings.Contains(j.Schedule, "TZ=") {
		t.note(spec.lines["schedule"], j.Name, "without a timeZone the schedule is in that of the cluster's controller, which is mostly UTC; here it is in UTC")
	}
	t.policies(&j, spec)
	jobTemplate := spec.object("jobTemplate")
	jobSpec := jobTemplate.object("spec")
	j.AtMost = t.seconds(j.Name, jobSpec, "activeDeadlineSeconds")
	t.backoff(&j, jobSpec)
	template := jobSpec.object("template")
	pod := template.object("spec")
	pod.take("restartPolicy")
	containers := pod.take("containers")
	if containers == nil || len(containers.Content) != 1 {
		t.note(line, j.Name, "the job is not carried over: its pod has not exactly one container; make a script that does what they do")
		left(metadata, spec, jobTemplate, jobSpec, template, pod)
		return
	}
	c := objectOf(containers.Content[0], pod.path+"containers[0].")
	c.take("name")
	t.container(&j, c)
	left(o, metadata, spec, jobTemplate, jobSpec, template, pod, c)
	if len(j.Command) == 0 {
		t.note(line, j.Name, "the job is not carried over: it runs what its image has as the entry point; write that into command")
		return
	}
	t.jobs = append(t.jobs, j)
}

// policies carries over what is done about overlaps and missed times.
func (t *translation) policies(j *job, spec *object) {
	line := spec.lines["concurrencyPolicy"]
	switch policy := spec.text("concurrencyPolicy"); policy {
	case "Forbid":
	case "Replace":
		t.note(line, j.Name, "concurrencyPolicy Replace is not carried over: a run is never stopped for the next one; at-most bounds it")
	default:
		t.note(max(line, spec.lines["schedule"]), j.Name, "concurrencyPolicy Allow is not carried over: the runs of a job never overlap; one that is due meanwhile starts late, or counts as missed after its grace")
	}
	if spec.values["startingDeadlineSeconds"] == nil {
		j.Missed = "once" // Kubernetes starts the last of the missed times
	}
	j.Grace = t.seconds(j.Name, spec, "startingDeadlineSeconds")
	line = spec.lines["suspend"]
	if s := strings.ToLower(spec.text("suspend")); !slices.Contains([]string{"", "~", "null", "false", "no", "n", "off"}, s) {
		t.note(line, j.Name, "suspend is not carried over: pause the job before it is due: soloist jobs pause %s --reason TEXT", j.Name)
	}
}

// seconds returns the duration that a key has in seconds, or "". A number that soloist cron would refuse is named.
func (t *translation) seconds(job string, o *object, key string) string {
	line, s := o.lines[key], o.text(key)
	if s == "" {
		return ""
	}
	const most = 10 * 365 * 24 * 60 * 60 // a grace may be no longer
	if n, err := strconv.ParseInt(s, 10, 64); err != nil || n < 1 || n > most {
		t.note(line, job, "%s%s %s is not carried over: a time here has 1 to %d seconds", o.path, key, s, int64(most))
		return ""
	}
	return s + "s"
}

// backoff carries over how often Kubernetes tries a job that fails: backoffLimit times more, 10 s, 20 s, 40 s … apart, at most 6 minutes.
func (t *translation) backoff(j *job, spec *object) {
	limit := 6
	if s := spec.text("backoffLimit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.note(spec.lines["backoffLimit"], j.Name, "backoffLimit %q is no number", s)
			return
		}
		limit = n
	}
	if limit > 0 {
		j.Retry = &retry{limit + 1, "10s", "6m"}
	}
}

// container carries over what a container runs.
func (t *translation) container(j *job, c *object) {
	line := c.lines["image"]
	if image := c.text("image"); image != "" {
		t.note(line, j.Name, "the image %s is not carried over: the command runs on the machine itself, where its program must be installed", image)
	}
	line = max(c.lines["args"], c.lines["command"])
	command := c.texts("command")
	if len(command) > 0 {
		command = append(command, c.texts("args")...)
	}
	j.Command, j.Dir = command, c.text("workingDir")
	for _, word := range command {
		t.expansion(line, j.Name, word)
	}
	if env := c.take("env"); env != nil {
		for _, item := range env.Content {
			v := objectOf(item, "env.")
			name := v.text("name")
			if v.values["valueFrom"] != nil {
				t.note(item.Line, j.Name, "the variable %s is not carried over: its value comes from elsewhere in the cluster", name)
				continue
			}
			if j.Env == nil {
				j.Env = map[string]text{}
			}
			value := v.text("value")
			j.Env[name] = text(value)
			t.expansion(item.Line, j.Name, value)
		}
	}
}

// expansion names a text in which Kubernetes replaces something.
func (t *translation) expansion(line int, job, text string) {
	if strings.Contains(text, "$(") || strings.Contains(text, "$$") {
		t.note(line, job, "%q is passed on as it stands: only Kubernetes replaces $(NAME) and $$ in it", text)
	}
}

// eitherDay returns a schedule in which a day that matches either of two restricted fields is taken, as Kubernetes has it also if one of them begins
// with a step, such as */2. In soloist cron a day must match both then. A field that has a star anywhere restricts nothing in Kubernetes.
func eitherDay(schedule string) string {
	fields := strings.Fields(schedule)
	days := fields
	if len(days) > 0 && strings.Contains(days[0], "TZ=") {
		days = days[1:]
	}
	if len(days) != 5 {
		return schedule
	}
	star := func(field string) bool {
		return slices.ContainsFunc(strings.Split(field, ","), func(piece string) bool { return slices.Contains([]string{"*", "?", "*/1"}, piece) })
	}
	if star(days[2]) || star(days[4]) {
		for _, i := range []int{2, 4} {
			if strings.Contains(days[i], ",") && star(days[i]) {
				days[i] = "*"
			}
		}
		return strings.Join(fields, " ")
	}
	for i, whole := range map[int]string{2: "1-31/", 4: "0-6/"} {
		if step, ok := strings.CutPrefix(days[i], "*/"); ok {
			days[i] = whole + step
		}
	}
	return strings.Join(fields, " ")
}
