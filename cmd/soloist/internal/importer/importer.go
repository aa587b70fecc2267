package importer

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/crontab"
)

// A Note says what was not carried over, or means something else than before.
type Note struct {
	File string
	Line int
	Job  string // "" if it concerns no job
	Text string
}

func (n Note) String() string {
	at := fmt.Sprintf("%s:%d: ", n.File, n.Line)
	if n.Job != "" {
		at += n.Job + ": "
	}
	return at + n.Text
}

// A Result is the YAML, and what is not in it.
type Result struct {
	YAML  []byte // nil without a job
	Jobs  int
	Notes []Note // by line
}

// A job is an entry of the YAML, in the order in which people write it.
type job struct {
	Name     string          `yaml:"name"`
	Schedule string          `yaml:"schedule,omitempty"`
	Every    string          `yaml:"every,omitempty"`
	Delay    string          `yaml:"delay,omitempty"`
	Zone     string          `yaml:"zone,omitempty"`
	Command  []string        `yaml:"command,omitempty,flow"`
	Shell    text            `yaml:"shell,omitempty"`
	Stdin    text            `yaml:"stdin,omitempty"`
	Dir      string          `yaml:"dir,omitempty"`
	Env      map[string]text `yaml:"env,omitempty"`
	TTL      string          `yaml:"ttl,omitempty"`
	AtLeast  string          `yaml:"at-least,omitempty"`
	AtMost   string          `yaml:"at-most,omitempty"`
	Jitter   string          `yaml:"jitter,omitempty"`
	Missed   string          `yaml:"missed,omitempty"`
	Cap      int             `yaml:"missed-cap,omitempty"`
	Grace    string          `yaml:"grace,omitempty"`
	Crash    string          `yaml:"crash,omitempty"`
	Nice     int             `yaml:"nice,omitempty"`
	Retry    *retry          `yaml:"retry,omitempty,flow"`

	line int
}

// A text may have several lines. One that begins with a blank or a newline is quoted: in a block of YAML the encoder loses that.
type text string

func (t text) MarshalYAML() (any, error) {
	if first, _ := utf8.DecodeRuneInString(string(t)); unicode.IsSpace(first) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(t), Style: yaml.DoubleQuotedStyle}, nil
	}
	return string(t), nil
}

type retry struct {
	Attempts   int    `yaml:"attempts"`
	Backoff    string `yaml:"backoff,omitempty"`
	MaxBackoff string `yaml:"max-backoff,omitempty"`
}

// A translation is an import under way.
type translation struct {
	file  string
	jobs  []job
	notes []Note
	read  map[*yaml.Node]bool // manifests
}

func (t *translation) note(line int, job, format string, args ...any) {
	t.notes = append(t.notes, Note{t.file, line, job, fmt.Sprintf(format, args...)})
}

// result writes the YAML, with the notes of each job above it. A job that soloist cron would refuse is left out, and named.
func (t *translation) result() (Result, error) {
	named := map[string]bool{}
	t.jobs = slices.DeleteFunc(t.jobs, func(j job) bool {
		text, err := render([]job{j}, nil)
		if err == nil {
			_, err = crontab.Parse("the job", text, crontab.Dialect{Format: crontab.YAML})
		}
		if err == nil && named[j.Name] {
			err = errors.New("another job has this name; give each its own")
		}
		if err == nil {
			named[j.Name] = true
		} else {
			t.note(j.line, j.Name, "the job is not carried over: %s", reasons(err))
		}
		return err != nil
	})
	slices.SortStableFunc(t.notes, func(a, b Note) int { return a.Line - b.Line })
	r := Result{Jobs: len(t.jobs), Notes: t.notes}
	if len(t.jobs) == 0 {
		return r, nil
	}
	text, err := render(t.jobs, t.notes)
	if err != nil {
		return r, err
	}
	if _, err := crontab.Parse("the result", text, crontab.Dialect{Format: crontab.YAML}); err != nil {
		return r, err
	}
	r.YAML = text
	return r, nil
}

// inResult matches where in the YAML of one job an error is, which nobody sees.
var inResult = regexp.MustCompile(`(?m)^the job:\d+: `)

// reasons returns the text of an error about the YAML of one job in one line.
func reasons(err error) string {
	return strings.ReplaceAll(inResult.ReplaceAllString(err.Error(), ""), "\n", "; ")
}

// render writes jobs as YAML, with notes as comments.
func render(jobs []job, notes []Note) ([]byte, error) {
	var list yaml.Node
	if err := list.Encode(jobs); err != nil {
		return nil, err
	}
	for i, n := range list.Content {
		for _, note := range notes {
			if note.Job == jobs[i].Name {
				n.HeadComment += fmt.Sprintf("# line %d: %s\n", note.Line, note.Text)
			}
		}
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(map[string]*yaml.Node{"jobs": &list}); err != nil {
		return nil, err
	}
	return out.Bytes(), e.Close()
}
