// Mutants shows that the proof can fail: it puts defects into copies of our own code, one at a time, and demands that each of them
// is caught. A defect is a patch of this directory, whose first line says what is wrong. It is applied with `go test -overlay`, so it
// is never in the tree, and cannot reach anything that is released.
//
// For each it runs the conformance suite of the memory store, then the simulation with as many histories as `make test` runs, and,
// if neither has caught it, the unit tests. The second line of a patch may name the tests that must catch it, those of a real store for
// instance, after "Caught by: ": a package and a regular expression. They alone are run then. It ends with 1 when a defect survives or a
// patch does not apply any more.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	runs := flag.Int("runs", 20_000, "how many histories the simulation runs at most for each")
	only := flag.String("only", "", "run those whose names match this regular expression")
	markdown := flag.Bool("markdown", false, "print the table as Markdown")
	flag.Parse()
	if err := run(context.Background(), *runs, *only, *markdown); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// A verdict is what became of one mutant.
type verdict struct {
	name, defect string
	caught       []string // by what; none if it survives
	histories    int      // of the simulation until it was caught; 0 if it was not caught by it
	took         time.Duration
}

func run(ctx context.Context, runs int, only string, markdown bool) error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(root, "test", "mutants", "*.patch"))
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no patches in test/mutants: %w", err)
	}
	temp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }() // a directory of its own below the temporary one
	var all []verdict
	var bad []string
	broken := 0 // do not apply, or nobody could say
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".patch")
		if !wanted.MatchString(name) {
			continue
		}
		begin := time.Now()
		v, err := (&mutant{root: root, temp: filepath.Join(temp, name), file: file, runs: runs}).try(ctx)
		v.name, v.took = name, time.Since(begin)
		if err != nil {
			bad, broken = append(bad, name), broken+1
			fmt.Printf("%-32s %v\n", name, err)
			continue
		}
		if len(v.caught) == 0 {
			bad = append(bad, name)
		}
		fmt.Printf("%-32s %5.1f s  %s\n", name, v.took.Seconds(), v)
		all = append(all, v)
	}
	if markdown {
		table(all)
	}
	tried := len(all) + broken
	caught := len(all) - survivors(all)
	fmt.Printf("caught %d of %d, %d %%\n", caught, tried, 100*caught/max(1, tried))
	if len(bad) > 0 {
		return fmt.Errorf("not caught, or not tried: %s", strings.Join(bad, ", "))
	}
	return nil
}

func (v verdict) String() string {
	if len(v.caught) == 0 {
		return "SURVIVES: " + v.defect
	}
	text := strings.Join(v.caught, "; ")
	if v.histories > 0 {
		text += fmt.Sprintf(" (after %d histories)", v.histories)
	}
	return text
}

func survivors(all []verdict) (n int) {
	for _, v := range all {
		if len(v.caught) == 0 {
			n++
		}
	}
	return n
}

// number is that with which the name of a patch begins.
func number(file string) int {
	text, _, _ := strings.Cut(filepath.Base(file), "-")
	n, _ := strconv.Atoi(text) // one without a number is the first
	return n
}

// table prints what docs/safety.md shows.
func table(all []verdict) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| defect | caught by | histories |\n|---|---|---|")
	for _, v := range all {
		histories := "–"
		if v.histories > 0 {
			histories = fmt.Sprint(v.histories)
		}
		fmt.Fprintf(w, "| %s | %s | %s |\n", v.defect, cmp.Or(strings.Join(v.caught, "; "), "nothing"), histories)
	}
	_ = w.Flush() // to standard output
}

// findRoot looks for the directory of the core module, upwards from the working directory.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "mutants", "main.go")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("run it within the project: test/mutants is not above the working directory")
		}
	}
	return "", err
}
