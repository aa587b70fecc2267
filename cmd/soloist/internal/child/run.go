//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package child

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// leaveGrace is the time to end for what a command left behind, if Grace is not shorter.
	leaveGrace = 2 * time.Second
	// dieWithin is how long a killed process may take to be gone. Longer takes what hangs in the kernel.
	dieWithin = 5 * time.Second
)

// RunVariable names the variable by which the processes of a run are known. Its value begins with that of this process,
// so that a soloist within a soloist belongs to both.
const RunVariable = Prefix + "RUN"

// A run is one execution of a command.
type run struct {
	command  *Command
	pid      int // of the command, and of its group
	id       string
	tty      *terminal
	refused  int // how often it asked for the terminal and could not have it
	begun    time.Time
	stopped  bool
	passed   []os.Signal // of Command.Signals
	killed   atomic.Bool
	killAt   time.Time   // when stopped
	killer   *time.Timer // kills the group at killAt, whatever else goes on
	stops    chan unix.Signal
	goesOn   <-chan struct{}
	ended    chan struct{} // the command has ended, and is not reaped yet where the system can wait without reaping
	mu       sync.Mutex
	reaped   bool // the pid may be another process's
	status   unix.WaitStatus
	relation // what the system knows of the processes of the run
}

// Run starts the command and returns when it and what it started are gone. When ctx ends they get SIGTERM, and SIGKILL
// at most Grace later.
//
// The result's Code is always right to exit with, unless ctx ended before the command was started: then the error is
// the cause of that. If the result's Ran is false, the error is that or a *StartError. Otherwise it tells what else
// went wrong, which says nothing of the command: a *LeftError, ErrOutputHeld, ErrNoTerminal, or an error of copying input or output.
func (c *Command) Run(ctx context.Context) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	r := &run{command: c, id: instance + newID(), stops: make(chan unix.Signal, 1), ended: make(chan struct{})}
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	file, err := c.lookup(env)
	if err != nil {
		return notStarted(err)
	}
	streams, err := c.connect()
	if err != nil {
		return notStarted(&StartError{file, CodeNotExecutable, "its input and output can't be connected: " + err.Error(), err})
	}
	beginJobControl()
	r.goesOn = goesOn()
	r.tty = terminalOf(c)
	defer r.tty.close()
	if err := r.start(file, marked(env, r.id), streams.files); err != nil {
		streams.abandon()
		return notStarted(startError(file, err))
	}
	streams.run(c.Stdin)
	r.tty.lendEagerly(r.pid, c.Stdout)
	if c.Started != nil {
		c.Started(r.pid)
	}
	r.attend(ctx)
	err = r.clear()
	result := r.reap()
	r.discard()
	err = errors.Join(err, streams.end())
	r.tty.restore()
	if r.refused > 0 {
		err = errors.Join(ErrNoTerminal, err)
	}
	return result, err
}

func notStarted(err error) (Result, error) {
	var start *StartError
	if errors.As(err, &start) {
		return Result{Code: start.Code}, err
	}
	return Result{Code: CodeNotExecutable}, err
}

func newID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// marked is env with the variable by which the run's processes are known.
func marked(env []string, id string) []string {
	if outer, ok := os.LookupEnv(RunVariable); ok && outer != "" {
		id = outer + "/" + id
	}
	kept := make([]string, 0, len(env)+1)
	for _, entry := range env {
		if nameOf(entry) != RunVariable {
			kept = append(kept, entry)
		}
	}
	return append(kept, RunVariable+"="+id)
}

// start starts the command, and has its end noticed.
func (r *run) start(file string, env []string, files [3]*os.File) error {
	attr := &syscall.ProcAttr{
		Dir:   r.command.Dir,
		Env:   env,
		Files: []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()},
		Sys:   attributes(),
	}
	r.begun = time.Now()
	pid, err := r.spawn(file, attr)
	runtime.KeepAlive(files)
	if err != nil {
		return err
	}
	r.pid = pid
	if r.command.Nice > 0 {
		r.benice(r.command.Nice)
	}
	go func() {
		defer close(r.ended)
		r.await()
	}()
	return nil
}

// attend does what is to be done until the command ends.
func (r *run) attend(ctx context.Context) {
	signals, done := r.command.Signals, ctx.Done()
	var hurry <-chan struct{}
	var due <-chan time.Time
	stop := func() {
		if done = nil; r.over() { // this process may have stood still meanwhile
			return
		}
		r.stop()
		hurry, due = r.command.Hurry, time.After(time.Until(r.killAt)-lead(r.command.Grace))
	}
	goOn := func(timePassed bool) {
		if timePassed && !r.stopped && !r.mayContinue(ctx) {
			stop()
			return
		}
		r.signalGroup(unix.SIGCONT)
		if timePassed {
			for _, p := range r.strays() {
				_ = p.signal(unix.SIGCONT)
			}
		}
	}
	for {
		select {
		case <-r.ended:
			return
		case <-done:
			stop()
		case <-due:
			due, hurry = nil, nil
			r.kill()
		case <-hurry:
			r.killAt = time.Now()
			due, hurry = nil, nil
			r.kill()
		case sig, ok := <-signals:
			if !ok {
				signals = nil
			} else if s, is := sig.(syscall.Signal); is {
				if !slices.Contains(r.passed, sig) {
					r.passed = append(r.passed, sig)
				}
				r.signalGroup(s)
			}
		case sig := <-r.stops:
			goOn(r.suspend(sig))
		case <-r.goesOn:
			r.goesOn = goesOn()
			goOn(true)
		}
	}
}

