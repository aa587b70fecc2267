package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/crontab"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A cronRun is one invocation of soloist cron.
type cronRun struct {
	*app
	logs
	path     string
	dialect  crontab.Dialect
	noOutput bool // the history does not keep what commands write
	anyFile  bool // take a file that others may write to, or own
	watch    bool // read the file again when it changes
	graceFlag
	drain     time.Duration
	storeWait waiting // how long to wait for the store at the start
	parallel  int
	form      outputForm
	probes    probes
	notices   notices

	store    store.Store
	log      *slog.Logger
	slots    *slots
	running  sync.RWMutex    // read-locked by each attempt at a run
	stdout   *child.Funnel   // of what commands write
	draining context.Context // ends when no command is to be started any more
	drainNow context.CancelFunc
	stop     context.Context // ends when the commands that still run have to
	end      context.CancelFunc
	hurry    chan struct{} // closed when they get no grace any more
	passed   *handover     // of the store to commands
	refusal  error         // why the file could not be used when it was last read; nil if it could
	refused  atomic.Bool   // whether there is one
}

func (a *app) cronCommand() *cobra.Command {
	r := &cronRun{app: a}
	check := false
	format := ""
	c := &cobra.Command{
		Use:     "cron FILE",
		Short:   "Run a crontab or jobs.yaml, each run on one machine of the fleet",
		GroupID: "run",
		Long: `cron runs the jobs of a file. Run it with the same file on every machine: each scheduled time runs on one of them.
FILE is a crontab (of supercronic's or Debian's dialect) or, if its name ends in .yaml or .yml, YAML; - is standard input.

HUP reads the file again; runs under way continue. After TERM or INT no run starts; soloist waits --drain for the runs
under way and then stops them, and another machine takes those over. A second TERM or INT stops them immediately, a third
kills them.

At most --parallel commands run at the same time. Other runs that are due hold their leases and start late, with a
message; other machines take over those that have not started when TERM comes.

Commands get SOLOIST_NAME (the job), SOLOIST_TOKEN, SOLOIST_HOLDER, SOLOIST_SCHEDULED_AT and SOLOIST_ATTEMPT. Their
output is passed on line by line behind the job's name and the scheduled time.`,
		Example: `  soloist cron --check crontab
  soloist cron crontab
  soloist cron jobs.yaml`,
		Args: a.noChild(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			r.path, r.dialect.Format = args[0], crontab.Format(format)
			if err := r.checkFlags(); err != nil {
				return err
			}
			if err := r.notices.read(); err != nil {
				return err
			}
			if check {
				return r.check()
			}
			return r.run()
		},
	}
	flags := c.Flags()
	flags.BoolVar(&check, "check", false, "check the file, show its jobs and their next times, and run nothing")
	flags.StringVar(&format, "format", "", "crontab or yaml (default by the file's name)")
	flags.BoolVar(&r.dialect.SystemUsers, "user-column", false, "a crontab with a user before the command, as /etc/crontab; it must be the current user")
	flags.BoolVar(&r.noOutput, "no-output-in-history", false, "do not keep the end of what commands write (2 KiB) in the history of their jobs")
	flags.BoolVar(&r.anyFile, "any-file", false, "accept FILE even if others may write to it or own it")
	flags.BoolVar(&r.dialect.LiteralPercent, "literal-percent", false, "in a crontab, % means itself, as in supercronic")
	flags.DurationVar(&r.ttl, "ttl", 30*time.Second, "how long after the death of a machine its runs are taken over, for jobs without a ttl")
	r.graceFlag.add(flags, "when a run is stopped (default 5s, or a fifth of the job's TTL)")
	flags.DurationVar(&r.drain, "drain", 20*time.Second, "how long runs may continue after TERM or INT")
	flags.IntVar(&r.parallel, "parallel", defaultParallel(), "how many commands run at once, at least 1; the default is 16 for each processor")
	r.storeWait = -1
	flags.Var(&r.storeWait, "store-wait", "how long to wait for a store that cannot be reached at the start: a duration, or forever; 0 ends with 69")
	flags.BoolVar(&r.watch, "watch", false, "read FILE again when it has changed, as after HUP; it is looked at every 2s")
	flags.BoolVar(&r.form.passThrough, "passthrough-logs", false, "pass on the output of commands unchanged: without a prefix, and their standard error to standard error")
	flags.BoolVar(&r.form.split, "split-logs", false, "pass on the standard error of commands to standard error, not to standard output")
	r.probes.flag(c)
	r.notices.flag(c)
	r.logFlags(c, "info")
	a.passFlag(c)
	a.outputFlag(c)
	return c
}

func (r *cronRun) checkFlags() error {
	if err := r.checkOutput(); err != nil { // also of a flag such as -overlapping, which is -o with a value
		return err
	}
	switch {
	case r.dialect.Format != "" && r.dialect.Format != crontab.Crontab && r.dialect.Format != crontab.YAML:
		return usage("--format %q: give %s or %s", r.dialect.Format, crontab.Crontab, crontab.YAML)
	case r.ttl < time.Second:
		return usage("--ttl %v: give at least 1s, so that there is time to stop the command", r.ttl)
	case r.drain < 0 || r.grace < 0:
		return usage("--drain and --grace must be at least 0")
	case r.parallel < 1:
		return usage("--parallel %d: give at least 1", r.parallel)
	case r.watch && r.path == "-":
		return usage("--watch: standard input cannot be read again; name a file")
	}
	return nil
}

