package notify

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/strictyaml"
)

// A Target is where notices go: URL, URLFile or Command says how.
type Target struct {
	Name       string        // of its elements and its leader in the store
	On         []Kind        // what it is told; all kinds by default
	URL        string        // of a webhook; a secret
	URLFile    string        // a file with it
	SecretFile string        // a file with the key of signatures; "" for none
	Command    []string      // a program and its arguments; no shell reads them
	Timeout    time.Duration // of one attempt; 10 s by default
	Attempts   int           // to send one notice; 5 by default
	Every      time.Duration // of one job and kind at most one notice in such a period; 10 min by default
	Output     bool          // whether notices have the end of the output of commands
}

// maxFile bounds the size of a file of targets.
const maxFile = 1 << 20

// Read reads targets: a list in YAML. An error names each line that is wrong and what would be right, and shows no value that may be a secret.
func Read(name string, in io.Reader) ([]Target, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: has more than %d bytes", name, maxFile)
	}
	r := &strictyaml.Reader{Report: &strictyaml.Report{File: name}, HideValues: true}
	document := r.Document(data, "targets")
	if r.Failures() > 0 {
		return nil, r.Err()
	}
	if document == nil {
		return nil, fmt.Errorf("%s: has no target; give a list, each with a name and a url, url-file or command", name)
	}
	list := strictyaml.Items(document)
	if len(list) == 0 {
		r.Fail(document.Line, "", "%s stands here; give a list of targets, each with a name and a url, url-file or command", r.Kind(strictyaml.Resolved(document)))
	}
	var targets []Target
	lines := map[string]int{}
	for _, node := range list {
		t, ok := readTarget(r, node)
		if !ok {
			continue
		}
		if first, there := lines[t.Name]; there {
			r.Fail(node.Line, "name", "another target, on line %d, has the name %q", first, t.Name)
		}
		lines[t.Name] = node.Line
		targets = append(targets, t)
	}
	if r.Failures() > 0 {
		return nil, r.Err()
	}
	return targets, nil
}

// readTarget reads a target, or reports what is wrong with it.
func readTarget(r *strictyaml.Reader, node *yaml.Node) (Target, bool) {
	t := Target{On: kinds, Timeout: 10 * time.Second, Attempts: 5, Every: 10 * time.Minute}
	fields := map[string]any{
		"name": &t.Name, "on": &t.On, "url": &t.URL, "url-file": &t.URLFile, "secret-file": &t.SecretFile, "command": &t.Command,
		"timeout": &t.Timeout, "attempts": &t.Attempts, "every": &t.Every, "output": &t.Output,
	}
	before := r.Failures()
	m := r.Mapping(node, "", slices.Sorted(maps.Keys(fields)))
	if m == nil {
		return t, false
	}
	for _, key := range m.Keys {
		if m.Values[key].Decode(fields[key]) != nil { // the parser's error would show the value, which may be a secret
			r.Fail(m.LineOf(key), key, "is not of the right form: on and command are lists, timeout and every durations such as 10s, attempts a number, output true or false")
		}
	}
	if r.Failures() == before {
		if err := t.check(); err != nil {
			r.Fail(node.Line, "", "%s", err)
		}
	}
	return t, r.Failures() == before
}

var targetName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

func (t Target) check() error {
	ways := 0
	for _, given := range []bool{t.URL != "", t.URLFile != "", len(t.Command) > 0} {
		if given {
			ways++
		}
	}
	switch {
	case !targetName.MatchString(t.Name):
		return fmt.Errorf("name %q: give 1 to 40 lower-case letters, digits and hyphens", t.Name)
	case ways != 1:
		return fmt.Errorf("%s: give one of url, url-file and command", t.Name)
	case t.SecretFile != "" && len(t.Command) > 0:
		return fmt.Errorf("%s: secret-file is for webhooks, and not for a command", t.Name)
	case len(t.Command) > 0 && t.Command[0] == "":
		return fmt.Errorf("%s: command: its first element is the program, and is empty", t.Name)
	case t.Timeout < time.Second || t.Timeout > 5*time.Minute:
		return fmt.Errorf("%s: timeout %v: give 1s to 5m", t.Name, t.Timeout)
	case t.Attempts < 1 || t.Attempts > 20:
		return fmt.Errorf("%s: attempts %d: give 1 to 20", t.Name, t.Attempts)
	case t.Every < time.Second || t.Every > 24*time.Hour:
		return fmt.Errorf("%s: every %v: give 1s to 24h", t.Name, t.Every)
	case len(t.On) == 0:
		return fmt.Errorf("%s: on: give some of %v", t.Name, kinds)
	}
	for _, kind := range t.On {
		if !slices.Contains(kinds, kind) {
			return fmt.Errorf("%s: on: %q is none of %v", t.Name, kind, kinds)
		}
	}
	if t.URL != "" {
		_, err := parseURL(t.URL)
		return err
	}
	return nil
}

// parseURL checks the URL of a webhook. Its errors do not show it.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, errors.New("the url of a webhook begins with https:// or http:// and has a host")
	}
	return u, nil
}
