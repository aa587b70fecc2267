package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// A process is a replica as the director sees it.
type process struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	log    tail
	ending atomic.Bool   // it has been told to end
	gone   chan struct{} // closed when it has ended and been waited for
}

// launch starts a replica and notes what it tells. If it ends without having been told to, the history fails.
func launch(h *history, name, executable string, args []string) (*process, error) {
	// No context ends it: it is told to end, and by which signal.
	p := &process{name: name, cmd: exec.CommandContext(context.Background(), executable, args...), gone: make(chan struct{})}
	p.cmd.Stderr = &p.log
	p.cmd.SysProcAttr = attributes()
	out, err := p.pipes()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting replica %s: %w", name, err)
	}
	h.add(event{Replica: name, Kind: started})
	go p.follow(h, out)
	return p, nil
}

func (p *process) pipes() (out io.Reader, err error) {
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		out, err = p.cmd.StdoutPipe()
	}
	return out, err
}

// follow notes what the process tells until its end, and waits for it.
func (p *process) follow(h *history, out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil { // a killed process may have begun a line
			e.Replica = p.name
			h.add(e)
		}
	}
	err := p.cmd.Wait()
	if !p.ending.Load() {
		h.fail(p.ended(err))
	}
	close(p.gone)
}

// ended says how the process ended by itself. Whoever adopts orphans in this process may have waited for it before us.
func (p *process) ended(err error) error {
	how := "exit status 0"
	if err != nil && !errors.Is(err, syscall.ECHILD) {
		how = err.Error()
	}
	return fmt.Errorf("replica %s has ended by itself, %s; it said: %s", p.name, how, p.log.String())
}

// tell sends a command. A process that has ended needs none.
func (p *process) tell(command string) { _, _ = io.WriteString(p.in, command+"\n") }

// signal sends a signal, unless the process has ended.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to replica %s: %w", sig, p.name, err)
	}
	return nil
}

// end sends the signal that ends the process.
func (p *process) end(sig syscall.Signal) error {
	p.ending.Store(true)
	return p.signal(sig)
}

func (p *process) running() bool {
	select {
	case <-p.gone:
		return false
	default:
		return !p.ending.Load()
	}
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailLength = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailLength; extra > 0 {
		t.text = bytes.Clone(t.text[extra:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.text) == 0 {
		return "nothing"
	}
	return strings.TrimSpace(string(t.text))
}
