package fleet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// A Process is a replica as its director sees it.
type Process struct {
	Name string
	Gone <-chan struct{} // closed when it has ended and been waited for

	cmd    *exec.Cmd
	in     io.WriteCloser
	log    tail
	ending atomic.Bool // it has been told to end
	gone   chan struct{}
}

// A Launch says how to start a replica.
type Launch struct {
	Name       string
	Executable string
	Args       []string
	Env        []string          // nil: that of this process
	Line       func(line []byte) // gets each line that the replica writes, until the call returns
	Failed     func(*EndedError) // gets that it has ended without having been told to, or has crashed, before Gone is closed
}

// Start starts a replica. No context ends it: it is told to end, and by which signal.
func (l Launch) Start() (*Process, error) {
	p := &Process{Name: l.Name, cmd: exec.CommandContext(context.Background(), l.Executable, l.Args...), gone: make(chan struct{})}
	p.Gone = p.gone
	p.cmd.Stderr, p.cmd.Env = &p.log, l.Env
	p.cmd.SysProcAttr = attributes()
	out, err := p.pipes()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting replica %s: %w", l.Name, err)
	}
	go p.follow(l, out)
	return p, nil
}

func (p *Process) pipes() (out io.Reader, err error) {
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		out, err = p.cmd.StdoutPipe()
	}
	return out, err
}

// follow passes on what the process tells until its end, and waits for it.
func (p *Process) follow(l Launch, out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		l.Line(lines.Bytes())
	}
	e := p.ended(p.cmd.Wait())
	if e.Crashed || !p.ending.Load() {
		l.Failed(e)
	}
	close(p.gone)
}

// An EndedError says that a replica has ended by itself, or has crashed when it was told to end.
type EndedError struct {
	Name    string
	How     string // it ended: "exit status 2"
	Said    string // the beginning and the end of what it wrote to standard error
	Crashed bool   // a panic or its own fault ended it, not its own decision nor somebody's SIGKILL
}

func (e *EndedError) Error() string {
	what := "ended by itself"
	if e.Crashed {
		what = "crashed"
	}
	return fmt.Sprintf("replica %s has %s, %s; it said: %s", e.Name, what, e.How, e.Said)
}

// crashStatus is the exit status of a Go program that panics.
const crashStatus = 2

// ended reports how the process ended. A caller that adopts orphans in this process may have waited for it
// before us, and nobody knows its status then.
func (p *Process) ended(err error) *EndedError {
	e := &EndedError{Name: p.Name, How: "exit status 0", Said: p.log.String()}
	var exit *exec.ExitError
	switch {
	case errors.Is(err, syscall.ECHILD):
		e.How = "with a status that somebody else has collected"
		e.Crashed = strings.Contains(e.Said, "panic: ") || strings.Contains(e.Said, "fatal error: ")
	case errors.As(err, &exit):
		status, _ := exit.Sys().(syscall.WaitStatus)
		e.How = exit.String()
		e.Crashed = exit.ExitCode() == crashStatus || status.Signaled() && slices.Contains(ownSignals, status.Signal())
	case err != nil:
		e.How = err.Error()
	}
	return e
}

// ownSignals are those by which a process is ended for what it has done itself.
var ownSignals = []syscall.Signal{syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGSEGV, syscall.SIGTRAP}

// Tell sends a command. A process that has ended needs none.
func (p *Process) Tell(command string) { _, _ = io.WriteString(p.in, command+"\n") }

// Signal sends a signal, unless the process has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to replica %s: %w", sig, p.Name, err)
	}
	return nil
}

// End sends the signal that ends the process.
func (p *Process) End(sig syscall.Signal) error {
	p.ending.Store(true)
	return p.Signal(sig)
}

// Running reports whether it has neither ended nor been told to.
func (p *Process) Running() bool {
	select {
	case <-p.gone:
		return false
	default:
		return !p.ending.Load()
	}
}

// Said is the end of what it has written to standard error.
func (p *Process) Said() string { return p.log.String() }

// A tail keeps the beginning and the end of what is written to it: a panic says first what has happened.
type tail struct {
	mu    sync.Mutex
	first []byte
	last  []byte
	cut   bool
}

const tailLength = 4000 // of each

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(p), tailLength-len(t.first))
	t.first = append(t.first, p[:n]...)
	t.last = append(t.last, p[n:]...)
	if extra := len(t.last) - tailLength; extra > 0 {
		t.last, t.cut = bytes.Clone(t.last[extra:]), true
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	gap := ""
	if t.cut {
		gap = "\n[...]\n"
	}
	if text := strings.TrimSpace(string(t.first) + gap + string(t.last)); text != "" {
		return text
	}
	return "nothing"
}
