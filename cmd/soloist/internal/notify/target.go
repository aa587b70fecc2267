package notify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
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

// Read reads targets: a list in YAML. An error names the line and what would be right.
func Read(name string, in io.Reader) ([]Target, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: has more than %d bytes", name, maxFile)
	}
	var list []yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: give a list of targets, each with a name and a url, url-file or command: %w", name, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: has no target; give a list, each with a name and a url, url-file or command", name)
	}
	var targets []Target
	for i := range list {
		t, err := readTarget(&list[i])
		if err == nil && slices.ContainsFunc(targets, func(o Target) bool { return o.Name == t.Name }) {
			err = fmt.Errorf("another target has the name %q", t.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, list[i].Line, err)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

func readTarget(node *yaml.Node) (Target, error) {
	t := Target{On: kinds, Timeout: 10 * time.Second, Attempts: 5, Every: 10 * time.Minute}
	fields := map[string]any{
		"name": &t.Name, "on": &t.On, "url": &t.URL, "url-file": &t.URLFile, "secret-file": &t.SecretFile, "command": &t.Command,
		"timeout": &t.Timeout, "attempts": &t.Attempts, "every": &t.Every, "output": &t.Output,
	}
	if node.Kind != yaml.MappingNode {
		return t, errors.New("a target is a mapping, such as {name: pager, url: https://…}")
	}
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		field, known := fields[key.Value]
		if !known {
			return t, fmt.Errorf("line %d: %q is no key, or stands here twice; the keys are name, on, url, url-file, secret-file, command, timeout, attempts, every and output", key.Line, key.Value)
		}
		delete(fields, key.Value)
		if err := value.Decode(field); err != nil { // the parser's error would show the value, which may be a secret
			return t, fmt.Errorf("line %d: %s: is not of the right form: on and command are lists, timeout and every durations such as 10s, attempts a number, output true or false", key.Line, key.Value)
		}
	}
	return t, t.check()
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
