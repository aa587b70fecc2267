package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/verify"
)

// What verify ends with beside the exit codes that all share.
const (
	exitViolated = 1
	exitVoid     = 2
)

func (a *app) verifyCommand() *cobra.Command {
	c := verify.Config{Open: a.openStore, Progress: nil}
	var faults, report, history string
	cmd := &cobra.Command{
		Use: "verify", Short: "Check that the store keeps what soloist promises", GroupID: "see", Args: a.noChild(cobra.NoArgs),
		Long: `verify starts processes that work on the store under their own namespace. They hold locks, permits and leaderships, run a
job, and process elements, while some of them are killed or paused, and some requests and replies are lost, repeated or
delayed. Each process records its requests, the replies, and what it believed. At the end the histories of all processes
are checked together: at most one process believed to hold a lock at a time, tokens grew, each element and each scheduled
time was done once, and all replies are possible in one order.

A run ends when --for has passed and a minimum of each kind of work and of each fault has been reached, however slow the
machine is. If the store takes longer than a tenth of the TTL to reply, verify begins again with a longer TTL. Two clients
that are unsafe on purpose take part. The run is void if they are not caught, if the minimum is not reached --within that
time, or if more than half of the operations failed. A replica that crashes is a violation. Where too many
requests for a name had no reply, not all orders can be tried; the conclusion says for how many names.

The exit code is 0 if everything held, 1 if something did not, and 2 if the run is void. verify removes its records, also
when a signal ends it; a second signal ends it at once.`,
		RunE: func(_ *cobra.Command, _ []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			var err error
			if c.Faults, err = verify.ParseFaults(faults); err != nil {
				return usage("--faults: %v", err)
			}
			switch {
			case c.For < time.Second || c.TTL < 100*time.Millisecond || c.TTL > time.Hour:
				return usage("--for %v --ttl %v: give at least 1s, and a TTL between 100ms and 1h", c.For, c.TTL)
			case c.Replicas < 2 || c.Replicas > 100:
				return usage("--replicas %d: give 2 to 100", c.Replicas)
			}
			if c.Within == 0 {
				c.Within = longestRun(c.For)
			}
			if c.Within < c.For {
				return usage("--within %v: give at least --for, which is %v", c.Within, c.For)
			}
			return a.verify(c, report, history)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&c.For, "for", 30*time.Second, "how long the replicas work, at least")
	flags.DurationVar(&c.Within, "within", 0, "end a run that has not reached its minimum after this time, as void (default ten times --for, and 10m)")
	flags.DurationVar(&c.TTL, "ttl", time.Second, "the TTL of their leases, which grows if the store takes more than a tenth of it to answer")
	flags.IntVar(&c.Replicas, "replicas", 4, "how many processes work at a time")
	flags.StringVar(&faults, "faults", "all", "all, none, or some of "+strings.Join(verify.FaultNames, ","))
	flags.Uint64Var(&c.Seed, "seed", 0, "inject the same faults as a run that showed this seed (default: a new one)")
	flags.StringVar(&report, "report", "", "write the report with a timeline to this HTML file")
	flags.StringVar(&history, "history", "", "write the whole history to this file, a line of JSON for each event")
	a.outputFlag(cmd)
	return cmd
}

// longestRun is --within where it is not given.
func longestRun(least time.Duration) time.Duration { return 10*least + 10*time.Minute }

// verifyReplicaCommand is what the processes of a verification run.
func (a *app) verifyReplicaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify-replica", Hidden: true, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, _ []string) error { return verify.Replica(c.Context(), a.openStore, a.in, a.out) },
	}
}

func (a *app) verify(c verify.Config, report, history string) error {
	src, err := a.source()
	if err != nil {
		return err
	}
	if c.Executable, err = os.Executable(); err != nil {
		return fmt.Errorf("looking for this program: %w", err)
	}
	c.Args = []string{"verify-replica"}
	c.Env = append(a.environWithout("SOLOIST_STORE", "SOLOIST_STORE_FILE", "SOLOIST_NAMESPACE"), "SOLOIST_STORE="+src.text)
	c.Namespace = "verify-" + strings.ToLower(rand.Text()[:10])
	if c.Seed == 0 {
		var seed [4]byte
		_, _ = rand.Read(seed[:]) // it never fails
		c.Seed = uint64(binary.BigEndian.Uint32(seed[:]))
	}
	page, err := created("--report", report)
	if err != nil {
		return err
	}
	defer page.Close()
	lines, err := created("--history", history)
	if err != nil {
		return err
	}
	defer lines.Close()
	done := a.progress(c.For)
	done.told = -lineEvery // the first line tells that the replicas are at work
	c.Progress = func(at time.Duration, t verify.Tally) {
		done.show(at, fmt.Sprintf("%d operations, %d grants, %d faults", t.Operations, t.Grants, t.Faults))
	}
	ctx, stop := untilInterrupted("verification")
	defer stop()
	r, err := verify.Run(ctx, c)
	done.end()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = errors.Join(cause, err)
		}
		return err
	}
	return a.conclude(r, page, lines)
}

// created makes a file before a long run: nobody wants to learn of a wrong path after it. What was in it stays until there is something to write. It
// returns nil for no path.
func created(flag, path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666) //nolint:gosec // as the umask says
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, &exit{exitDenied, fmt.Errorf("%s: %w", flag, err)}
	case err != nil:
		return nil, usage("%s: %v", flag, err)
	}
	return f, nil
}

// written writes to a file, if there is one, and closes it.
func written(f *os.File, write func(io.Writer) error) error {
	if f == nil {
		return nil
	}
	if err := errors.Join(emptied(f), write(f), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", f.Name(), err)
	}
	return nil
}

// emptied empties a file; a pipe or a device stays as it is.
func emptied(f *os.File) error {
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return f.Truncate(0)
}

// conclude reports the verdict and writes the files. What cannot be written changes no code of a verdict that is not good.
func (a *app) conclude(r *verify.Report, page, lines *os.File) error {
	err := errors.Join(a.tellVerdict(r), written(page, r.HTML), written(lines, r.History))
	switch r.Verdict {
	case verify.Violated:
		return &exit{exitViolated, err}
	case verify.Void:
		return &exit{exitVoid, err}
	}
	return err
}

func (a *app) tellVerdict(r *verify.Report) error {
	if a.output == "table" {
		return a.print(r.Text())
	}
	return a.encode(r)
}
