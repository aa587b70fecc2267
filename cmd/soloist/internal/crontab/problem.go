package crontab

import (
	"fmt"
	"strings"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/strictyaml"
)

// A Problem is one thing that is wrong with a file, where, and what would be right.
type Problem = strictyaml.Problem

// report gathers problems of a file.
type report struct{ *strictyaml.Report }

// grouped returns one problem for all that differ in their lines only: a crontab of hundreds of lines may have the same
// doubt about each.
func grouped(problems []*Problem) (groups []*Problem) {
	lines := map[Problem][]int{}
	for _, p := range problems {
		kind := Problem{File: p.File, Key: p.Key, Text: p.Text}
		if lines[kind] = append(lines[kind], p.Line); len(lines[kind]) == 1 {
			groups = append(groups, &Problem{File: p.File, Line: p.Line, Key: p.Key, Text: p.Text})
		}
	}
	for _, p := range groups {
		const shown = 5
		others := lines[Problem{File: p.File, Key: p.Key, Text: p.Text}][1:]
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
