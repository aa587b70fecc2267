package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/demo"
)

func (a *app) demoCommand() *cobra.Command {
	var open bool
	c := &cobra.Command{
		Use:     "demo",
		Short:   "Show soloist at work: three processes, one killed, one paused, and an audit",
		GroupID: "see",
		Args:    a.noChild(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := untilInterrupted("demo")
			defer stop()
			err := demo.Run(ctx, demo.Config{Out: a.out, Progress: a.errs, Open: open, Color: a.color()})
			if errors.Is(err, demo.ErrAudit) {
				return &exit{1, err}
			}
			return err
		},
	}
	c.Flags().BoolVar(&open, "open", false, "serve the dashboard of this run on a free port of this machine until it ends, and print its address")
	return c
}

// demoReplicaCommand is what the demo's processes run.
func demoReplicaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "demo-replica", Hidden: true, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error { return demo.Replica(c.Context(), args) },
	}
}

// color reports whether colour would be seen and is not unwanted (no-color.org).
func (a *app) color() bool {
	out, ok := a.out.(*os.File)
	if !ok || a.env("NO_COLOR") != "" {
		return false
	}
	info, err := out.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
