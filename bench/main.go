package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

func main() {
	if isChild() {
		signal.Ignore(os.Interrupt) // of the terminal, which reaches all; the one that started this process ends it
		if err := runAsChild(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "bench, a child:", err)
			os.Exit(1)
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	cancel()
	servers.End()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	plan
	backends string
	dir      string
	data     string
	profile  string
	scale    bool
	smoke    bool
}

func parse(args []string) (options, error) {
	o := options{plan: plan{say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.backends, "backend", "redis,postgresql,mariadb,sqlite", "which `servers` to measure on, of "+backendNames())
	f.StringVar(&o.cases, "case", "ABCDEHMS", "which `cases`, by their letters")
	f.StringVar(&o.only, "contender", "", "only those whose `name` contains this, and the floor")
	f.IntVar(&o.rounds, "rounds", shortRounds, "how many rounds; C, E, H, M and S are measured in each only with more than 3")
	f.DurationVar(&o.For, "for", 250*time.Millisecond, "how long a contender is measured in a case and round")
	f.IntVar(&o.Goroutines, "goroutines", 64, "of B and D")
	f.IntVar(&o.Waiters, "waiters", 16, "processes of C")
	f.IntVar(&o.Leases, "leases", 10_000, "of E, for ours; others keep a tenth, and their commands are multiplied")
	f.IntVar(&o.Replicas, "replicas", 20, "of H")
	f.IntVar(&o.Jobs, "jobs", 100, "of each replica of H")
	f.IntVar(&o.StartJobs, "startjobs", 10_000, "of S")
	f.IntVar(&o.Elements, "elements", 20_000, "of each form of M, at most")
	f.BoolVar(&o.java, "java", true, "measure ShedLock, Redisson and Curator too, where there is a JDK and Maven")
	f.StringVar(&o.dir, "out", "bin/bench", "where bench.json and bench.html go")
	f.StringVar(&o.data, "data", "", "keep the servers' data in this `directory`; else on the disk of the directory for temporary files, so that commits wait for it, and in memory with -smoke and -scale")
	f.StringVar(&o.profile, "profile", "", "write a CPU profile to this `file`, and those of services to files whose names begin with it")
	f.BoolVar(&o.smoke, "smoke", false, "everything once, small: to see that it works")
	f.BoolVar(&o.scale, "scale", false, "how the cost of ours grows with replicas, jobs, leases and elements, instead")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.smoke {
		o.sizes = sizes{For: 30 * time.Millisecond, Goroutines: 8, Waiters: 3, Leases: 500, Replicas: 3, Jobs: 10, StartJobs: 100, Elements: 2000}
		o.rounds = 1
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q: only flags are known", f.Arg(0))
	case o.rounds < 1 || o.For <= 0 || min(o.Goroutines, o.Waiters, o.Leases, o.Replicas, o.Jobs, o.StartJobs, o.Elements) < 1:
		return o, errors.New("rounds, times and sizes must be at least 1")
	}
	for _, letter := range o.cases {
		if about[string(letter)] == "" {
			return o, fmt.Errorf("-case: there is no case %q", letter)
		}
	}
	return o, nil
}

// chosen returns the backends that -backend names.
func (o options) chosen() ([]backend, error) {
	var all []backend
	for name := range strings.SplitSeq(o.backends, ",") {
		n := len(all)
		for _, b := range backends() {
			if strings.EqualFold(b.name, strings.TrimSpace(name)) {
				all = append(all, b)
			}
		}
		if len(all) == n {
			return nil, fmt.Errorf("-backend: there is no %q; give some of %s", name, backendNames())
		}
	}
	return all, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	chosen, err := o.chosen()
	if err != nil {
		return err
	}
	if o.data == "" && !o.smoke && !o.scale {
		o.data = os.TempDir()
	}
	if o.data != "" {
		if err := os.Setenv("SOLOIST_TEST_DIR", o.data); err != nil { // for package servers, here and in children
			return err
		}
	}
	if o.profile != "" {
		file, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		if err := os.Setenv(childProfile, o.profile); err != nil { // for children that are services
			return err
		}
	}
	if o.scale {
		return o.scaled(ctx, chosen)
	}
	return o.compare(ctx, chosen)
}

func (o options) compare(ctx context.Context, chosen []backend) error {
	r := &report{Begun: time.Now(), Machine: machine(), Rounds: o.rounds}
	for _, b := range chosen {
		err := onServer(b, r, func(t *program) error {
			rows, version, skipped, err := o.runBackend(ctx, t, b)
			r.Rows = append(r.Rows, rows...)
			r.Versions = append(r.Versions, version)
			r.Skipped = append(r.Skipped, skipped...)
			return err
		})
		if err != nil {
			return err
		}
	}
	r.Versions = append(r.Versions, moduleVersions(chosen)...)
	r.Took = time.Since(r.Begun).Round(time.Second).String()
	r.Goals = goals(r.Rows)
	if err := tables(os.Stdout, r.Rows); err != nil {
		return err
	}
	if err := goalTable(os.Stdout, r.Goals); err != nil {
		return err
	}
	for _, why := range r.Skipped {
		fmt.Println("left out:", why)
	}
	if err := r.write(o.dir); err != nil {
		return err
	}
	fmt.Printf("\n%s; %d rounds in %s; %s/bench.json and bench.html have all figures\n", r.Machine, r.Rounds, r.Took, o.dir)
	return nil
}

// onServer calls do with servers that end with it. A backend that is not here is left out with a message.
func onServer(b backend, r *report, do func(*program) error) error {
	t := &program{}
	defer t.end()
	skipped, err := attempt(func() error { return do(t) })
	if skipped != "" {
		r.Skipped = append(r.Skipped, b.name+": "+skipped)
	}
	return err
}
