// Changes makes small changes to the code of a package, one at a time, and lists those that no test of it notices: a condition that is always or never true,
// an operand of && or || that does not count, a comparison that is another one where both sides are equal, plus for minus, a statement that is left out, an error that
// is nil, a field of a struct that is left at its zero value, the first of two for the smaller of them.
//
//	go run ./test/changes ./cron               all changes of a package
//	go run ./test/changes -n 300 -files '^(lease|renewer)' .
//	go run ./test/changes ./store/move ./test/histories   the tests of another package count, too
//	go run ./test/changes -tests Fence ./fence/sqlfence ./store/mysqlstore
//
// Some changes make no difference that could be seen, so not all can be noticed. What is listed is to be read: each line is a test that lacks, code that is not
// needed, or neither.
//
// All changes are in one binary, with `go test -overlay`, and one is made by a variable of the environment. So the package is built once. Each test is run alone at
// first, to see which changes it reaches; then each change is tried with those that reach it, the quickest first, until one fails. Tests are run with -short, and those that fail without a
// change are left out. Where unshare of util-linux can do so, they see no process but their own, for a change of code that ends a process can make it end all. A change that makes a test hang, or take much longer, is noticed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
)

func main() {
	var o options
	flag.IntVar(&o.sample, "n", 0, "how many changes to try, drawn at random; 0 is all")
	flag.Uint64Var(&o.seed, "seed", 1, "of what is drawn")
	flag.StringVar(&o.files, "files", "", "only files whose paths from here match this regular expression")
	flag.StringVar(&o.tests, "tests", "", "only the tests whose names match this regular expression")
	flag.IntVar(&o.atOnce, "at-once", runtime.GOMAXPROCS(0), "how many are tried at the same time")
	flag.Parse()
	o.packages = append(flag.Args(), ".")[:max(1, flag.NArg())]
	if err := run(context.Background(), o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "changes:", err)
		os.Exit(1)
	}
}

type options struct {
	packages       []string // the one to change, and others whose tests count, too
	files, tests   string
	sample, atOnce int
	seed           uint64
}

func run(ctx context.Context, o options, out io.Writer) error {
	wanted, err := regexp.Compile(o.files)
	if err != nil {
		return fmt.Errorf("-files: %w", err)
	}
	if _, err := regexp.Compile(o.tests); err != nil {
		return fmt.Errorf("-tests: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "changes-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	p, err := prepare(ctx, o.packages[0], root, temp)
	if err != nil {
		return err
	}
	var suites []*suite
	for i, pattern := range o.packages {
		s, err := build(ctx, pattern, p.overlay, filepath.Join(temp, strconv.Itoa(i)))
		if err != nil {
			return err
		}
		if err := s.reach(ctx, o.tests, o.atOnce, out); err != nil {
			return err
		}
		suites = append(suites, s)
	}
	var numbers []int
	for i, site := range p.sites {
		if wanted.MatchString(site.at) {
			numbers = append(numbers, i+1)
		}
	}
	if o.sample > 0 && o.sample < len(numbers) {
		rng := rand.New(rand.NewPCG(o.seed, 0))
		rng.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
		numbers = numbers[:o.sample]
		slices.Sort(numbers)
	}
	fates := make([]fate, len(numbers))
	err = each(o.atOnce, len(numbers), func(i int) (err error) {
		fates[i], err = try(ctx, suites, numbers[i])
		return err
	})
	if err != nil {
		return err
	}
	counts := map[fate]int{}
	for i, f := range fates {
		if counts[f]++; f != noticed {
			fmt.Fprintf(out, "%v (%v)\n", p.sites[numbers[i]-1], f)
		}
	}
	if len(numbers) > 0 {
		fmt.Fprintf(out, "%d changes: %d noticed, %d %%; %d not noticed, %d not reached by a test\n",
			len(numbers), counts[noticed], 100*counts[noticed]/len(numbers), counts[unnoticed], counts[unreached])
	}
	return nil
}
