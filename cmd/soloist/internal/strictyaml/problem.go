package strictyaml

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// A Problem is one thing that is wrong with a file, where, and what would be right.
type Problem struct {
	File string
	Line int    // 0: the whole file
	Key  string // of YAML or of a comment, or the name of a variable; "" where there is none
	Text string
}

func (p *Problem) Error() string {
	at := p.File
	if p.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, p.Line)
	}
	if p.Key != "" {
		return fmt.Sprintf("%s: %s: %s", at, p.Key, p.Text)
	}
	return at + ": " + p.Text
}

// maxProblems is how many errors, and how many warnings, of one file are told. Nobody reads more.
const maxProblems = 1000

// A Report gathers the problems of a file.
type Report struct {
	File     string
	errors   []*Problem
	warnings []*Problem
	more     int // errors beyond maxProblems
}

// Failures is how many errors there are.
func (r *Report) Failures() int { return len(r.errors) + r.more }

// Whole reports an error if the last line of a file has no newline. Such a line may be cut, as by a disk that was full, and still mean something.
func (r *Report) Whole(data []byte) {
	if len(data) > 0 && data[len(data)-1] != '\n' {
		r.Fail(1+bytes.Count(data, []byte{'\n'}), "", "the file ends within this line: write it to its end, and a newline")
	}
}

// Fail reports an error, on a line, of a key: 0 and "" where there is none.
func (r *Report) Fail(line int, key, format string, args ...any) {
	if len(r.errors) == maxProblems {
		r.more++
		return
	}
	r.errors = append(r.errors, &Problem{r.File, line, key, fmt.Sprintf(format, args...)})
}

// Warn reports a doubt.
func (r *Report) Warn(line int, key, format string, args ...any) {
	if len(r.warnings) == maxProblems {
		return
	}
	r.warnings = append(r.warnings, &Problem{r.File, line, key, fmt.Sprintf(format, args...)})
}

// Warnings returns the warnings by line.
func (r *Report) Warnings() []*Problem {
	slices.SortStableFunc(r.warnings, byLine)
	return r.warnings
}

func byLine(a, b *Problem) int { return cmp.Compare(a.Line, b.Line) }

// Err joins the errors, by line.
func (r *Report) Err() error {
	slices.SortStableFunc(r.errors, byLine)
	all := make([]error, len(r.errors))
	for i, p := range r.errors {
		all[i] = p
	}
	if r.more > 0 {
		all = append(all, &Problem{r.File, 0, "", fmt.Sprintf("there are %d errors more", r.more)})
	}
	return errors.Join(all...)
}
