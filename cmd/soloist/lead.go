package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
)

func (a *app) leadCommand() *cobra.Command {
	g := &guarded{app: a, heldCode: exitHeld}
	pages := &probes{}
	c := &cobra.Command{
		Use:     "lead NAME [flags] -- COMMAND [ARG...]",
		Short:   "Run a command while being the leader",
		GroupID: "run",
		Long: `lead waits until it is elected leader of NAME, and runs a command while it leads. If the leadership is lost, the command
is stopped as with lock, and lead waits to be elected again, unless TERM or INT has told it to end: then it exits with 76.
When the command ends by itself, lead gives the leadership up and exits with the command's code, or with 76 if the
leadership was lost in that moment.`,
		Example: `  soloist lead importer -- ./import`,
		Args:    a.withChild(1),
		RunE:    func(_ *cobra.Command, args []string) error { return g.lead(args[0], pages) },
	}
	g.flags(c, "info")
	pages.flag(c)
	return c
}

func (g *guarded) lead(name string, pages *probes) error {
	opts, err := g.options()
	if err != nil {
		return err
	}
	if err := g.check(); err != nil {
		return err
	}
	g.adopt()
	g.signals = make(chan os.Signal, 16)
	signal.Notify(g.signals, child.Forwarded()...)
	log, err := g.logger(g.stderr(), "name")
	if err != nil {
		return err
	}
	if err := pages.begin(log); err != nil {
		return err
	}
	defer pages.end()
	c, closing, err := g.client(soloist.Config{TTL: opts.TTL, Logger: log, Observe: pages.observe(renewalTrouble(log))})
	if err != nil {
		return err
	}
	defer func() { _ = closing() }()
	pages.uses(c.Store())
	pages.running.Store(true)
	if g.passed, err = g.passOn(log); err != nil {
		return err
	}
	defer g.passed.remove()
	g.tellManager(log, managerReady)
	return g.stand(c.With(opts), name, log)
}

// stand runs the command in each term, until it is over.
func (g *guarded) stand(c *soloist.Client, name string, log *slog.Logger) error {
	for led := false; ; led = true {
		lease, err := g.taken(c, func(ctx context.Context, c *soloist.Client) (*soloist.Lease, error) {
			if led {
				return standAgain(ctx, c, name, log)
			}
			return c.Campaign(ctx, name)
		})
		if err != nil {
			return err
		}
		log.Info("elected", "name", name, "token", lease.Token())
		v := g.child(lease, nil)
		log.Info("no longer leader", "name", name, "token", lease.Token(), "code", v.result.Code, "took", v.result.Duration)
		if released := lease.Release(); v.over() {
			return g.exit(v, name, released)
		}
	}
}

// standAgain is the Campaign of one who has led. What has ended that term, such as a permission that is being changed,
// can refuse its first request, too; like that of [soloist.Client.Lead], it goes on then.
func standAgain(ctx context.Context, c *soloist.Client, name string, log *slog.Logger) (*soloist.Lease, error) {
	for {
		lease, err := c.Campaign(ctx, name)
		if err == nil || ctx.Err() != nil {
			return lease, err
		}
		log.Warn("no leadership: a request to the store has failed", "name", name, "err", err)
		select {
		case <-time.After(standAgainAfter):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// standAgainAfter is the pause after a first request that was refused.
const standAgainAfter = time.Second
