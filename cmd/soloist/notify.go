package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/notify"
	"github.com/soloist-dev/soloist/store"
)

// notices are those that --notify asks for. Without it they do nothing.
type notices struct {
	path     string
	targets  []notify.Target
	notifier *notify.Notifier
	client   *soloist.Client // of beginOn
}

func (n *notices) flag(c *cobra.Command) {
	c.Flags().StringVar(&n.path, "notify", "", "tell people of jobs that fail or do not run: a YAML file of webhooks and commands (see docs/operate/notify.md)")
}

// read reads the file of targets.
func (n *notices) read() error {
	if n.path == "" {
		return nil
	}
	f, err := os.Open(n.path)
	if err != nil {
		return badConfig(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return badConfig(err)
	}
	if why := untrusted(info); why != "" {
		return badConfig(fmt.Errorf("--notify %s: %s, and soloist would run the commands that they write there: chown and chmod it", n.path, why))
	}
	if n.targets, err = notify.Read(n.path, f); err != nil {
		return badConfig(err)
	}
	return nil
}

// runsCommands reports whether a target is a command.
func (n *notices) runsCommands() bool {
	return slices.ContainsFunc(n.targets, func(t notify.Target) bool { return len(t.Command) > 0 })
}

// begin starts to send notices of the jobs of a client, which must be open until end.
func (n *notices) begin(a *app, client *soloist.Client, log *slog.Logger) error {
	if n.targets == nil {
		return nil
	}
	notifier, err := notify.New(n.targets, notify.Options{
		Client: client, Namespace: a.namespace, Logger: log, Environ: a.environ, Agent: "soloist/" + version(),
	})
	if err != nil {
		return badConfig(fmt.Errorf("--notify %s: %w", n.path, err))
	}
	n.notifier = notifier
	return nil
}

// beginOn is begin with a new client on a store, the first time that it is called.
func (n *notices) beginOn(a *app, s store.Store, log *slog.Logger) error {
	if n.targets == nil || n.notifier != nil {
		return nil
	}
	client, err := soloist.New(s, soloist.Config{Namespace: a.namespace, Replica: a.replicaName(), Logger: log})
	if err != nil {
		return err
	}
	n.client = client
	return n.begin(a, client, log)
}

// observe reports scheduled times that were missed.
func (n *notices) observe(ctx context.Context, e soloist.Event) {
	if n.notifier != nil {
		n.notifier.Observe(ctx, e)
	}
}

// end stops sending.
func (n *notices) end() {
	if n.notifier != nil {
		n.notifier.Close()
	}
	if n.client != nil {
		_ = n.client.Close() // what it could not release ends with its TTL
	}
}
