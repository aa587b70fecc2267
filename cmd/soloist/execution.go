package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/crontab"
)

// An execution runs the command of a job, one run after the other.
type execution struct {
	*cronRun
	job   crontab.Job
	grace time.Duration

	lease *soloist.Lease // of the run whose command was started last
	over  time.Time      // when that has run for at-most; it counts from the first attempt's start, not from the lease's grant
}

// late is how long after its time a run starts before it is worth a word.
const late = time.Second

// run waits for a slot and runs the command. The lease is renewed while it waits, so that the run is neither lost nor
// made by another replica too; when this replica is to end, another takes it over at once.
func (e *execution) run(ctx context.Context, run soloist.Run) error {
	e.running.RLock()
	defer e.running.RUnlock()
	log := e.log.With("job", run.Job, "scheduled", instant(run.ScheduledAt), "attempt", run.Attempt, "token", run.Lease.Token())
	if err := e.waitForSlot(ctx, run); err != nil {
		log.Info("not started", "err", err)
		return fmt.Errorf("not started: %w", err)
	}
	defer e.slots.give()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.stop, func() { cancel(soloist.ErrInterrupted) })()
	if e.lease != run.Lease {
		e.lease, e.over = run.Lease, time.Now().Add(e.job.AtMost)
	}
	ctx, done := e.withinAtMost(ctx)
	defer done()
	out, errs := e.streams(run)
	defer out.Close()
	defer errs.Close()
	var end tail
	stdout, stderr := end.tee(out), end.tee(errs)
	if errs == out {
		stderr = stdout
	}
	cmd := child.Command{
		Args: e.job.Argv(), Dir: e.job.Dir, Env: e.environment(run), Nice: e.job.Nice,
		Stdin: strings.NewReader(e.job.Stdin), Stdout: stdout, Stderr: stderr, Grace: e.grace, Hurry: e.hurry, MayContinue: run.Lease.Err,
		Started: func(pid int) { e.started(log, run, pid) },
	}
	result, err := cmd.Run(ctx)
	switch {
	case !result.Ran:
	case e.noOutput:
		run.Report("", result.Code)
	default:
		run.Report(end.text(), result.Code)
	}
	failure := e.ended(log, result, err, context.Cause(ctx))
	if failure != nil && ctx.Err() == nil && e.nextIsTooLate(run.Attempt) {
		return overran{fmt.Errorf("%w; the next attempt would begin after at-most, %v", failure, e.job.AtMost)}
	}
	return failure
}

// withinAtMost returns a context that ends when the run has taken as long as at-most allows.
func (e *execution) withinAtMost(ctx context.Context) (context.Context, context.CancelFunc) {
	if e.job.AtMost == 0 {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, e.over, overran{fmt.Errorf("it ran for longer than at-most, %v", e.job.AtMost)})
}

// An overran is an ErrOverran with another text: the lease was not lost.
type overran struct{ error }

func (o overran) Unwrap() []error { return []error{o.error, soloist.ErrOverran} }

// nextIsTooLate reports whether there is another attempt after this one, and at-most is over when it begins.
func (e *execution) nextIsTooLate(attempt int) bool {
	next := time.Now().Add(pauseAfter(attempt, soloist.Retry(e.job.Retry)))
	return e.job.AtMost > 0 && attempt < e.job.Retry.Attempts && !next.Before(e.over)
}

// pauseAfter is the pause after a failed attempt, the first being 1, as the client makes it.
func pauseAfter(attempt int, r soloist.Retry) time.Duration {
	most := cmp.Or(r.MaxBackoff, max(time.Hour, r.Backoff))
	pause := r.Backoff
	for ; attempt > 1 && pause < most; attempt-- {
		pause *= 2
	}
	return min(pause, most)
}

