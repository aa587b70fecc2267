package crontab

import (
	"bytes"
	"fmt"
	"io"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/strictyaml"
)

// MaxSize is the size in bytes of the longest file that is read.
const MaxSize = 1 << 20

// A Format is a dialect.
type Format string

// The formats. Auto is YAML for names that end in .yaml or .yml, else crontab.
const (
	Auto    Format = ""
	Crontab Format = "crontab"
	YAML    Format = "yaml"
)

// Dialect describes how a file is read. Only Format matters for YAML.
type Dialect struct {
	Format Format

	// SystemUsers: a user stands between schedule and command, as in /etc/crontab. It has to be User, or the user of
	// this process if that is "": nobody's identity is changed.
	SystemUsers bool
	User        string

	// LiteralPercent: % is nothing special, as in supercronic.
	LiteralPercent bool
}

// Read parses what r has. It is Parse with a bound on what is read.
func Read(name string, r io.Reader, d Dialect) (*File, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return Parse(name, data, d)
}

// Parse parses a file. The name is for messages and tells the format. The error joins every *Problem that was found, by
// line.
func Parse(name string, data []byte, d Dialect) (*File, error) {
	r := &report{&strictyaml.Report{File: name}}
	jobs := r.parse(name, data, d)
	if r.Failures() == 0 && len(jobs) == 0 {
		r.Fail(0, "", "there are no jobs in it")
	}
	r.refuseDuplicates(jobs)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return &File{jobs, grouped(r.Warnings())}, nil
}

func (r *report) parse(name string, data []byte, d Dialect) []Job {
	if len(data) > MaxSize {
		r.Fail(0, "", "it is longer than %d bytes; make several files of it", MaxSize)
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if i := bytes.IndexByte(data, 0); i >= 0 {
		r.Fail(1+bytes.Count(data[:i], []byte{'\n'}), "", "there is a NUL byte; this is no text file")
		return nil
	}
	format := d.Format
	if format == Auto {
		format = Crontab
		if ext := strings.ToLower(filepath.Ext(name)); ext == ".yaml" || ext == ".yml" {
			format = YAML
		}
	}
	switch format {
	case YAML:
		return r.parseYAML(data)
	case Crontab:
		return r.parseCrontab(data, d)
	default:
		r.Fail(0, "", "there is no format %q; use %q or %q", format, Crontab, YAML)
		return nil
	}
}

// refuseDuplicates refuses jobs of one name, naming both lines.
func (r *report) refuseDuplicates(jobs []Job) {
	first := make(map[string]Job, len(jobs))
	for _, j := range jobs {
		if j.Name == "" {
			continue // told already
		}
		other, seen := first[j.Name]
		switch {
		case !seen:
			first[j.Name] = j
		case j.Derived && other.Derived:
			r.Fail(j.Line, "", `the same job as on line %d; remove one, or tell them apart by comments "# name: …" above`, other.Line)
		default:
			r.Fail(j.Line, "name", "%q is the name of the job on line %d too; give each its own", j.Name, other.Line)
		}
	}
}

// currentUser is the user of this process, or "" when the system can't tell.
func currentUser() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
