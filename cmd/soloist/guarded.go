package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/child"
)

// A guarded command is one that runs under a lease: the flags and the running that lock, once, sem and lead share.
type guarded struct {
	*app
	logs
	wait waiting
	graceFlag
	atLeast  time.Duration
	atMost   time.Duration
	heldCode int
	noWait   bool
	signals  chan os.Signal
	passed   *handover // of the store to the command

	retry  soloist.Retry // of an element
	pause  time.Duration // after its failed attempt
	failed bool          // for good
}

func (g *guarded) flags(c *cobra.Command, logLevel string) {
	flags := c.Flags()
	flags.StringVarP(&g.shellLine, "command", "c", "", "a line for /bin/sh to run, instead of a command after --")
	g.logFlags(c, logLevel)
	flags.DurationVar(&g.ttl, "ttl", 30*time.Second, "how long the name stays unavailable after this process has died")
	g.graceFlag.add(flags, "when the lease is lost (default 5s, or a fifth of the TTL)")
	flags.DurationVar(&g.atMost, "at-most", 0, "stop the command when it has run for so long (default no bound)")
	g.passFlag(c)
}

// A graceFlag is --grace: how long a command has from TERM to KILL. 0 is no time at all.
type graceFlag struct {
	grace time.Duration
	flag  *pflag.Flag
}

func (g *graceFlag) add(flags *pflag.FlagSet, when string) {
	flags.DurationVar(&g.grace, "grace", 0, "from TERM to KILL "+when+"; 0 kills at once")
	g.flag = flags.Lookup("grace")
}

// graceFor returns the grace of a command under a lease of a TTL.
func (g *graceFlag) graceFor(ttl time.Duration) time.Duration {
	if g.flag != nil && g.flag.Changed {
		return g.grace
	}
	return min(5*time.Second, ttl/5)
}

func (g *guarded) waitFlags(c *cobra.Command) {
	flags := c.Flags()
	flags.VarP(&g.wait, "wait", "w", "how long to wait when it is held, or the store cannot be reached: a duration such as 30s, a number of seconds, or forever")
	flags.IntVarP(&g.heldCode, "conflict-exit-code", "E", exitHeld, "exit code if it is held, or the wait was too long")
}

// options are those of the leases. The margin leaves time to end the command before the lease can pass to another.
func (g *guarded) options() (soloist.Options, error) {
	if g.atMost > 0 {
		g.ttl = min(g.ttl, g.atMost)
	}
	g.grace = g.graceFor(g.ttl)
	margin := g.grace + g.ttl/10
	switch {
	case g.atLeast < 0:
		return soloist.Options{}, usage("--at-least %v: must be 0 or more", g.atLeast)
	case g.atMost < 0:
		return soloist.Options{}, usage("--at-most %v: must be at least 1s, or 0 for no bound", g.atMost)
	case g.atMost > 0 && g.atLeast > g.atMost:
		return soloist.Options{}, usage("--at-least %v: must not be more than --at-most (%v)", g.atLeast, g.atMost)
	case g.ttl < time.Second:
		return soloist.Options{}, usage("a lease of %v is too short to stop the command in: give at least 1s for --ttl and --at-most", g.ttl)
	case g.grace < 0 || margin >= g.ttl/2:
		return soloist.Options{}, usage("--grace %v: must be at least 0 and less than 2/5 of the TTL (%v), so that the command is gone before the lease is", g.grace, g.ttl)
	case g.noWait && g.wait != 0:
		return soloist.Options{}, usage("--nonblock means not to wait, and --wait %v to wait: give one of them", &g.wait)
	case g.heldCode < 0 || g.heldCode > 255:
		return soloist.Options{}, usage("--conflict-exit-code %d: must be between 0 and 255", g.heldCode)
	}
	opts := soloist.Options{TTL: g.ttl, Margin: margin, AtLeast: g.atLeast, Wait: time.Duration(g.wait)}
	if g.atMost > 0 {
		opts.AtMost = g.atMost + margin // the lease lasts until the command, which is stopped at --at-most, has ended
	}
	if g.noWait {
		opts.Overdue = -1
	}
	return opts, nil
}

// check refuses a command that could not be started on this machine, before a lease is taken: with --at-least others could
// not run it for so long, and an element would have an attempt less.
func (g *guarded) check() error {
	cmd := child.Command{Args: g.argv, Env: child.Environ(g.environ, nil)}
	var start *child.StartError
	if err := cmd.Check(); errors.As(err, &start) {
		return &exit{start.Code, err}
	}
	return nil
}

// A waiting is a duration, a number of seconds (as flock has it), or "forever", which is negative.
type waiting time.Duration

