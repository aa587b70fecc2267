package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
)

func (a *app) lockCommand() *cobra.Command {
	g := &guarded{app: a}
	c := &cobra.Command{
		Use:     "lock NAME [flags] -- COMMAND [ARG...]",
		Short:   "Run a command while holding a lock",
		GroupID: "run",
		Long: `lock runs a command while it holds the lock NAME. If another process holds the lock, the command is not run and the exit
code is 75, immediately or after --wait. In a store without a clock, a lock that should be free may first be watched for as
long as its last lease was; --nonblock does not wait for that either.

The command gets SOLOIST_NAME, SOLOIST_TOKEN (the fencing token) and SOLOIST_HOLDER. If the lease is lost, the command
gets TERM, and KILL after --grace, before another process can have the lock; the exit code is then 76.`,
		Example: `  soloist lock close-month -- ./close.sh
  soloist lock close-month --wait 30s -- ./close.sh`,
		Args: a.withChild(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return g.run(func(ctx context.Context, c *soloist.Client) (*soloist.Lease, error) {
				if g.wait == 0 {
					return c.TryLock(ctx, args[0])
				}
				return c.Lock(ctx, args[0])
			}, func(lease *soloist.Lease) error {
				v := g.child(lease, nil)
				return g.exit(v, args[0], lease.Release())
			})
		},
	}
	g.flags(c, "warn")
	g.waitFlags(c)
	c.Flags().BoolVarP(&g.noWait, "nonblock", "n", false, "do not wait, as with flock -n; not together with --wait")
	c.Flags().DurationVar(&g.atLeast, "at-least", 0, "how long the name stays unavailable, even if the command ends before")
	return c
}

func (a *app) semCommand() *cobra.Command {
	g := &guarded{app: a}
	limit := 0
	c := &cobra.Command{
		Use:     "sem NAME --limit N [flags] -- COMMAND [ARG...]",
		Short:   "Run a command while holding one of N permits",
		GroupID: "run",
		Long: `sem runs a command while it holds one of the N permits of the semaphore NAME. If all permits are held, the command is not
run and the exit code is 75, immediately or after --wait. Otherwise sem works like lock.`,
		Example: `  soloist sem pdf --limit 3 --wait forever -- render a.html`,
		Args:    a.withChild(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return g.run(func(ctx context.Context, c *soloist.Client) (*soloist.Lease, error) {
				if g.wait == 0 {
					return c.Semaphore(args[0], limit).TryAcquire(ctx)
				}
				return c.Semaphore(args[0], limit).Acquire(ctx)
			}, func(lease *soloist.Lease) error {
				v := g.child(lease, nil)
				return g.exit(v, args[0], lease.Release())
			})
		},
	}
	g.flags(c, "warn")
	g.waitFlags(c)
	c.Flags().IntVarP(&limit, "limit", "n", 0, "how many permits there are, 1 to 1000 (required)")
	_ = c.MarkFlagRequired("limit")
	return c
}