// waitForSlot waits until the command may be started. For another attempt than the first, at-most counts meanwhile.
func (e *execution) waitForSlot(ctx context.Context, run soloist.Run) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if e.lease == run.Lease {
		var done context.CancelFunc
		ctx, done = e.withinAtMost(ctx)
		defer done()
	}
	end := e.draining
	if e.job.Crash == crontab.CrashGiveUp { // no other replica would run it
		end = e.stop
	}
	defer context.AfterFunc(end, func() { cancel(soloist.ErrInterrupted) })()
	err := e.slots.take(ctx, run.ScheduledAt)
	if err != nil {
		return err
	}
	if err = context.Cause(ctx); end.Err() != nil {
		err = soloist.ErrInterrupted
	}
	if err != nil {
		e.slots.give()
	}
	return err
}

func (e *execution) environment(run soloist.Run) []string {
	set := map[string]string{
		"SOLOIST_NAME":         run.Job,
		"SOLOIST_TOKEN":        fmt.Sprint(run.Lease.Token()),
		"SOLOIST_HOLDER":       run.Lease.Holder(),
		"SOLOIST_SCHEDULED_AT": run.ScheduledAt.Format(time.RFC3339Nano),
		"SOLOIST_ATTEMPT":      fmt.Sprint(run.Attempt),
	}
	maps.Copy(set, e.passed.variables())
	maps.Copy(set, variables(e.job.Env))
	return child.Environ(e.environ, set)
}

// variables are entries NAME=value by name.
func variables(entries []string) map[string]string {
	all := make(map[string]string, len(entries))
	for _, entry := range entries {
		name, value, _ := strings.Cut(entry, "=")
		all[name] = value
	}
	return all
}

func (e *execution) started(log *slog.Logger, run soloist.Run, pid int) {
	delay := time.Since(run.ScheduledAt) - e.job.Jitter
	if delay < late || run.Attempt > 1 {
		log.Info("started", "pid", pid)
		return
	}
	log.Info("started", "pid", pid, "late", delay)
}

// ended logs how the command ended, and returns what is to be recorded. That is the command's own outcome: what
// happened to its output, or to what it left behind, is told and changes nothing.
func (e *execution) ended(log *slog.Logger, result child.Result, err, cause error) error {
	switch {
	case !result.Ran:
		return err
	case err != nil:
		log.Warn("the command has run, but", "err", err)
	}
	outcome, failure := "ok", error(nil)
	switch {
	case result.Stopped:
		outcome, failure = "stopped", fmt.Errorf("stopped: %w", cause)
	case result.Code != 0:
		outcome, failure = "failed", fmt.Errorf("exit status %d", result.Code)
	}
	log.Info("ended", "outcome", outcome, "code", result.Code, "took", result.Duration)
	return failure
}

// An outputForm says how what commands write is passed on.
type outputForm struct {
	passThrough bool
	split       bool
}

// streams returns where the command's standard output and standard error go. They are one, unless something tells them
// apart.
func (e *execution) streams(run soloist.Run) (out, errs *child.Lines) {
	out = e.stdout.Stream(e.line(run, "stdout"))
	switch {
	case e.form.split || e.form.passThrough:
		return out, e.messages.Stream(e.line(run, "stderr"))
	case e.logFormat == logJSON && !e.form.passThrough:
		return out, e.stdout.Stream(e.line(run, "stderr"))
	}
	return out, out
}

// line returns what makes a line for standard output of one that a command has written.
func (e *execution) line(run soloist.Run, stream string) func([]byte) []byte {
	scheduled := instant(run.ScheduledAt)
	switch {
	case e.form.passThrough:
		return nil
	case e.logFormat == logJSON:
		return func(text []byte) []byte {
			line, _ := json.Marshal(struct { // strings always have JSON
				Time      string `json:"time"`
				Job       string `json:"job"`
				Scheduled string `json:"scheduled"`
				Stream    string `json:"stream"`
				Text      string `json:"text"`
			}{instant(time.Now()), run.Job, scheduled, stream, string(child.Clean(text))})
			return plainJSON(line)
		}
	}
	prefix := plain(run.Job) + " " + scheduled + ": "
	return func(text []byte) []byte { return append([]byte(prefix), child.Clean(text)...) }
}
