package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
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
	About    string         `json:"about,omitempty"`
	Next     *time.Time     `json:"next,omitempty"`
	Done     *time.Time     `json:"done_up_to,omitempty"` // all scheduled times up to it are done, or fell into a pause
	Running  *runRow        `json:"running,omitempty"`
	Paused   *soloist.Pause `json:"paused,omitempty"`
	Manual   bool           `json:"manual_run_waiting"`
	Replicas []definition   `json:"replicas"` // that are alive and have it
	Differ   bool           `json:"definitions_differ"`

	Runs []soloist.RunRecord `json:"runs"`
}

// A definition is a job as a replica has it.
type definition struct {
	Replica string `json:"replica"`
	Digest  string `json:"digest"`
}

// A runRow is a run under way.
type runRow struct {
	leaseRow
	Replica string    `json:"replica"`
	Since   time.Time `json:"since"`
	Attempt int       `json:"attempt"`
}

func newJobRow(info soloist.JobInfo) jobRow {
	row := jobRow{Name: info.Name, Schedule: info.Schedule, About: info.About, Paused: info.Paused, Manual: info.Manual, Runs: info.Runs, Differ: info.Differ(), Replicas: []definition{}}
	for _, d := range info.Replicas {
		row.Replicas = append(row.Replicas, definition(d))
	}
	if row.Runs == nil {
		row.Runs = []soloist.RunRecord{}
	}
	if !info.DoneUpTo.IsZero() {
		row.Done = &info.DoneUpTo
	}
	if run := info.Running; run != nil {
		row.Running = &runRow{newLeaseRow(run.LeaseInfo), run.Replica(), run.Since, run.Attempt}
	}
	if !info.Next.IsZero() && len(info.Replicas) > 0 {
		row.Next = &info.Next
	}
	if e, err := expressionOf(info); err == nil {
		row.InWords = cron.Describe(e)
	}
	return row
}

// state is what a job is doing, in a word or two.
func (r jobRow) state() string {
	state := "waiting"
	switch {
	case r.Running != nil:
		state = "running on " + r.Running.Replica
	case r.Paused != nil && r.Paused.All:
		state = "all paused: " + r.Paused.Reason
	case r.Paused != nil:
		state = "paused: " + r.Paused.Reason
	case r.Manual:
		state = "about to run by hand"
	}
	switch {
	case len(r.Replicas) == 0 && r.Running == nil && r.Paused == nil:
		state = "no replica has it"
	case len(r.Replicas) == 0:
		state += "; no replica has it"
	case r.Differ:
		state += "; replicas differ"
	}
	return state
}

func (r jobRow) last() (outcome, at string) {
	if len(r.Runs) == 0 {
		return "", ""
	}
	run := r.Runs[len(r.Runs)-1]
	return run.Outcome, instant(run.EndedAt)
}

// expressionOf is the cron expression of a job, with its H resolved.
func expressionOf(info soloist.JobInfo) (*cron.Expression, error) {
	e, err := cron.Parse(info.Schedule)
	if err != nil {
		return nil, err
	}
	return e.For(info.Name)
}

func (a *app) jobsCommand() *cobra.Command {
	c := &cobra.Command{Use: "jobs", Short: "See, pause, resume, trigger and forget jobs", GroupID: "see", Args: a.noChild(cobra.NoArgs), RunE: needsSubcommand}
	c.AddCommand(a.jobsList(), a.jobsShow(), a.jobsHistory(), a.jobsNext(),
		a.jobsTrigger(),
		a.jobsPause(),
		a.releaseCommand("the run of a job", "NAME", named(soloist.KindJob)),
		a.jobsForget(),
		a.jobsResume())
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
				if p, err := c.Admin().AllPaused(ctx); err == nil && p != nil { // the list reports the error
					a.say("all jobs are paused since %s by %s: %s; soloist jobs resume --all ends that", instant(p.At), p.By, p.Reason)
				}
				return list(a, "NAME|SCHEDULE|STATE|LAST|ENDED|NEXT", c.Admin().Jobs(ctx), newJobRow, func(r jobRow) []string {
					outcome, ended := r.last()
					return []string{r.Name, r.Schedule, r.state(), outcome, ended, optional(r.Next)}
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
		info, err := c.Admin().Job(ctx, name)
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
				row := newJobRow(info)
				if a.output != "table" {
					return a.encode(row)
				}
				return a.showJob(row)
			})
		},
	}
	a.outputFlag(c)
	return c
}