// mayContinue reports whether a command that was stopped may go on.
func (r *run) mayContinue(ctx context.Context) bool {
	return ctx.Err() == nil && (r.command.MayContinue == nil || r.command.MayContinue() == nil)
}

// lead is by how much the kill begins before its time, because looking for processes takes a moment.
func lead(grace time.Duration) time.Duration { return min(grace/8, 100*time.Millisecond) }

// stop asks everything of the run to end, and sees to it that the group is killed in time even if this goroutine is
// held up.
func (r *run) stop() {
	r.killAt = time.Now().Add(r.command.Grace)
	r.stopped = true
	atLatest := r.command.Grace
	if atLatest <= 0 {
		atLatest = 50 * time.Millisecond // attend kills at once; this is for when it is held up
	}
	r.killer = time.AfterFunc(atLatest, func() {
		r.killed.Store(true)
		r.signalGroup(unix.SIGKILL)
	})
	if r.command.Grace <= 0 {
		return
	}
	r.signalGroup(unix.SIGTERM)
	r.signalGroup(unix.SIGCONT) // a stopped process is told, too
	for _, p := range r.strays() {
		p.end()
	}
}

// kill kills everything of the run that is known now.
func (r *run) kill() {
	r.killed.Store(true)
	strays := r.strays() // before the command ends: after it nobody knows whose they were
	r.signalGroup(unix.SIGKILL)
	for _, p := range strays {
		_ = p.signal(unix.SIGKILL)
	}
}

// clear ends what is left when the command has ended.
func (r *run) clear() error {
	killAt := r.killAt
	if !r.stopped {
		killAt = time.Now().Add(min(r.command.Grace, leaveGrace))
	}
	told := make(map[int]bool)
	var killing time.Time
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		left, err := r.left()
		if len(left) == 0 {
			return err
		}
		late := time.Since(killAt)
		if late >= 0 {
			r.killCgroup()
			if killing.IsZero() {
				killing = time.Now()
			}
		}
		for _, p := range left {
			switch {
			case late >= 0:
				r.killed.Store(true)
				_ = p.signal(unix.SIGKILL)
			case !told[p.pid]:
				told[p.pid] = true
				p.end()
			}
		}
		if !killing.IsZero() && time.Since(killing) > dieWithin {
			return leftError(left)
		}
		if late < 0 {
			pause = min(pause, -late)
		}
		select {
		case <-time.After(pause):
		case <-r.hurried():
			killAt = time.Now()
			r.killAt = killAt
		}
	}
}

// hurried is Hurry while it can still make a difference.
func (r *run) hurried() <-chan struct{} {
	if !r.stopped || time.Now().After(r.killAt) {
		return nil
	}
	return r.command.Hurry
}

func leftError(left []process) error {
	e := &LeftError{}
	for _, p := range left {
		e.Pids = append(e.Pids, p.pid)
	}
	return e
}

// reap takes the command's status and returns the result.
func (r *run) reap() Result {
	if r.killer != nil {
		r.killer.Stop()
	}
	r.mu.Lock()
	r.status = r.reapRegistered()
	r.reaped = true
	r.mu.Unlock()
	result := Result{Ran: true, Passed: r.sent(), Stopped: r.stopped, Killed: r.killed.Load(), Duration: time.Since(r.begun)}
	result.Told = slices.Contains(r.passed, os.Signal(unix.SIGTERM)) || slices.Contains(r.passed, os.Signal(unix.SIGINT))
	if r.status.Signaled() {
		result.Signal = r.status.Signal()
		result.Code = 128 + int(r.status.Signal())
	} else {
		result.Code = r.status.ExitStatus()
	}
	return result
}

// sent are the signals that were passed on, and those that a terminal which was lent sends to the command's group alone: of
// keys, and when it is closed.
func (r *run) sent() []os.Signal {
	if r.tty == nil || !r.tty.lent {
		return r.passed
	}
	return append(slices.Clone(r.passed), unix.SIGINT, unix.SIGQUIT, unix.SIGHUP)
}

// signalGroup signals the command's group, unless its number may already be another's.
func (r *run) signalGroup(sig unix.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reaped {
		_ = unix.Kill(-r.pid, sig)
		if sig == unix.SIGKILL {
			r.killCgroup()
		}
	}
}

// end asks a process to end, also one that is stopped.
func (p process) end() {
	_ = p.signal(unix.SIGTERM)
	_ = p.signal(unix.SIGCONT)
}
