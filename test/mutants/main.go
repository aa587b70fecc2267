// Mutants shows that the proof can fail: it puts defects into copies of our own code, one at a time, and demands that each of them
// is caught. A defect is a patch of this directory, whose first line says what is wrong. It is applied with `go test -overlay`, so it
// is never in the tree, and cannot reach anything that is released.
//
// For each it runs the conformance suite of the memory store, then the simulation with as many histories as `make test` runs, and,
// if neither has caught it, the unit tests. The second line of a patch may name the tests that must catch it, those of a real store for
// instance, after "Caught by: ": a package and a regular expression. They alone are run then. It ends with 1 when a defect survives or a
// patch does not apply any more.
//
// With -ledger it keeps in a file what was caught, and a run that was broken off resumes where it was.
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
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	var o options
	flag.IntVar(&o.runs, "runs", 20_000, "how many histories the simulation runs at most for each")
	flag.StringVar(&o.only, "only", "", "run those whose names match this regular expression")
	flag.BoolVar(&o.markdown, "markdown", false, "print the table as Markdown")
	flag.IntVar(&o.atOnce, "at-once", 2, "how many are tried at the same time: many wait for servers more than they compute")
	flag.StringVar(&o.ledger, "ledger", "", "keep in this file what was caught, and do not try that again while code and patch are the same")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

type options struct {
	runs, atOnce int
	only, ledger string
	markdown     bool
}

// A verdict is what became of one mutant.
type verdict struct {
	name, defect string
	caught       []string // by what; none if it survives
	histories    int      // of the simulation until it was caught; 0 if it was not caught by it
	took         time.Duration
	err          error // it does not apply, or nobody could say
}

func run(ctx context.Context, o options) error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(root, "test", "mutants", "*.patch"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no patches in test/mutants: %w", err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return !wanted.MatchString(nameOf(file)) })
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	known, err := openLedger(root, o.ledger)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }() // its own directory below the temporary one
	verdicts := make([]verdict, len(files))
	var work sync.WaitGroup
	turn := make(chan struct{}, max(1, o.atOnce))
	for i, file := range files {
		turn <- struct{}{}
		work.Go(func() {
			defer func() { <-turn }()
			name := nameOf(file)
			m := &mutant{root: root, temp: filepath.Join(temp, name), file: file, runs: o.runs}
			verdicts[i] = m.judge(ctx, name, known)
			fmt.Printf("%-32s %5.1f s  %s\n", name, verdicts[i].took.Seconds(), verdicts[i])
		})
	}
	work.Wait()
	return tell(verdicts, o.markdown)
}

// judge tries a mutant, unless it is known by what it was caught.
func (m *mutant) judge(ctx context.Context, name string, known *ledger) verdict {
	begin := time.Now()
	v, err := m.tryOnce(ctx, name, known)
	v.name, v.took, v.err = name, time.Since(begin), err
	return v
}

func (m *mutant) tryOnce(ctx context.Context, name string, known *ledger) (verdict, error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return verdict{}, err
	}
	key := known.key(string(text), m.runs)
	if e, ok := known.find(key); ok {
		defect, _, _ := divided(string(text))
		return verdict{defect: defect, caught: e.Caught, histories: e.Histories}, nil
	}
	v, err := m.try(ctx, string(text))
	if err == nil && len(v.caught) > 0 {
		err = known.keep(entry{Key: key, Name: name, Caught: v.caught, Histories: v.histories})
	}
	return v, err
}

// tell prints how many were caught, and returns an error that names the others.
func tell(all []verdict, markdown bool) error {
	if markdown {
		table(slices.DeleteFunc(slices.Clone(all), func(v verdict) bool { return v.err != nil }))
	}
	var bad []string
	for _, v := range all {
		if v.err != nil || len(v.caught) == 0 {
			bad = append(bad, v.name)
		}
	}
	caught := len(all) - len(bad)
	fmt.Printf("caught %d of %d, %d %%\n", caught, len(all), 100*caught/max(1, len(all)))
	if len(bad) > 0 {
		return fmt.Errorf("not caught, or not tried: %s", strings.Join(bad, ", "))
	}
	return nil
}

func (v verdict) String() string {
	if v.err != nil {
		return v.err.Error()
	}
	if len(v.caught) == 0 {
		return "SURVIVES: " + v.defect
	}
	text := strings.Join(v.caught, "; ")
	if v.histories > 0 {
		text += fmt.Sprintf(" (after %d histories)", v.histories)
	}
	return text
}

func nameOf(file string) string { return strings.TrimSuffix(filepath.Base(file), ".patch") }

// number is that with which the name of a patch begins.
func number(file string) int {
	text, _, _ := strings.Cut(filepath.Base(file), "-")
	n, _ := strconv.Atoi(text) // one without a number is the first
	return n
}

// table prints what docs/why/mutants.md shows.
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