func (w *waiting) String() string {
	if *w < 0 {
		return "forever"
	}
	return time.Duration(*w).String()
}

func (w *waiting) Type() string { return "duration" }

func (w *waiting) Set(text string) error {
	if text == "forever" {
		*w = -1
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d < 0 {
		return errors.New(`give a duration such as 30s, a number of seconds, or "forever"`)
	}
	*w = waiting(d)
	return nil
}

// run opens the store, takes a lease with acquire, and calls under with it. While it waits, a signal ends it.
func (g *guarded) run(acquire func(context.Context, *soloist.Client) (*soloist.Lease, error), under func(*soloist.Lease) error) error {
	opts, err := g.options()
	if err != nil {
		return err
	}
	if err := g.check(); err != nil {
		return err
	}
	g.adopt()
	g.signals = make(chan os.Signal, 16)
	signal.Notify(g.signals, child.Forwarded()...)
	log, err := g.logger(g.stderr(), "name")
	if err != nil {
		return err
	}
	c, closing, err := g.client(soloist.Config{TTL: opts.TTL, Observe: renewalTrouble(log)})
	if err != nil {
		return err
	}
	defer func() { _ = closing() }()
	if g.passed, err = g.passOn(log); err != nil {
		return err
	}
	defer g.passed.remove()
	lease, err := g.taken(c, func(ctx context.Context, c *soloist.Client) (*soloist.Lease, error) {
		return outlasting(ctx, opts, func(opts soloist.Options) (*soloist.Lease, error) { return acquire(ctx, c.With(opts)) }, log)
	})
	if errors.Is(err, soloist.ErrHeld) {
		return &exit{g.heldCode, err}
	}
	if err != nil {
		return err
	}
	return under(lease)
}

// outlasting asks for a lease, and goes on asking while the store cannot be reached, for as long as opts.Wait allows: a
// server may refuse connections for a moment, or have too many.
func outlasting(ctx context.Context, opts soloist.Options, acquire func(soloist.Options) (*soloist.Lease, error), log *slog.Logger) (*soloist.Lease, error) {
	end := time.Now().Add(opts.Wait)
	told := false
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		lease, err := acquire(opts)
		left := time.Until(end)
		if exitCode(err) != exitUnavailable || ctx.Err() != nil || opts.Wait >= 0 && left <= 0 {
			return lease, err
		}
		if !told {
			told = true
			log.Warn("the store cannot be reached; waiting for it", "err", err)
		}
		if opts.Wait > 0 {
			pause = min(pause, left)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2+1)): // not all that wait at the same time
		case <-ctx.Done():
			return nil, err
		}
		if opts.Wait > 0 {
			if opts.Wait = time.Until(end); opts.Wait <= 0 { // it would be a wait without an end
				return nil, err
			}
		}
	}
}

// guardCommands has what commands have started ended if this process is killed. Without it, that goes on.
func (a *app) guardCommands() {
	if err := child.Guard("soloist", "end-orphaned"); err != nil {
		a.say("if soloist is killed, what the command has started will go on: %v", err)
	}
}

// endOrphanedCommand is what the process runs that outlives a soloist that is killed.
func (a *app) endOrphanedCommand() *cobra.Command {
	return &cobra.Command{
		Use: "end-orphaned", Hidden: true, DisableFlagParsing: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			child.EndOrphaned(a.in, args[0])
			return nil
		},
	}
}

// renewalTrouble returns what observes a client to log when leases cannot be renewed, and when they can again.
func renewalTrouble(log *slog.Logger) func(context.Context, soloist.Event) {
	var failing atomic.Pointer[time.Time]
	return func(_ context.Context, e soloist.Event) {
		if e.Kind != soloist.EventRequest || e.Verb != soloist.VerbExtend {
			return
		}
		if e.Err == nil {
			if since := failing.Swap(nil); since != nil {
				log.Info("renewals succeed again", "failed_for", time.Since(*since))
			}
			return
		}
		now := time.Now()
		if failing.CompareAndSwap(nil, &now) {
			log.Warn("the lease cannot be renewed: the store does not confirm it; if that lasts, the command is stopped before the lease ends", "err", e.Err)
		}
	}
}

// adopt makes this process the parent of what commands leave behind, so that it is found; and hides what it knows of
// the store from them.
func (a *app) adopt() {
	// A reader of the messages that has gone ends no process that has a command under a lease. The command itself gets
	// SIGPIPE as ever.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := child.Adopt(); err != nil {
		a.say("daemons that a command leaves behind will not be found: %v", err)
	}
	if err := child.Hide(); err != nil {
		a.say("commands can read the URL of the store from the environment of this process: %v", err)
	}
}