// read reads the file and makes jobs of it.
func (r *cronRun) read() (*crontab.File, []soloist.Job, error) {
	var in io.Reader = r.in
	name := "standard input"
	if r.path != "-" {
		f, err := os.Open(r.path)
		if err != nil {
			return nil, nil, badConfig(err)
		}
		defer f.Close()
		if err := r.trust(f); err != nil {
			return nil, nil, err
		}
		in, name = f, r.path
	}
	file, err := crontab.Read(name, in, r.dialect)
	if err != nil {
		return nil, nil, badConfig(err)
	}
	// It refuses what the one that runs the jobs would: that would end the process, and a file with errors changes nothing.
	c, err := soloist.New(memstore.New(), soloist.Config{Namespace: r.namespace, TTL: r.ttl})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = c.Close() }()
	jobs := make([]soloist.Job, len(file.Jobs))
	var errs []error
	for i, j := range file.Jobs {
		if jobs[i], err = r.job(j); err == nil {
			_, err = c.NewRunner(jobs[i])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", name, j.Line, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, badConfig(err)
	}
	return file, jobs, nil
}

// trust refuses a file whose commands may be somebody else's.
func (r *cronRun) trust(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return badConfig(err)
	}
	if why := untrusted(info); why != "" && !r.anyFile {
		return badConfig(fmt.Errorf("%s: %s, and soloist would run what they write there: chown and chmod it, or give --any-file", f.Name(), why))
	}
	return nil
}

// job makes a job of an entry.
func (r *cronRun) job(j crontab.Job) (soloist.Job, error) {
	ttl := j.TTL
	if ttl == 0 {
		ttl = r.ttl
	}
	grace := r.graceFor(ttl)
	margin := grace + ttl/10
	switch {
	case ttl < time.Second:
		return soloist.Job{}, fmt.Errorf("ttl %v: give at least 1s, so that there is time to stop the command", ttl)
	case margin >= ttl/2:
		return soloist.Job{}, fmt.Errorf("--grace %v must be less than 2/5 of the TTL (%v), so that the command is gone before its lease is", grace, ttl)
	}
	job := soloist.Job{
		Name: j.Name, Description: cmp.Or(j.Command, strings.Join(j.Args, " ")), Schedule: scheduleOf(j),
		TTL: ttl, Margin: margin, AtLeast: j.AtLeast, // AtMost counts from the command's start: see execution
		Jitter: j.Jitter, MissedCap: j.MissedCap, Grace: j.Grace,
		Retry: soloist.Retry(j.Retry),
		Do:    (&execution{cronRun: r, job: j, grace: grace}).run,
	}
	switch j.Missed {
	case crontab.MissedOnce:
		job.Missed = soloist.MissedOnce
	case crontab.MissedAll:
		job.Missed = soloist.MissedAll
	}
	if j.Crash == crontab.CrashGiveUp {
		job.Crash = soloist.CrashGiveUp
	}
	return job, nil
}

func scheduleOf(j crontab.Job) soloist.Schedule {
	switch {
	case j.Expression != nil:
		return j.Expression
	case j.Delay > 0:
		return soloist.Delay(j.Delay)
	}
	return soloist.At(j.At)
}

// doubt warns of jobs whose command could not be started on this machine as it is now, and of those that are never due.
// On another machine, or later, it may be otherwise: these are no errors.
func (r *cronRun) doubt(file *crontab.File) {
	name := r.path
	if name == "-" {
		name = "standard input"
	}
	for _, j := range file.Jobs {
		cmd := child.Command{Args: j.Argv(), Dir: j.Dir, Env: child.Environ(r.environ, variables(j.Env))}
		if err := cmd.Check(); err != nil {
			r.say("warning: %s:%d: %q: on this machine, it %v", name, j.Line, j.Name, err)
		}
		if !j.At.IsZero() && j.At.Before(time.Now()) && (j.Missed == "" || j.Missed == crontab.MissedSkip) {
			r.say("warning: %s:%d: %q: at %s has passed, so the job never runs; missed: once would run it", name, j.Line, j.Name, instant(j.At))
		}
		if j.Expression != nil && j.Expression.Next(time.Now()).IsZero() {
			r.say("warning: %s:%d: %q: %s is never due again, so the job never runs", name, j.Line, j.Name, j.Expression)
		}
	}
}

// check shows what the file says.
func (r *cronRun) check() error {
	file, _, err := r.read()
	if err != nil {
		return err
	}
	for _, w := range file.Warnings {
		r.say("warning: %v", w)
	}
	r.doubt(file)
	type row struct {
		Line     int         `json:"line"`
		Name     string      `json:"name"`
		Schedule string      `json:"schedule"`
		InWords  string      `json:"schedule_in_words"`
		Command  []string    `json:"command"`
		Next     []time.Time `json:"next"`
	}
	rows := make([]row, len(file.Jobs))
	for i, j := range file.Jobs {
		rows[i] = row{Line: j.Line, Name: j.Name, Schedule: fmt.Sprint(scheduleOf(j)), Command: j.Argv()}
		info := soloist.JobInfo{Name: j.Name, Schedule: rows[i].Schedule}
		for t := range info.NextTimes(time.Now()) {
			if rows[i].Next = append(rows[i].Next, t); len(rows[i].Next) == 3 {
				break
			}
		}
		if e, err := expressionOf(info); err == nil {
			rows[i].InWords = cron.Describe(e)
		} else {
			rows[i].InWords = rows[i].Schedule
		}
	}
	return write(r.app, "LINE|NAME|SCHEDULE|NEXT|COMMAND", rows, func(j row) []string {
		next := ""
		if len(j.Next) > 0 {
			next = j.Next[0].Format(time.RFC3339)
		}
		return []string{fmt.Sprint(j.Line), j.Name, j.InWords, next, strings.Join(j.Command, " ")}
	})
}
