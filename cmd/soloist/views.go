package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
)

// A leaseRow is a taken name.
type leaseRow struct {
	Kind   string  `json:"kind,omitempty"`
	Name   string  `json:"name"`
	Holder string  `json:"holder"` // "" while it lingers after a release
	Token  int64   `json:"token"`
	Left   float64 `json:"left_seconds"`
	Age    float64 `json:"age_seconds"`
	info   soloist.LeaseInfo
}

func leaseRows(kind string, infos []soloist.LeaseInfo) []leaseRow {
	rows := make([]leaseRow, len(infos))
	for i, l := range infos {
		rows[i] = leaseRow{kind, l.Name, l.Holder, l.Token, l.Left.Seconds(), l.Age.Seconds(), l}
	}
	return rows
}

func (r leaseRow) holder() string {
	if r.Holder == "" {
		return "(lingers)"
	}
	return r.Holder
}

func (a *app) locksCommand() *cobra.Command {
	c := &cobra.Command{Use: "locks", Short: "See and release locks and leaderships", GroupID: "see", Args: a.noChild(cobra.NoArgs), RunE: needsSubcommand}
	list := &cobra.Command{
		Use: "list", Short: "List the locks and leaderships that are taken", Args: a.noChild(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			return a.look(func(ctx context.Context, c *soloist.Client) error {
				locks, err := c.Locks(ctx)
				if err != nil {
					return err
				}
				leaders, err := c.Leaders(ctx)
				if err != nil {
					return err
				}
				rows := append(leaseRows("lock", locks), leaseRows("leader", leaders)...)
				return write(a, "KIND|NAME|HOLDER|TOKEN|LEFT|AGE", rows, func(r leaseRow) []string {
					return []string{r.Kind, r.Name, r.holder(), strconv.FormatInt(r.Token, 10), span(r.info.Left), span(r.info.Age)}
				})
			})
		},
	}
	a.outputFlag(list)
	var token int64
	release := &cobra.Command{
		Use: "release NAME --token N", Short: "Take a lock away from its holder",
		Long: `release takes a lock away from whoever holds it with the token that locks list has shown. The holder is not asked, and
learns of it only when it renews its lease: another may have the lock before it stops.`,
		Args: a.noChild(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.look(func(ctx context.Context, c *soloist.Client) error { return c.ForceRelease(ctx, args[0], token) })
		},
	}
	release.Flags().Int64Var(&token, "token", 0, "the token that the lock is held with, as locks list shows it (required)")
	_ = release.MarkFlagRequired("token")
	c.AddCommand(list, release)
	return c
}

func needsSubcommand(c *cobra.Command, _ []string) error {
	return usage("give one of its subcommands; see %s --help", c.CommandPath())
}

func (a *app) semsCommand() *cobra.Command {
	c := &cobra.Command{Use: "sems", Short: "See semaphores", GroupID: "see", Args: a.noChild(cobra.NoArgs), RunE: needsSubcommand}
	type row struct {
		Name    string     `json:"name"`
		Permits []leaseRow `json:"permits"`
	}
	list := &cobra.Command{
		Use: "list", Short: "List the semaphores and who has their permits", Args: a.noChild(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			return a.look(func(ctx context.Context, c *soloist.Client) error {
				infos, err := c.Semaphores(ctx)
				if err != nil {
					return err
				}
				var rows []row
				var permits []leaseRow // a line each in the table
				for _, s := range infos {
					taken := leaseRows("", s.Permits)
					rows = append(rows, row{s.Name, taken})
					for _, p := range taken {
						p.Kind = s.Name
						permits = append(permits, p)
					}
				}
				if a.output != "table" {
					return write(a, "", rows, nil)
				}
				return table(a.out, "SEMAPHORE|PERMIT|HOLDER|TOKEN|LEFT|AGE", permits, func(p leaseRow) []string {
					return []string{p.Kind, p.Name, p.holder(), strconv.FormatInt(p.Token, 10), span(p.info.Left), span(p.info.Age)}
				})
			})
		},
	}
	a.outputFlag(list)
	c.AddCommand(list)
	return c
}

// An elementRow is an element of a job.
type elementRow struct {
	ID       string  `json:"id"`
	Status   string  `json:"status"`
	Holder   string  `json:"holder,omitempty"`
	Token    int64   `json:"token"`
	Left     float64 `json:"left_seconds"`
	Age      float64 `json:"age_seconds"`
	Attempts int     `json:"failed_attempts"`
	Error    string  `json:"error,omitempty"`
	info     soloist.ElementInfo
}

func (a *app) elementsCommand() *cobra.Command {
	c := &cobra.Command{Use: "elements", Short: "See elements and retry failed ones", GroupID: "see", Args: a.noChild(cobra.NoArgs), RunE: needsSubcommand}
	status := ""
	list := &cobra.Command{
		Use: "list [JOB]", Short: "List the elements of a job, or the jobs that have elements", Args: a.noChild(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			return a.look(func(ctx context.Context, c *soloist.Client) error {
				if len(args) == 0 {
					jobs, err := c.ElementJobs(ctx)
					if err != nil {
						return err
					}
					return write(a, "JOB", jobs, func(job string) []string { return []string{job} })
				}
				rows, err := elementRows(ctx, c, args[0], status)
				if err != nil {
					return err
				}
				return write(a, "ELEMENT|STATUS|HOLDER|TOKEN|LEFT|AGE|FAILED|ERROR", rows, func(r elementRow) []string {
					return []string{r.ID, r.Status, r.Holder, strconv.FormatInt(r.Token, 10), span(r.info.Left), span(r.info.Age), strconv.Itoa(r.Attempts), r.Error}
				})
			})
		},
	}
	list.Flags().StringVar(&status, "status", "", "only those that are processed, claimed, failed, waiting or abandoned")
	a.outputFlag(list)
	retry := &cobra.Command{
		Use: "retry JOB ELEMENT...", Short: "Let failed elements be processed again", Args: a.noChild(cobra.MinimumNArgs(2)),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.look(func(ctx context.Context, c *soloist.Client) error {
				for _, id := range args[1:] {
					if err := c.Elements(args[0]).RetryFailed(ctx, id); err != nil {
						return fmt.Errorf("element %q of %q: %w", id, args[0], err)
					}
				}
				return nil
			})
		},
	}
	c.AddCommand(list, retry)
	return c
}

func elementRows(ctx context.Context, c *soloist.Client, job, status string) ([]elementRow, error) {
	switch status {
	case "", "processed", "claimed", "failed", "waiting", "abandoned":
	default:
		return nil, usage("--status %q: give processed, claimed, failed, waiting or abandoned", status)
	}
	var rows []elementRow
	for e, err := range c.Elements(job).List(ctx) {
		if err != nil {
			return nil, err
		}
		if status == "" || e.Status == status {
			rows = append(rows, elementRow{e.ID, e.Status, e.Holder, e.Token, e.Left.Seconds(), e.Age.Seconds(), e.Attempts, e.Error, e})
		}
	}
	return rows, nil
}
