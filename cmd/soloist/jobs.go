package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cron"
)

// A jobRow is a job.
type jobRow struct {
	Name     string         `json:"name"`
	Schedule string         `json:"schedule"`
	InWords  string         `json:"schedule_in_words,omitempty"`
	Next     *time.Time     `json:"next,omitempty"`
	Done     *time.Time     `json:"done_up_to,omitempty"` // all scheduled times up to it are done
	Running  *leaseRow      `json:"running,omitempty"`
	Paused   *soloist.Pause `json:"paused,omitempty"`
	Manual   bool           `json:"manual_run_waiting"`

	Runs []soloist.RunRecord `json:"runs"`
}

func newJobRow(info soloist.JobInfo, now time.Time) jobRow {
	row := jobRow{Name: info.Name, Schedule: info.Schedule, Paused: info.Paused, Manual: info.Manual, Runs: info.Runs}
	if !info.Last.IsZero() {
		row.Done = &info.Last
	}
	if info.Running != nil {
		row.Running = &leaseRows("", []soloist.LeaseInfo{*info.Running})[0]
	}
	if next := nextTimes(info, now, 1); len(next) > 0 {
		row.Next = &next[0]
	}
	if e, err := expressionOf(info); err == nil {
		row.InWords = cron.Describe(e)
	}
	return row
}

// state is what a job is doing, in a word or two.
func (r jobRow) state() string {
	switch {
	case r.Running != nil && r.Running.Holder == "":
		return "lingers"
	case r.Running != nil:
		return "running on " + holderReplica(r.Running.Holder)
	case r.Paused != nil:
		return "paused: " + r.Paused.Reason
	case r.Manual:
		return "about to run by hand"
	}
	return "waiting"
}

func (r jobRow) last() (outcome, at string) {
	if len(r.Runs) == 0 {
		return "", ""
	}
	run := r.Runs[len(r.Runs)-1]
	return run.Outcome, instant(run.EndedAt)
}

// holderReplica is the replica in a holder.
func holderReplica(holder string) string {
	replica, _, _ := strings.Cut(holder, "#")
	return replica
}

// expressionOf is the cron expression of a job, with its H resolved.
func expressionOf(info soloist.JobInfo) (*cron.Expression, error) {
	e, err := cron.Parse(info.Schedule)
	if err != nil {
		return nil, err
	}
	return e.For(info.Name)
}

// nextTimes are the next n scheduled times of a job, as far as they can be told from outside.
func nextTimes(info soloist.JobInfo, now time.Time, n int) []time.Time {
	text := info.Schedule
	if d, ok := strings.CutPrefix(text, "@delay "); ok {
		pause, err := time.ParseDuration(d)
		if err != nil || len(info.Runs) == 0 || info.Running != nil {
			return nil
		}
		return []time.Time{info.Runs[len(info.Runs)-1].EndedAt.Add(pause)}
	}
	if at, ok := strings.CutPrefix(text, "@at "); ok {
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil || !t.After(now) {
			return nil
		}
		return []time.Time{t}
	}
	e, err := expressionOf(info)
	if err != nil {
		return nil // a schedule of the application's own
	}
	var times []time.Time
	for t := e.Next(now); !t.IsZero() && len(times) < n; t = e.Next(t) {
		times = append(times, t)
	}
	return times
}

func (a *app) jobsCommand() *cobra.Command {
	c := &cobra.Command{Use: "jobs", Short: "See, pause, resume and trigger jobs", GroupID: "see", Args: a.noChild(cobra.NoArgs), RunE: needsSubcommand}
	c.AddCommand(a.jobsList(), a.jobsShow(), a.jobsHistory(), a.jobsNext(),
		a.jobsAct("trigger NAME", "Run a job now, once, on one machine of the fleet", (*soloist.Client).TriggerJob),
		a.jobsPause(),
		a.jobsAct("resume NAME", "End a job's pause", (*soloist.Client).ResumeJob))
	return c
}

