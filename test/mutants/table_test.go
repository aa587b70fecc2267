package main

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var updateTable = flag.Bool("update", false, "write the table of docs/why/mutants.md anew, with the missing rows of patches that name the tests which must catch them, in order")

const (
	tablePage = "../../docs/why/mutants.md"
	tableHead = "| defect | caught by | histories |\n|---|---|---|\n"
)

// TestTableIsComplete shows that the table of docs/why/mutants.md has one row for each patch, in the order of their numbers, and that a row
// names a test which its patch demands.
func TestTableIsComplete(t *testing.T) {
	files, err := filepath.Glob("*.patch")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	if *updateTable {
		writeRows(t, files)
	}
	rows := documented(t)
	place := map[string]int{}
	for i, row := range rows {
		if _, twice := place[row.defect]; twice {
			t.Errorf("docs/why/mutants.md has two rows of %q", row.defect)
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
			t.Errorf("docs/why/mutants.md has no row of %s: go test ./test/mutants -run TestTable -update writes it if the patch names its tests, "+
				"or else go run ./test/mutants -markdown -only '^%s$' prints it", file, nameOf(file))
			continue
		case i < before:
			t.Errorf("docs/why/mutants.md: the row of %s is above that of a patch with a lower number", file)
		case catcher != "" && !demanded(rows[i].caught, catcher):
			t.Errorf("docs/why/mutants.md: the row of %s says %s; its patch demands %s", file, rows[i].caught, catcher)
		}
		before = i
	}
	for defect := range place {
		t.Errorf("docs/why/mutants.md has a row of %q, and no patch begins with that", defect)
	}
}

// A row is a line of the table of mutants.
type row struct{ defect, caught string }

// pageOfTable returns what is before the rows of the table of mutants, and the rest of the page.
func pageOfTable(t *testing.T) (before, rest string) {
	t.Helper()
	text, err := os.ReadFile(tablePage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), tableHead)
	if !found {
		t.Fatalf("%s has no table of mutants", tablePage)
	}
	return before + tableHead, rest
}

// documented returns the rows of the table of mutants.
func documented(t *testing.T) []row {
	t.Helper()
	_, table := pageOfTable(t)
	var rows []row
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if len(cells) != 3 {
			t.Fatalf("%s: %q has %d cells, want 3", tablePage, line, len(cells))
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
		if strings.Contains(caught, "`"+strings.Trim(name, "^$().*")) {
			return true
		}
	}
	return false
}

// writeRows writes the table anew: a row for each patch, in the order of their numbers. A row that is there stays as it is; one that is not is
// made if its patch names its tests.
func writeRows(t *testing.T, files []string) {
	t.Helper()
	page, rest := pageOfTable(t)
	there := map[string]string{}
	for strings.HasPrefix(rest, "| ") {
		line, after, _ := strings.Cut(rest, "\n")
		defect, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		there[defect], rest = line, after
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		defect, catcher, _ := divided(string(text))
		line, ok := there[defect]
		if !ok && catcher != "" {
			line, ok = "| "+defect+" | "+testsOf(catcher)+" | – |", true
		}
		if ok {
			page += line + "\n"
		}
	}
	if err := os.WriteFile(tablePage, []byte(page+rest), 0o600); err != nil {
		t.Fatal(err)
	}
}

// testsOf returns the tests that a patch demands, as a row shows them.
func testsOf(catcher string) string {
	pkg, tests, _ := strings.Cut(catcher, " ")
	var names []string
	for one := range strings.SplitSeq(strings.NewReplacer("^", "", "$", "", "(", "", ")", "").Replace(tests), "|") {
		names = append(names, "`"+one+"`")
	}
	text := strings.Join(names, ", ")
	if pkg != "." {
		text += " of `" + strings.TrimPrefix(pkg, "./") + "`"
	}
	return text
}
