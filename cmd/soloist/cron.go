package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/crontab"
	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/store"
)

// A cronRun is one invocation of soloist cron.
type cronRun struct {
	*app
	path    string
	dialect crontab.Dialect
	anyFile bool // take a file that others may write to, or own
	grace   time.Duration
	drain   time.Duration

	store  store.Store
	log    *slog.Logger
	output *child.Funnel
	stop   context.Context // ends when the commands that still run have to
	end    context.CancelFunc
	hurry  chan struct{}     // closed when they get no grace any more
	passed map[string]string // variables that hand the store on to commands
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

HUP reads the file again; runs under way go on. TERM or INT starts nothing more, waits --drain for the runs under way, then
stops them; another machine takes those over. A second TERM or INT stops them at once.

Commands get SOLOIST_NAME (the job), SOLOIST_TOKEN, SOLOIST_HOLDER, SOLOIST_SCHEDULED_AT and SOLOIST_ATTEMPT. What they write is
passed on line by line behind the job's name and scheduled time.`,
		Example: `  soloist cron --check crontab
  soloist cron crontab
  soloist cron jobs.yaml`,
		Args: a.noChild(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			r.path, r.dialect.Format = args[0], crontab.Format(format)
			if r.drain < 0 || r.grace < 0 {
				return usage("--drain and --grace must be at least 0")
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
	flags.BoolVar(&r.anyFile, "any-file", false, "take FILE even if others may write to it, or own it")
	flags.BoolVar(&r.dialect.LiteralPercent, "literal-percent", false, "in a crontab, % means itself, as in supercronic")
	flags.DurationVar(&r.ttl, "ttl", 30*time.Second, "how long after the death of a machine its runs are taken over, for jobs that do not say")
	flags.DurationVar(&r.grace, "grace", 0, "from TERM to KILL when a run is stopped (default 5s, or a fifth of the job's TTL)")
	flags.DurationVar(&r.drain, "drain", 30*time.Second, "how long runs may go on after TERM or INT")
	a.passFlag(c)
	a.outputFlag(c)
	return c
}

// read reads the file and makes jobs of it.
func (r *cronRun) read() (*crontab.File, []soloist.Job, error) {
	var in io.Reader = r.in
	name := "standard input"
	if r.path != "-" {
		f, err := os.Open(r.path)
		if errors.Is(err, fs.ErrPermission) {
			return nil, nil, &exit{exitDenied, err}
		}
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
	jobs := make([]soloist.Job, len(file.Jobs))
	var errs []error
	for i, j := range file.Jobs {
		if jobs[i], err = r.job(j); err != nil {
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
	if j.AtMost > 0 && j.AtMost < ttl {
		ttl = j.AtMost
	}
	grace := r.grace
	if grace == 0 {
		grace = min(5*time.Second, ttl/5)
	}
	margin := grace + ttl/10
	switch {
	case ttl < time.Second:
		return soloist.Job{}, fmt.Errorf("ttl %v: give at least 1s, so that there is time to stop the command", ttl)
	case margin >= ttl/2:
		return soloist.Job{}, fmt.Errorf("--grace %v must be less than 2/5 of the TTL (%v), so that the command is gone before its lease is", grace, ttl)
	}
	job := soloist.Job{
		Name: j.Name, Schedule: scheduleOf(j),
		TTL: ttl, Margin: margin, AtLeast: j.AtLeast, AtMost: j.AtMost,
		Jitter: j.Jitter, MissedCap: j.MissedCap, Grace: j.Grace,
		Retry: soloist.Retry{Attempts: j.Retry.Attempts, Backoff: j.Retry.Backoff, MaxBackoff: j.Retry.MaxBackoff},
		Do:    func(ctx context.Context, run soloist.Run) error { return r.command(ctx, j, run, grace) },
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

// check shows what the file says.
func (r *cronRun) check() error {
	if err := r.checkOutput(); err != nil {
		return err
	}
	file, _, err := r.read()
	if err != nil {
		return err
	}
	for _, w := range file.Warnings {
		r.say("warning: %v", w)
	}
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

// run runs the jobs until a signal ends it.
func (r *cronRun) run() error {
	file, jobs, err := r.read()
	if err != nil {
		return err
	}
	r.log = r.logger()
	for _, w := range file.Warnings {
		r.log.Warn(w.Error())
	}
	if r.store, err = r.openStore(); err != nil {
		return err
	}
	defer r.store.Close()
	r.log.Info("using", r.describe(context.Background(), r.store)...)
	var remove func()
	if r.passed, remove, err = r.passOn(); err != nil {
		return err
	}
	defer remove()
	r.adopt()
	r.output = child.NewFunnel(r.out)
	r.stop, r.end = context.WithCancel(context.Background())
	defer r.end()
	r.hurry = make(chan struct{})
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)

	current, err := r.begin(jobs)
	if err != nil {
		return err
	}
	generations := []*generation{current}
	r.log.Info("running", "jobs", len(jobs), "file", r.path)
	for {
		select {
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				return r.shutDown(generations, signals, sig)
			}
			if next := r.reload(); next != nil {
				current.cancel()
				current = next
				generations = append(generations, next)
			}
		case <-current.ended:
			if current.err != nil {
				return current.err
			}
			return errors.New("the jobs have ended by themselves")
		}
	}
}

// A generation runs the jobs of one reading of the file. After a reload it drains for as long as its runs take, while the next
// one runs: the store sees to it that they exclude each other.
type generation struct {
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // of Run, once ended is closed
}

// drainless is a Drain that does not end: the command itself decides when runs have to end.
const drainless = 100 * 365 * 24 * time.Hour

func (r *cronRun) begin(jobs []soloist.Job) (*generation, error) {
	c, err := soloist.New(r.store, soloist.Config{
		Namespace: r.namespace, Replica: r.replicaName(), Logger: r.log, Drain: drainless,
		Options: soloist.Options{TTL: r.ttl},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &generation{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(g.ended)
		g.err = errors.Join(c.Run(ctx, jobs...), c.Close())
	}()
	return g, nil
}

// reload begins a generation of what the file says now. If it cannot be used, the old one goes on.
func (r *cronRun) reload() *generation {
	if r.path == "-" {
		r.log.Error("standard input cannot be read again; going on as before")
		return nil
	}
	file, jobs, err := r.read()
	if err != nil {
		r.log.Error("the file cannot be used; going on with the jobs of before", "err", err)
		return nil
	}
	for _, w := range file.Warnings {
		r.log.Warn(w.Error())
	}
	g, err := r.begin(jobs)
	if err != nil {
		r.log.Error("going on with the jobs of before", "err", err)
		return nil
	}
	r.log.Info("read again", "jobs", len(jobs), "file", r.path)
	return g
}

// shutDown starts nothing more, and returns when all runs have ended.
func (r *cronRun) shutDown(generations []*generation, signals <-chan os.Signal, sig os.Signal) error {
	r.log.Info("draining", "signal", sig.String(), "for", r.drain)
	drained := make(chan error, 1)
	for _, g := range generations {
		g.cancel()
	}
	go func() {
		var errs []error
		for _, g := range generations {
			<-g.ended
			errs = append(errs, g.err)
		}
		drained <- errors.Join(errs...)
	}()
	patience := time.After(r.drain)
	for stops := 0; ; {
		select {
		case err := <-drained:
			return err
		case <-patience:
			r.log.Info("stopping the runs that go on")
			r.end()
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				continue
			}
			r.end()
			if stops++; stops == 2 {
				close(r.hurry)
			}
		}
	}
}

// command runs the command of a job.
func (r *cronRun) command(ctx context.Context, j crontab.Job, run soloist.Run, grace time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.stop, func() { cancel(soloist.ErrInterrupted) })()
	set := map[string]string{
		"SOLOIST_NAME":         run.Job,
		"SOLOIST_TOKEN":        fmt.Sprint(run.Token),
		"SOLOIST_HOLDER":       run.Lease.Holder(),
		"SOLOIST_SCHEDULED_AT": run.ScheduledAt.Format(time.RFC3339Nano),
		"SOLOIST_ATTEMPT":      fmt.Sprint(run.Attempt),
	}
	maps.Copy(set, r.passed)
	for _, entry := range j.Env {
		name, value, _ := strings.Cut(entry, "=")
		set[name] = value
	}
	prefix := func() string { return run.Job + " " + instant(run.ScheduledAt) + ": " }
	out := r.output.Stream(prefix, true)
	defer func() { _ = out.Close() }() // what it cannot write is lost; nobody is left to be told
	r.log.Info("run", "job", run.Job, "scheduled", instant(run.ScheduledAt), "attempt", run.Attempt, "token", run.Token)
	cmd := child.Command{
		Args: j.Argv(), Dir: j.Dir, Env: child.Environ(r.environ, set),
		Stdin: strings.NewReader(j.Stdin), Stdout: out, Stderr: out, Grace: grace, Hurry: r.hurry,
	}
	result, err := cmd.Run(ctx)
	switch cause := context.Cause(ctx); {
	case cause != nil && (result.Stopped || err != nil):
		return fmt.Errorf("stopped: %w", cause)
	case err != nil:
		return err
	case result.Code != 0:
		return fmt.Errorf("exit status %d", result.Code)
	}
	r.log.Info("done", "job", run.Job, "scheduled", instant(run.ScheduledAt), "took", span(result.Duration))
	return nil
}