func (a *app) showJob(r jobRow) error {
	lines := [][]string{{"name", r.Name}, {"about", r.About}, {"schedule", r.Schedule}, {"in words", r.InWords}, {"state", r.state()}}
	for _, d := range r.Replicas {
		lines = append(lines, []string{"replica", d.Replica + ", definition " + d.Digest})
	}
	if r.Paused != nil {
		lines = append(lines, []string{"paused", fmt.Sprintf("%s by %s: %s", instant(r.Paused.At), r.Paused.By, r.Paused.Reason)})
	}
	if r.Done != nil {
		lines = append(lines, []string{"done up to", instant(*r.Done)})
	}
	if r.Running != nil {
		lines = append(lines, []string{"running", fmt.Sprintf("since %s, attempt %d, token %d", instant(r.Running.Since), r.Running.Attempt, r.Running.Token)})
	}
	if r.Next != nil {
		lines = append(lines, []string{"next", optional(r.Next)})
	}
	outcome, at := r.last()
	lines = append(lines, []string{"last run", strings.TrimSpace(outcome + " " + at)})
	if err := table(a.out, "FIELD|VALUE", lines, func(line []string) []string { return line }); err != nil || len(r.Runs) == 0 {
		return err
	}
	output := strings.TrimRight(r.Runs[len(r.Runs)-1].Output, "\n")
	if output == "" {
		return nil
	}
	return a.print("\nthe end of the last run's output:\n  " + strings.ReplaceAll(output, "\n", "\n  ") + "\n")
}

// exitCodeOf is the exit code of a run's command, as text.
func exitCodeOf(r soloist.RunRecord) string {
	if r.ExitCode == nil {
		return ""
	}
	return strconv.Itoa(*r.ExitCode)
}