// taken is the lease of acquire. A signal that would end this process ends the wait for it.
func (g *guarded) taken(c *soloist.Client, acquire func(context.Context, *soloist.Client) (*soloist.Lease, error)) (*soloist.Lease, error) {
	ctx, stop := g.untilSignal()
	lease, err := acquire(ctx, c)
	caught := stop()
	if caught == nil {
		return lease, err
	}
	if err == nil {
		caught = errors.Join(caught, lease.Release())
	}
	return nil, caught
}

// untilSignal returns a context that ends with a signal that would end this process. stop gives the signals back and
// returns an exit with the code of the one that was caught.
func (g *guarded) untilSignal() (ctx context.Context, stop func() error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	var wait sync.WaitGroup
	done := make(chan struct{})
	wait.Go(func() {
		for {
			select {
			case sig := <-g.signals:
				if n, ends := ending(sig); ends {
					cancel(&exit{128 + int(n), fmt.Errorf("ended by %v while waiting", sig)})
					return
				}
			case <-done:
				return
			}
		}
	})
	return ctx, func() error {
		close(done)
		wait.Wait()
		return context.Cause(ctx)
	}
}

// ending reports whether a signal ends a process that does not mind it.
func ending(sig os.Signal) (syscall.Signal, bool) {
	n, ok := sig.(syscall.Signal)
	switch n {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
		return n, ok
	}
	return n, false
}

// A verdict is how the child ended, and what is to be said of it.
type verdict struct {
	result child.Result
	err    error // why it could not be run, or be ended
	lost   error // the cause, when it was stopped because of the lease
}

// fate describes what became of the command when its lease was lost.
func (v verdict) fate() string {
	switch {
	case !v.result.Ran:
		return "was not started"
	case !v.result.Stopped:
		return fmt.Sprintf("had ended by itself, with %d", v.result.Code)
	}
	return "was stopped"
}

// over reports whether lead is over: the command has ended by itself, or who has told it to end wants no other term.
func (v verdict) over() bool {
	return v.lost == nil || v.result.Told || v.result.Ran && !v.result.Stopped
}

// guardAfter is how long a command runs before it is guarded: that costs a process, and no lease ends sooner than this.
const guardAfter = time.Second

// command returns the command as it runs under a lease.
func (g *guarded) command(lease *soloist.Lease, extra map[string]string) child.Command {
	env := map[string]string{
		"SOLOIST_NAME":   lease.Name(),
		"SOLOIST_TOKEN":  strconv.FormatInt(lease.Token(), 10),
		"SOLOIST_HOLDER": lease.Holder(),
	}
	maps.Copy(env, extra)
	maps.Copy(env, g.passed.variables())
	return child.Command{
		Args: g.argv, Env: child.Environ(g.environ, env),
		Stdin: g.in, Stdout: g.out, Stderr: g.errs,
		Grace: g.grace, Signals: g.signals, MayContinue: lease.Err,
		Started: func(int) { time.AfterFunc(guardAfter, g.guardCommands) },
	}
}

// child runs the command under a lease until it ends or the lease is lost.
func (g *guarded) child(lease *soloist.Lease, extra map[string]string) verdict {
	cmd := g.command(lease, extra)
	result, err := cmd.Run(lease.Context())
	v := verdict{result: result, err: err}
	if cause := context.Cause(lease.Context()); errors.Is(cause, soloist.ErrLost) {
		v.lost = cause
		if errors.Is(err, cause) {
			v.err = nil
		}
	}
	return v
}

// exit makes the command's exit of a verdict and of what releasing the lease answered.
func (g *guarded) exit(v verdict, name string, released error) error {
	if v.err != nil {
		g.say("%v", v.err)
	}
	var start *child.StartError
	switch {
	case errors.As(v.err, &start):
		return &exit{code: v.result.Code}
	case v.lost != nil && errors.Is(v.lost, soloist.ErrOverran) && v.result.Stopped:
		return &exit{exitLost, fmt.Errorf("%q: the command was stopped, for it ran for longer than --at-most %v", name, g.atMost)}
	case v.lost != nil:
		return &exit{exitLost, fmt.Errorf("%q: %w; the command %s", name, v.lost, v.fate())}
	case errors.Is(released, soloist.ErrLost):
		return &exit{exitLost, fmt.Errorf("%q: the lease was lost before the command ended: %w", name, released)}
	case released != nil && g.failed:
		g.say("%v; the element has failed for good, or stays unavailable for at most %v", released, g.ttl)
	case released != nil:
		g.say("%v; the name stays unavailable for at most %v", released, max(g.ttl, g.atLeast, g.pause))
	}
	return &exit{code: v.result.Code}
}
