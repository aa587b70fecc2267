package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTableIsComplete shows that the table of docs/why/safety.md has one row for each patch, in the order of their numbers, and that a row
// names a test which its patch demands.
func TestTableIsComplete(t *testing.T) {
	files, err := filepath.Glob("*.patch")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	rows := documented(t, "../../docs/why/safety.md")
	place := map[string]int{}
	for i, row := range rows {
		if _, twice := place[row.defect]; twice {
			t.Errorf("docs/why/safety.md has two rows of %q", row.defect)
		}
		place[row.defect] = i
	}
	before := -1
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		defect, catcher, _ := divided(string(text))
		i, ok := place[defect]
		delete(place, defect)
		switch {
		case !ok:
			t.Errorf("docs/why/safety.md has no row of %s; go run ./test/mutants -markdown -only '^%s$' prints it", file, nameOf(file))
			continue
		case i < before:
			t.Errorf("docs/why/safety.md: the row of %s is above that of a patch with a lower number", file)
		case catcher != "" && !demanded(rows[i].caught, catcher):
			t.Errorf("docs/why/safety.md: the row of %s says %s; its patch demands %s", file, rows[i].caught, catcher)
		}
		before = i
	}
	for defect := range place {
		t.Errorf("docs/why/safety.md has a row of %q, and no patch begins with that", defect)
	}
}

// A row is a line of the table of mutants.
type row struct{ defect, caught string }

// documented returns the rows of the table of mutants in a page.
func documented(t *testing.T, page string) []row {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| defect | caught by | histories |\n|---|---|---|\n")
	if !found {
		t.Fatalf("%s has no table of mutants", page)
	}
	var rows []row
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if len(cells) != 3 {
			t.Fatalf("%s: %q has %d cells, want 3", page, line, len(cells))
		}
		rows = append(rows, row{cells[0], cells[1]})
	}
	return rows
}

// demanded reports whether a row names a test that a patch demands: a package and a regular expression.
func demanded(caught, catcher string) bool {
	_, tests, _ := strings.Cut(catcher, " ")
	for one := range strings.SplitSeq(tests, "|") {
		name, _, _ := strings.Cut(one, "/")
		if strings.Contains(caught, "`"+strings.Trim(name, "^$()")) {
			return true
		}
	}
	return false
}
