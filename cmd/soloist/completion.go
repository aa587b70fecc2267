package main

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
)

// completeWithin bounds how long a shell waits for names.
const completeWithin = 3 * time.Second

// mostCompletions is how many names are offered to a shell.
const mostCompletions = 1000

// A namesOf yields the names that a subcommand's next argument can have, each with a few words about it, if args have
// been given.
type namesOf func(ctx context.Context, admin *soloist.Admin, args []string) iter.Seq2[string, string]

// completedArgs reports by which names the arguments of a subcommand are completed. The last one is that of all further
// arguments.
var completedArgs = map[string][]namesOf{
	"lock": {locksTaken}, "locks release": {locksTaken},
	"sem": {semaphores}, "sems release": {semaphores},
	"lead": {leaders}, "leaders release": {leaders},
	"once": {elementJobs}, "elements list": {elementJobs},
	"elements retry":   {elementJobs, elementsThat("failed"), elementsThat("failed")},
	"elements release": {elementJobs, elementsThat("claimed")},
	"jobs show":        {jobs}, "jobs history": {jobs}, "jobs next": {jobs}, "jobs trigger": {jobs}, "jobs pause": {jobs},
	"jobs resume": {jobs}, "jobs release": {jobs}, "jobs forget": {jobs},
}

// moreArgs are the subcommands whose last completion is that of all further arguments.
var moreArgs = map[string]bool{"elements retry": true}

// completedFlags are the values of flags that have few.
var completedFlags = map[string][]string{
	"output": {"table", "json", "jsonl"}, "log-format": {logText, logJSON}, "log-level": {"debug", "info", "warn", "error"},
	"format": {"crontab", "yaml"}, "from": {"crontab", "kubernetes", "shedlock"}, "status": {"processed", "claimed", "failed", "waiting", "abandoned"},
}

// fileArgs and fileFlags take files.
var (
	fileArgs  = map[string]bool{"cron": true, "man": true, "import": true, "config": true}
	fileFlags = []string{"report", "history", "config", "tokens", "tls-cert", "tls-key", "notify"}
)

// complete lets shells complete the arguments and flags of root's subcommands.
func (a *app) complete(root *cobra.Command) {
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	for c := range subcommands(root) {
		path := strings.TrimPrefix(c.CommandPath(), root.Name()+" ")
		switch {
		case fileArgs[path]:
			c.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
		case completedArgs[path] != nil:
			c.ValidArgsFunction = a.completion(completedArgs[path], moreArgs[path])
		}
		for name, values := range completedFlags {
			if c.Flags().Lookup(name) != nil {
				_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
			}
		}
		for _, name := range fileFlags {
			if c.Flags().Lookup(name) != nil {
				_ = c.MarkFlagFilename(name)
			}
		}
	}
}

// subcommands yields all subcommands that people see.
func subcommands(c *cobra.Command) iter.Seq[*cobra.Command] {
	return func(yield func(*cobra.Command) bool) {
		for _, sub := range c.Commands() {
			if sub.Hidden || sub.Name() == "help" {
				continue
			}
			if !yield(sub) {
				return
			}
			for below := range subcommands(sub) {
				if !yield(below) {
					return
				}
			}
		}
	}
}

// completion completes arguments by names from the store. What goes wrong completes nothing: a shell has no place for
// it.
func (a *app) completion(names []namesOf, more bool) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		n := len(args)
		if more {
			n = min(n, len(names)-1)
		}
		if n >= len(names) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if a.configure(command) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, closing, err := a.client(soloist.Config{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = closing() }()
		ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
		defer cancel()
		found := map[string]string{}
		for name, about := range names[n](ctx, c.Admin(), args) {
			// A name that has to be escaped cannot be typed as it is shown.
			if strings.HasPrefix(name, begun) && plain(name) == name && !slices.Contains(args[min(1, len(args)):], name) {
				found[name] = about
			}
			if len(found) == mostCompletions {
				break
			}
		}
		var all []cobra.Completion
		for _, name := range slices.Sorted(maps.Keys(found)) {
			all = append(all, cobra.CompletionWithDesc(name, plain(strings.ReplaceAll(found[name], "\n", " "))))
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// described yields of infos what of makes of them, up to the first error.
func described[I any](infos iter.Seq2[I, error], of func(I) (name, about string, is bool)) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for info, err := range infos {
			if err != nil {
				return
			}
			if name, about, is := of(info); is && !yield(name, about) {
				return
			}
		}
	}
}

func heldLease(l soloist.LeaseInfo) (name, about string, is bool) {
	return l.Name, newLeaseRow(l).holder(), true
}

func locksTaken(ctx context.Context, admin *soloist.Admin, _ []string) iter.Seq2[string, string] {
	return described(admin.Locks(ctx), heldLease)
}

func leaders(ctx context.Context, admin *soloist.Admin, _ []string) iter.Seq2[string, string] {
	return described(admin.Leaders(ctx), heldLease)
}

func semaphores(ctx context.Context, admin *soloist.Admin, _ []string) iter.Seq2[string, string] {
	return described(admin.Semaphores(ctx), func(s soloist.SemaphoreInfo) (name, about string, is bool) {
		return s.Name, fmt.Sprintf("%d of %d permits taken", len(s.Permits), s.Limit), true
	})
}

func jobs(ctx context.Context, admin *soloist.Admin, _ []string) iter.Seq2[string, string] {
	return described(admin.Jobs(ctx), func(j soloist.JobInfo) (name, about string, is bool) { return j.Name, j.Schedule, true })
}

func elementJobs(ctx context.Context, admin *soloist.Admin, _ []string) iter.Seq2[string, string] {
	return described(admin.ElementJobs(ctx), func(job string) (name, about string, is bool) { return job, "", true })
}

// elementsThat completes by the elements of the job that have a status.
func elementsThat(status string) namesOf {
	return func(ctx context.Context, admin *soloist.Admin, args []string) iter.Seq2[string, string] {
		return described(admin.Elements(ctx, args[0]), func(e soloist.ElementInfo) (name, about string, is bool) {
			return e.ID, e.Error, e.Status == status
		})
	}
}
