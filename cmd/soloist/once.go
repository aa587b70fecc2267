package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
)

func (a *app) onceCommand() *cobra.Command {
	g := &guarded{app: a, heldCode: exitHeld}
	var retain time.Duration
	c := &cobra.Command{
		Use:     "once JOB ELEMENT [flags] -- COMMAND [ARG...]",
		Short:   "Run a command once for an element, ever",
		GroupID: "run",
		Long: `once runs a command for an element of a job, and records the element as processed when the command exits with 0. If the
element is processed already, the command is not run and the exit code is 0. If another process has it, the exit code is
75. In a store without a clock, an element that should be free may first be watched for as long as its last lease or
back-off was. Any other exit code of the command is recorded as a failed attempt and passed on.

The command gets SOLOIST_NAME (the element), SOLOIST_TOKEN, SOLOIST_HOLDER and SOLOIST_ATTEMPT.`,
		Example: `  soloist once invoices 4711 -- ./issue 4711`,
		Args:    a.withChild(2),
		RunE: func(_ *cobra.Command, args []string) error {
			var element *soloist.Element
			err := g.run(func(ctx context.Context, c *soloist.Client) (*soloist.Lease, error) {
				elements := c.Elements(args[0], soloist.ElementsOptions{Retain: retain, Retry: g.retry})
				var err error
				if element, err = elements.Claim(ctx, args[1]); err != nil {
					return nil, err
				}
				return element.Lease, nil
			}, func(lease *soloist.Lease) error {
				v := g.child(lease, map[string]string{"SOLOIST_ATTEMPT": strconv.Itoa(element.Attempt())})
				return g.processed(v, element)
			})
			if errors.Is(err, soloist.ErrDone) {
				return nil
			}
			return err
		},
	}
	g.flags(c, "warn")
	flags := c.Flags()
	flags.IntVarP(&g.heldCode, "conflict-exit-code", "E", exitHeld, "exit code if another process has the element")
	flags.DurationVar(&retain, "retain", 0, "how long to remember that the element is processed (default forever)")
	flags.IntVar(&g.retry.Attempts, "attempts", 0, "after how many failed or crashed attempts to give up, with exit code 70 (default never)")
	flags.DurationVar(&g.retry.Backoff, "backoff", 0, "how long nobody can claim the element after a failed attempt; doubles with each attempt")
	return c
}

// processed records how the command went.
func (g *guarded) processed(v verdict, element *soloist.Element) error {
	switch {
	case v.result.Ran && !v.result.Stopped && v.result.Code == 0:
		if v.err != nil { // nothing of the command's: it has done its work
			g.say("%v", v.err)
		}
		// Also if the lease was lost in the moment after: the store knows whether somebody else has the element.
		if err := element.Done(); err != nil {
			code := exitUnavailable
			if errors.Is(err, soloist.ErrLost) {
				code = exitLost
			}
			return &exit{code, fmt.Errorf("the command has run, but it is not sure to be recorded: %w", err)}
		}
		return &exit{code: 0}
	case errors.Is(v.lost, soloist.ErrOverran) && v.result.Stopped: // the next attempt may take as long
		return g.fail(v, element, fmt.Errorf("stopped: it ran for longer than --at-most %v", g.atMost))
	case v.lost != nil && (!v.result.Ran || v.result.Stopped), v.interrupted():
		return g.exit(v, element.ID(), element.Release())
	}
	reason := fmt.Errorf("exit status %d", v.result.Code)
	if v.err != nil {
		reason = v.err
	}
	return g.fail(v, element, reason)
}

// fail records a failed attempt.
func (g *guarded) fail(v verdict, element *soloist.Element, reason error) error {
	g.pause = pauseAfter(element.Attempt(), g.retry)
	g.failed = g.retry.Attempts > 0 && element.Attempt() >= g.retry.Attempts
	return g.exit(v, element.ID(), element.Fail(reason))
}

// interrupted reports whether a signal that was passed on to the command ended it, so that the attempt says nothing of the
// element. Some programs answer one with the exit code that a shell would give, such as a JVM.
func (v verdict) interrupted() bool {
	return slices.ContainsFunc(v.result.Passed, func(sig os.Signal) bool {
		n, ends := ending(sig)
		return v.result.Signal == sig || ends && v.result.Code == 128+int(n)
	})
}