func (a *app) jobsHistory() *cobra.Command {
	c := &cobra.Command{
		Use: "history NAME", Short: "Show the last 20 runs of a job, the newest last", Args: a.noChild(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.oneJob(args[0], func(info soloist.JobInfo) error {
				return write(a, "SCHEDULED|STARTED|TOOK|REPLICA|ATTEMPT|TOKEN|OUTCOME|CODE|ERROR", info.Runs, func(r soloist.RunRecord) []string {
					scheduled := instant(r.ScheduledAt)
					if r.Manual {
						scheduled += " (by hand)"
					}
					return []string{scheduled, instant(r.StartedAt), span(r.EndedAt.Sub(r.StartedAt)), r.Replica, strconv.Itoa(r.Attempt), strconv.FormatInt(r.Token, 10), r.Outcome, exitCodeOf(r), r.Error}
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
				var times []time.Time
				for t := range info.NextTimes(time.Now()) {
					if times = append(times, t); len(times) == n {
						break
					}
				}
				return write(a, "NEXT", times, func(t time.Time) []string { return []string{t.Format(time.RFC3339)} })
			})
		},
	}
	c.Flags().IntVarP(&n, "number", "n", n, "how many")
	a.outputFlag(c)
	return c
}

func (a *app) jobsForget() *cobra.Command {
	return &cobra.Command{
		Use: "forget NAME", Short: "Delete the records of a job that no live replica has", Args: a.noChild(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.change("command", func(ctx context.Context, c *soloist.Client) error { return c.Admin().Forget(ctx, args[0]) })
		},
	}
}

func (a *app) jobsTrigger() *cobra.Command {
	var wait waiting
	c := &cobra.Command{
		Use: "trigger NAME", Short: "Run a job now, once, on one machine of the fleet",
		Long: `trigger requests one run, on any machine. With --wait it waits until the run has ended, writes the end of its output, and
exits as the command did: with its code, or 70 if the job failed without one from 1 to 255.`,
		Args: a.noChild(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			if wait == 0 {
				return a.look(func(ctx context.Context, c *soloist.Client) error { return c.Admin().Trigger(ctx, args[0]) })
			}
			return a.triggerAndWait(args[0], time.Duration(wait))
		},
	}
	c.Flags().VarP(&wait, "wait", "w", "wait for the end of the run: a duration, or forever")
	return c
}

// triggerAndWait waits for the end of a manual run, forever if most is negative.
func (a *app) triggerAndWait(job string, most time.Duration) error {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // an output that nobody reads any more is an error like others
	c, closing, err := a.client(soloist.Config{})
	if err != nil {
		return err
	}
	waited := fmt.Errorf("--wait %v has passed", most)
	ctx, cancel := context.WithCancel(context.Background())
	if most > 0 {
		ctx, cancel = context.WithTimeoutCause(context.Background(), most, waited)
	}
	defer cancel()
	run, err := c.Admin().TriggerAndWait(ctx, job)
	closed := closing()
	if err == nil { // the run has ended: what fails after that is said, and must have no code with which the run is tried again
		for _, failed := range []error{closed, a.print(run.Output)} {
			if failed != nil {
				a.say("after the run of job %q: %v", job, failed)
			}
		}
		return exitOfRun(job, run)
	}
	late := (errors.Is(err, waited) || errors.Is(err, context.DeadlineExceeded)) && ctx.Err() != nil
	if err = errors.Join(err, closed); late {
		return &exit{exitHeld, err} // it says whether the run was asked for: the store may not have responded until then
	}
	return err
}

// exitOfRun returns the exit by which a run that has ended is told.
func exitOfRun(job string, run soloist.RunRecord) error {
	code := 0
	if run.ExitCode != nil {
		code = *run.ExitCode
	}
	if code == 0 && run.Outcome == soloist.OutcomeOK {
		return nil
	}
	if code < 1 || code > 255 { // of a function of a program: a process has no such code
		code = exitFailed
	}
	return &exit{code, fmt.Errorf("job %q: %s: %s", job, run.Outcome, run.Error)}
}

func (a *app) jobsPause() *cobra.Command {
	reason := ""
	c := a.jobsActOnAll("pause NAME|--all --reason TEXT", "Pause a job, or all jobs, on every machine", "all jobs, including those that are added later",
		func(ctx context.Context, admin *soloist.Admin, name string) error {
			return admin.Pause(ctx, name, reason)
		},
		func(ctx context.Context, admin *soloist.Admin) error { return admin.PauseAll(ctx, reason) })
	c.Flags().StringVar(&reason, "reason", "", "why; audit list shows it (required)")
	_ = c.MarkFlagRequired("reason")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := needsReason(reason); err != nil {
			return err
		}
		return run(c, args)
	}
	return c
}

func (a *app) jobsResume() *cobra.Command {
	return a.jobsActOnAll("resume NAME|--all", "End the pause of a job, or the pause of all jobs", "end the pause of all jobs; jobs that were paused by name stay paused",
		func(ctx context.Context, admin *soloist.Admin, name string) error {
			err := admin.Resume(ctx, name)
			if errors.Is(err, soloist.ErrAllPaused) {
				err = fmt.Errorf("%w; resume --all ends that", err)
			}
			return err
		},
		func(ctx context.Context, admin *soloist.Admin) error { return admin.ResumeAll(ctx) })
}

// jobsActOnAll is a subcommand that changes one job, or all.
func (a *app) jobsActOnAll(use, short, which string, one func(context.Context, *soloist.Admin, string) error, every func(context.Context, *soloist.Admin) error) *cobra.Command {
	all := false
	c := &cobra.Command{
		Use: use, Short: short, Args: a.noChild(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			if all == (len(args) == 1) {
				return usage("give the name of a job, or --all")
			}
			return a.look(func(ctx context.Context, c *soloist.Client) error {
				if all {
					return every(ctx, c.Admin())
				}
				return one(ctx, c.Admin(), args[0])
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, which)
	return c
}
