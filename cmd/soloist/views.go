package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
)

// A leaseRow is a taken name.
type leaseRow struct {
	Kind   string  `json:"kind,omitempty"`
	Name   string  `json:"name"`
	Permit *int    `json:"permit,omitempty"` // of a semaphore, from 0
	Holder string  `json:"holder"`           // "" while it lingers after a release
	Token  int64   `json:"token"`
	Left   float64 `json:"left_seconds"`
	Age    float64 `json:"age_seconds"`
	info   soloist.LeaseInfo
}

func newLeaseRow(l soloist.LeaseInfo) leaseRow {
	row := leaseRow{string(l.Kind), l.Name, nil, l.Holder, l.Token, l.Left.Seconds(), l.Age.Seconds(), l}
	if l.Kind == soloist.KindPermit {
		row.Permit = &l.Permit
	}
	return row
}

func (r leaseRow) holder() string {
	if r.Holder == "" {
		return "(lingers)"
	}
	return r.Holder
}

func (a *app) locksCommand() *cobra.Command {
	return a.leasesCommand("locks", "lock", soloist.KindLock, (*soloist.Admin).Locks)
}

func (a *app) leadersCommand() *cobra.Command {
	return a.leasesCommand("leaders", "leadership", soloist.KindLeader, (*soloist.Admin).Leaders)
}

// leasesCommand lists and releases the leases of a kind.
func (a *app) leasesCommand(use, one string, kind soloist.Kind, infos func(*soloist.Admin, context.Context) iter.Seq2[soloist.LeaseInfo, error]) *cobra.Command {
	c := &cobra.Command{Use: use, Short: "See and release " + one + "s", GroupID: "see", Args: a.noChild(cobra.NoArgs), RunE: needsSubcommand}
	show := &cobra.Command{
		Use: "list", Short: "List the " + one + "s that are taken", Args: a.noChild(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			return a.look(func(ctx context.Context, c *soloist.Client) error {
				return list(a, "NAME|HOLDER|TOKEN|LEFT|AGE", infos(c.Admin(), ctx), newLeaseRow, func(r leaseRow) []string {
					return []string{r.Name, r.holder(), strconv.FormatInt(r.Token, 10), span(r.info.Left), span(r.info.Age)}
				})
			})
		},
	}
	a.outputFlag(show)
	c.AddCommand(show, a.releaseCommand("a "+one, "NAME", named(kind)))
	return c
}

func needsSubcommand(c *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return usage("give one of its subcommands, %s; see %s --help", strings.Join(names, ", "), c.CommandPath())
}

func (a *app) semsCommand() *cobra.Command {
	c := &cobra.Command{Use: "sems", Short: "See semaphores and release permits", GroupID: "see", Args: a.noChild(cobra.NoArgs), RunE: needsSubcommand}
	show := &cobra.Command{
		Use: "list", Short: "List the semaphores and who has their permits", Args: a.noChild(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			return a.look(func(ctx context.Context, c *soloist.Client) error { return a.listSems(c.Admin().Semaphores(ctx)) })
		},
	}
	a.outputFlag(show)
	c.AddCommand(show, a.releaseCommand("a permit", "NAME", permitOf))
	return c
}

// A semRow is a semaphore.
type semRow struct {
	Name    string     `json:"name"`
	Limit   int        `json:"limit,omitempty"`
	Permits []leaseRow `json:"permits"`
}

func newSemRow(s soloist.SemaphoreInfo) semRow {
	row := semRow{s.Name, s.Limit, []leaseRow{}}
	for _, p := range s.Permits {
		row.Permits = append(row.Permits, newLeaseRow(p))
	}
	return row
}

// listSems writes semaphores; in the table each taken permit has a line.
func (a *app) listSems(infos iter.Seq2[soloist.SemaphoreInfo, error]) error {
	if a.output != "table" {
		return list(a, "", infos, newSemRow, nil)
	}
	var lines [][]string
	var unread error
	for s, err := range infos {
		if unread = err; err != nil {
			break
		}
		for _, p := range newSemRow(s).Permits {
			lines = append(lines, []string{s.Name, fmt.Sprintf("%d of %d", *p.Permit, s.Limit), p.holder(), strconv.FormatInt(p.Token, 10), span(p.info.Left), span(p.info.Age)})
		}
	}
	return errors.Join(unread, table(a.out, "SEMAPHORE|PERMIT|HOLDER|TOKEN|LEFT|AGE", lines, func(line []string) []string { return line }))
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
	show := &cobra.Command{
		Use: "list [JOB]", Short: "List the elements of a job, or the jobs that have elements", Args: a.noChild(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			switch status {
			case "", "processed", "claimed", "failed", "waiting", "abandoned":
			default:
				return usage("--status %q: give processed, claimed, failed, waiting or abandoned", status)
			}
			return a.look(func(ctx context.Context, c *soloist.Client) error {
				if len(args) == 0 {
					return list(a, "JOB", c.Admin().ElementJobs(ctx), func(job string) string { return job }, func(job string) []string { return []string{job} })
				}
				return a.listElements(c.Admin().Elements(ctx, args[0]), status)
			})
		},
	}
	show.Flags().StringVar(&status, "status", "", "only those that are processed, claimed, failed, waiting or abandoned")
	a.outputFlag(show)
	retry := &cobra.Command{
		Use: "retry JOB ELEMENT...", Short: "Let failed elements be processed again", Args: a.noChild(cobra.MinimumNArgs(2)),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.change("command", func(ctx context.Context, c *soloist.Client) error {
				for _, id := range args[1:] {
					if err := c.Admin().RetryElement(ctx, args[0], id); err != nil {
						return fmt.Errorf("element %q of %q: %w", id, args[0], err)
					}
				}
				return nil
			})
		},
	}
	c.AddCommand(show, retry, a.releaseCommand("an element", "JOB ELEMENT", elementOf))
	return c
}

func newElementRow(e soloist.ElementInfo) elementRow {
	return elementRow{e.ID, e.Status, e.Holder, e.Token, e.Left.Seconds(), e.Age.Seconds(), e.Attempts, e.Error, e}
}

// listElements writes the elements that have a status, or all of them.
func (a *app) listElements(infos iter.Seq2[soloist.ElementInfo, error], status string) error {
	those := func(yield func(soloist.ElementInfo, error) bool) {
		for e, err := range infos {
			if (err != nil || status == "" || e.Status == status) && !yield(e, err) {
				return
			}
		}
	}
	return list(a, "ELEMENT|STATUS|HOLDER|TOKEN|LEFT|AGE|FAILED|ERROR", those, newElementRow, func(r elementRow) []string {
		return []string{r.ID, r.Status, r.Holder, strconv.FormatInt(r.Token, 10), span(r.info.Left), span(r.info.Age), strconv.Itoa(r.Attempts), r.Error}
	})
}
