package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist/internal/load"
	"github.com/soloist-dev/soloist/internal/records"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// benchSlack is how much longer than asked a case may take, and the removal of what was made: on a slow machine that is
// minutes. It is a last resort, for a store that has ceased to answer.
const benchSlack = 30 * time.Minute

func (a *app) benchCommand() *cobra.Command {
	cfg := load.Config{For: 3 * time.Second}
	letters, clients := "all", 64
	var about strings.Builder
	for _, c := range load.Cases {
		fmt.Fprintf(&about, "\n  %s  %s", c.Letter, c.What)
	}
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure what the store costs and how fast it is", GroupID: "see", Args: a.noChild(cobra.NoArgs),
		Long: `bench puts load on the store with soloist's own client, under its own namespace, and shows how long operations take, how
many requests they make, and what they cost this machine. It removes its records, also when a signal ends it; a second
signal ends it at once.

The cases:` + about.String(),
		RunE: func(_ *cobra.Command, _ []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			cases, err := parseCases(letters)
			if err != nil {
				return err
			}
			if err := checkBench(cfg, clients); err != nil {
				return err
			}
			cfg.Size.Goroutines, cfg.Size.Waiters = clients, min(clients, 16)
			return a.bench(cfg, cases)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&letters, "case", letters, "all, or some of the cases' letters: A,B")
	flags.DurationVar(&cfg.For, "for", cfg.For, "how long each case is measured, about")
	flags.IntVar(&clients, "clients", clients, "how many goroutines B and D have; C has at most 16, and as many processes")
	flags.IntVar(&cfg.Size.Leases, "leases", 10_000, "how many leases E keeps")
	flags.IntVar(&cfg.Size.Replicas, "replicas", 10, "how many replicas H has")
	flags.IntVar(&cfg.Size.Jobs, "jobs", 100, "how many jobs each replica of H has")
	a.outputFlag(cmd)
	return cmd
}

func checkBench(cfg load.Config, clients int) error {
	if cfg.For < 100*time.Millisecond || cfg.For > time.Hour {
		return usage("--for %v: give 100ms to 1h", cfg.For)
	}
	for _, n := range []struct {
		flag      string
		got, most int
	}{{"clients", clients, 10_000}, {"leases", cfg.Size.Leases, 1_000_000}, {"replicas", cfg.Size.Replicas, 1000}, {"jobs", cfg.Size.Jobs, 100_000}} {
		if n.got < 1 || n.got > n.most {
			return usage("--%s %d: give 1 to %d", n.flag, n.got, n.most)
		}
	}
	return nil
}

func parseCases(letters string) ([]load.Case, error) {
	if letters == "all" {
		return load.Cases, nil
	}
	wanted := map[string]bool{}
	for letter := range strings.SplitSeq(letters, ",") {
		wanted[strings.ToUpper(strings.TrimSpace(letter))] = true
	}
	var cases []load.Case
	var known []string
	for _, c := range load.Cases {
		known = append(known, c.Letter)
		if wanted[c.Letter] {
			cases = append(cases, c)
			delete(wanted, c.Letter)
		}
	}
	for letter := range wanted {
		return nil, usage("--case: there is no case %q; give all, or some of %s", letter, strings.Join(known, ","))
	}
	return cases, nil
}

func (a *app) bench(cfg load.Config, cases []load.Case) error {
	s, err := a.openStore()
	if err != nil {
		return err
	}
	defer s.Close()
	cfg.Namespace = "bench-" + strings.ToLower(rand.Text()[:10])
	cfg.Open = func(context.Context) (store.Store, error) { return a.openStore() }
	if m, ok := s.(*memstore.Store); ok {
		cfg.Open = func(context.Context) (store.Store, error) { return m.Share(), nil }
	} else if cfg.Processes, err = a.benchWaiters(); err != nil {
		return err
	}
	ctx, stop := untilInterrupted("benchmark")
	defer stop()
	results, err := a.benchCases(ctx, cfg, cases)
	if err := benchEnd(ctx, err, a.benchClean(s, cfg.Namespace)); err != nil {
		return err
	}
	return write(a, "CASE|WHAT|OPERATION|P50|P90|P99|MAX|PER SECOND|REQUESTS|CPU|ALLOCS|ALSO", results, benchCells)
}

// benchEnd returns why there are no results: what ended the cases, and what could not be removed.
func benchEnd(ctx context.Context, err, cleaned error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx) // and not what that has led to
	}
	return errors.Join(err, cleaned)
}

func (a *app) benchCases(ctx context.Context, cfg load.Config, cases []load.Case) ([]load.Result, error) {
	whole := time.Duration(len(cases)) * cfg.For
	told := a.progress(whole)
	defer told.end()
	var results []load.Result
	for i, c := range cases {
		cfg.Progress = func(done float64, what string) {
			told.show(time.Duration((float64(i)+done)*float64(cfg.For)), c.Letter+": "+what)
		}
		within, cancel := context.WithTimeout(ctx, 4*cfg.For+benchSlack)
		found, err := c.Do(within, cfg)
		cancel()
		if err != nil {
			return results, err
		}
		results = append(results, found...)
	}
	return results, nil
}

// benchClean removes what was made. It has its own time: the benchmark may have been interrupted.
func (a *app) benchClean(s store.Store, namespace string) error {
	ctx, cancel := context.WithTimeout(context.Background(), benchSlack)
	defer cancel()
	left, err := load.Clean(ctx, s, namespace)
	if err != nil {
		return fmt.Errorf("%w; %d records are left under %q", err, left, records.In(namespace))
	}
	return nil
}

// benchWaiters returns what starts the processes that wait in case C.
func (a *app) benchWaiters() (load.Command, error) {
	src, err := a.source()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("looking for this program: %w", err)
	}
	env := append(a.environWithout("SOLOIST_STORE", "SOLOIST_STORE_FILE", "SOLOIST_NAMESPACE"), "SOLOIST_STORE="+src.text)
	return func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, self, "bench-waiter")
		cmd.Env, cmd.Stderr = env, a.errs
		return cmd
	}, nil
}

// benchWaiterCommand is what the processes that wait run.
func (a *app) benchWaiterCommand() *cobra.Command {
	return &cobra.Command{
		Use: "bench-waiter", Hidden: true, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, _ []string) error {
			// An interrupt of the terminal reaches all; the one that started this process ends it.
			signal.Ignore(os.Interrupt)
			return load.Waiter(c.Context(), func(context.Context) (store.Store, error) { return a.openStore() }, a.in, a.out)
		},
	}
}

func benchCells(r load.Result) []string {
	latency := func(us float64) string {
		if r.P50 == 0 {
			return ""
		}
		return micros(us)
	}
	var also []string
	for _, m := range r.More {
		also = append(also, strings.TrimSpace(m.Name+" "+short(m.Value)+" "+m.Unit))
	}
	return []string{
		r.Case, r.What, r.Unit, latency(r.P50), latency(r.P90), latency(r.P99), latency(r.Max), short(r.Rate),
		short(r.Requests), micros(r.CPU), short(r.Allocs), strings.Join(also, "; "),
	}
}

func micros(us float64) string {
	d := time.Duration(us * float64(time.Microsecond))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(10 * time.Nanosecond).String()
}

// short is a figure with three digits that count.
func short(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