func (a *app) jobsList() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the jobs that the fleet runs", Args: a.noChild(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			return a.look(func(ctx context.Context, c *soloist.Client) error {
				infos, err := c.Jobs(ctx)
				if err != nil {
					return err
				}
				now := time.Now()
				rows := make([]jobRow, len(infos))
				for i, info := range infos {
					rows[i] = newJobRow(info, now)
				}
				return write(a, "NAME|SCHEDULE|STATE|LAST|ENDED|NEXT", rows, func(r jobRow) []string {
					outcome, ended := r.last()
					next := ""
					if r.Next != nil && r.Paused == nil {
						next = r.Next.Format(time.RFC3339)
					}
					return []string{r.Name, r.Schedule, r.state(), outcome, ended, next}
				})
			})
		},
	}
	a.outputFlag(c)
	return c
}

func (a *app) oneJob(name string, fn func(soloist.JobInfo) error) error {
	if err := a.checkOutput(); err != nil {
		return err
	}
	return a.look(func(ctx context.Context, c *soloist.Client) error {
		info, err := c.Job(ctx, name)
		if err != nil {
			return err
		}
		return fn(info)
	})
}

func (a *app) jobsShow() *cobra.Command {
	c := &cobra.Command{
		Use: "show NAME", Short: "Show a job", Args: a.noChild(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.oneJob(args[0], func(info soloist.JobInfo) error {
				row := newJobRow(info, time.Now())
				if a.output != "table" {
					return write(a, "", []jobRow{row}, nil)
				}
				return a.showJob(row)
			})
		},
	}
	a.outputFlag(c)
	return c
}

func (a *app) showJob(r jobRow) error {
	lines := [][]string{{"name", r.Name}, {"schedule", r.Schedule}, {"in words", r.InWords}, {"state", r.state()}}
	if r.Paused != nil {
		lines = append(lines, []string{"paused", fmt.Sprintf("%s by %s: %s", instant(r.Paused.At), r.Paused.By, r.Paused.Reason)})
	}
	if r.Done != nil {
		lines = append(lines, []string{"done up to", instant(*r.Done)})
	}
	if r.Next != nil {
		lines = append(lines, []string{"next", r.Next.Format(time.RFC3339)})
	}
	outcome, at := r.last()
	lines = append(lines, []string{"last run", strings.TrimSpace(outcome + " " + at)})
	return table(a.out, "FIELD|VALUE", lines, func(line []string) []string { return line })
}

func (a *app) jobsHistory() *cobra.Command {
	c := &cobra.Command{
		Use: "history NAME", Short: "Show the last 20 runs of a job, the newest last", Args: a.noChild(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.oneJob(args[0], func(info soloist.JobInfo) error {
				return write(a, "SCHEDULED|STARTED|TOOK|REPLICA|ATTEMPT|TOKEN|OUTCOME|ERROR", info.Runs, func(r soloist.RunRecord) []string {
					scheduled := instant(r.ScheduledAt)
					if r.Manual {
						scheduled += " (by hand)"
					}
					return []string{scheduled, instant(r.StartedAt), span(r.EndedAt.Sub(r.StartedAt)), r.Replica, strconv.Itoa(r.Attempt), strconv.FormatInt(r.Token, 10), r.Outcome, r.Error}
				})
			})
		},
	}
	a.outputFlag(c)
	return c
}

func (a *app) jobsNext() *cobra.Command {
	n := 5
	c := &cobra.Command{
		Use: "next NAME", Short: "Show the next scheduled times of a job", Args: a.noChild(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			if n < 1 || n > 1000 {
				return usage("--number %d: give 1 to 1000", n)
			}
			return a.oneJob(args[0], func(info soloist.JobInfo) error {
				return write(a, "NEXT", nextTimes(info, time.Now(), n), func(t time.Time) []string { return []string{t.Format(time.RFC3339)} })
			})
		},
	}
	c.Flags().IntVarP(&n, "number", "n", n, "how many")
	a.outputFlag(c)
	return c
}

func (a *app) jobsAct(use, short string, act func(*soloist.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: a.noChild(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.look(func(ctx context.Context, c *soloist.Client) error { return act(c, ctx, args[0]) })
		},
	}
}

func (a *app) jobsPause() *cobra.Command {
	reason := ""
	c := a.jobsAct("pause NAME --reason TEXT", "Keep a job from running, on every machine", func(c *soloist.Client, ctx context.Context, name string) error {
		return c.PauseJob(ctx, name, reason)
	})
	c.Flags().StringVar(&reason, "reason", "", "why, for those who wonder (required)")
	_ = c.MarkFlagRequired("reason")
	return c
}
