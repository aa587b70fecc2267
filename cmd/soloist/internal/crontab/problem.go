package crontab

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// report gathers problems of a file.
type report struct {
	file     string
	errors   []*Problem
	warnings []*Problem
	more     int // errors beyond maxProblems
}

func (r *report) fail(line int, key, format string, args ...any) {
	if len(r.errors) == maxProblems {
		r.more++
		return
	}
	r.errors = append(r.errors, &Problem{r.file, line, key, fmt.Sprintf(format, args...)})
}

func (r *report) warn(line int, key, format string, args ...any) {
	if len(r.warnings) == maxProblems {
		return
	}
	r.warnings = append(r.warnings, &Problem{r.file, line, key, fmt.Sprintf(format, args...)})
}

// grouped returns one problem for all that differ in their lines only: a crontab of hundreds of lines may have the same
// doubt about each.
func grouped(problems []*Problem) (groups []*Problem) {
	lines := map[Problem][]int{}
	for _, p := range problems {
		kind := Problem{p.File, 0, p.Key, p.Text}
		if lines[kind] = append(lines[kind], p.Line); len(lines[kind]) == 1 {
			groups = append(groups, &Problem{p.File, p.Line, p.Key, p.Text})
		}
	}
	for _, p := range groups {
		const shown = 5
		others := lines[Problem{p.File, 0, p.Key, p.Text}][1:]
		switch n := len(others); {
		case n > shown:
			p.Text += fmt.Sprintf(" (also on lines %s, and %d more)", list(others[:shown]), n-shown)
		case n > 0:
			p.Text += fmt.Sprintf(" (also on lines %s)", list(others))
		}
	}
	return groups
}

func list(numbers []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ", ")
}

func byLine(a, b *Problem) int { return cmp.Compare(a.Line, b.Line) }

// err joins the errors, by line.
func (r *report) err() error {
	slices.SortStableFunc(r.errors, byLine)
	all := make([]error, len(r.errors))
	for i, p := range r.errors {
		all[i] = p
	}
	if r.more > 0 {
		all = append(all, &Problem{r.file, 0, "", fmt.Sprintf("there are %d errors more", r.more)})
	}
	return errors.Join(all...)
}
