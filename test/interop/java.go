//go:build unix

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// ErrRefused reports that a peer did not get a lock, or may not extend it.
var ErrRefused = errors.New("refused by the peer's library")

// A Peer is a process, in Java or another language, that locks with one library on one server. It is safe for use by many goroutines at once. It ends
// with the test; what it holds then stays held until it expires, as with any process that dies.
type Peer struct {
	cmd  *exec.Cmd
	kill context.CancelFunc
	log  string // path of what it says to standard error
	dead chan struct{}

	mu      sync.Mutex
	in      io.Writer
	last    int
	replies map[string]chan []string
}

// patience is how long a peer may take to answer beyond what it was asked to take: virtual machines start slowly.
const patience = servers.Patience

// Start starts a peer in Java and waits until its server has answered it.
func Start(t servers.Test, o Options) *Peer {
	t.Helper()
	classPath := Build(t, o.ShedLock)
	args, err := o.arguments(classPath)
	if err != nil {
		t.Fatalf("starting a peer: %v", err)
	}
	return startPeer(t, o.Provider, "java", args, nil)
}

// startPeer starts a program that obeys as test/java does, with additions to the environment, and waits until its server has answered it. what is how
// the peer is called when the test fails.
func startPeer(t servers.Test, what, path string, args, env []string) *Peer {
	t.Helper()
	p := &Peer{log: filepath.Join(servers.Directory(t), "peer.log"), dead: make(chan struct{}), replies: map[string]chan []string{}}
	ready := p.expect("0")
	if err := p.launch(path, args, env); err != nil {
		t.Fatalf("starting a peer: %v", err)
	}
	t.Cleanup(func() {
		p.Kill()
		if failed, ok := t.(interface{ Failed() bool }); ok && failed.Failed() {
			t.Logf("a peer (%s) said:\n%s", what, p.said())
		}
	})
	if _, err := p.await("0", ready, patience); err != nil {
		t.Fatalf("starting a peer (%s): %v", what, err)
	}
	return p
}

func (p *Peer) launch(path string, args, env []string) error {
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close()
	var ctx context.Context
	ctx, p.kill = context.WithCancel(context.Background())
	p.cmd = exec.CommandContext(ctx, path, args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = attributes()
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go p.listen(out)
	return nil
}

// listen hands the replies to those who wait for them.
func (p *Peer) listen(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		words := strings.Split(lines.Text(), "\t")
		p.mu.Lock()
		reply := p.replies[words[0]]
		delete(p.replies, words[0])
		p.mu.Unlock()
		if reply != nil {
			reply <- words[1:]
		}
	}
	_ = p.cmd.Wait()
	close(p.dead)
}

func (p *Peer) expect(id string) chan []string {
	reply := make(chan []string, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replies[id] = reply
	return reply
}

// ask makes a request that takes as long as it says, and returns its id and the reply.
func (p *Peer) ask(takes time.Duration, words ...string) (id string, reply []string, err error) {
	p.mu.Lock()
	p.last++
	id = strconv.Itoa(p.last)
	p.mu.Unlock()
	answer := p.expect(id)
	p.mu.Lock()
	_, err = io.WriteString(p.in, id+"\t"+strings.Join(words, "\t")+"\n")
	p.mu.Unlock()
	if err != nil {
		return id, nil, fmt.Errorf("asking a peer to %s: %w\n%s", words[0], err, p.said())
	}
	reply, err = p.await(id, answer, takes+patience)
	if err != nil {
		err = fmt.Errorf("a peer was asked to %s: %w", words[0], err)
	}
	return id, reply, err
}

func (p *Peer) await(id string, answer chan []string, within time.Duration) ([]string, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	var words []string
	select {
	case words = <-answer:
	case <-p.dead:
		return nil, fmt.Errorf("it has ended:\n%s", p.said())
	case <-timer.C:
		return nil, fmt.Errorf("request %s was not answered within %v:\n%s", id, within, p.said())
	}
	switch words[0] {
	case "refused":
		return nil, ErrRefused
	case "error":
		return nil, errors.New(words[1])
	}
	return words[1:], nil
}

// said returns the end of what the peer said to standard error.
func (p *Peer) said() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-4000):])
}

// Kill ends the peer with SIGKILL, also when it is paused, and waits until it is gone.
func (p *Peer) Kill() {
	p.kill()
	<-p.dead
}

// Pause stops the peer with SIGSTOP; Resume lets it go on.
func (p *Peer) Pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused peer go on.
func (p *Peer) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// A Lock is what a peer holds.
type Lock struct {
	Token int64 // of Redisson's RFencedLock; else 0
	peer  *Peer
	id    string
}

// Lock tries once to take a lock; ErrRefused says that somebody else has it. Durations are of whole milliseconds. For Redisson an
// atMost of 0 leaves the lock to its watchdog, and atLeast must be 0.
func (p *Peer) Lock(name string, atMost, atLeast time.Duration) (*Lock, error) {
	return p.Wait(name, atMost, atLeast, 0)
}

// Wait is Lock that waits: ShedLock by trying again every few milliseconds, Redisson by its messages.
func (p *Peer) Wait(name string, atMost, atLeast, wait time.Duration) (*Lock, error) {
	id, reply, err := p.ask(wait, "lock", name, millis(atMost), millis(atLeast), millis(wait))
	if err != nil {
		return nil, err
	}
	token, err := strconv.ParseInt(reply[0], 10, 64)
	return &Lock{Token: token, peer: p, id: id}, err
}

// Unlock gives a lock back as its library does. That of a lock that has been lost may do nothing, fail, or take it from another.
func (l *Lock) Unlock() error {
	_, _, err := l.peer.ask(0, "unlock", l.id)
	return err
}

// Extend makes a lock of ShedLock last for atMost from now; ErrRefused says that it is not held any more.
func (l *Lock) Extend(atMost, atLeast time.Duration) error {
	_, _, err := l.peer.ask(0, "extend", l.id, millis(atMost), millis(atLeast))
	return err
}

// Count increments the integer in a file n times, each time under the lock, which is all that protects it. ShedLock runs each
// increment as it runs a method annotated with SchedulerLock, and comes again if that was not its turn.
func (p *Peer) Count(name, file string, n int) error {
	_, _, err := p.ask(5*time.Minute, "count", name, file, strconv.Itoa(n))
	return err
}

// A Result is what a benchmark measured.
type Result struct {
	Case       string  `json:"case"`
	Threads    int     `json:"threads"`
	Seconds    float64 `json:"seconds"`
	Operations int64   `json:"operations"` // pairs of lock and unlock; in case D tries
	Rate       float64 `json:"rate"`       // operations per second
	P50        float64 `json:"p50"`        // µs an operation
	P99        float64 `json:"p99"`        // µs an operation
	All        int64   `json:"all"`        // operations with those of the warm-up
}

// Bench measures for d, after a warm-up of d but at most 3 s: pairs of lock and unlock with each thread on its own name (A and,
// by custom with 64 threads, B), or tries at a name that is held (D). Start the peer with Options.Fast and Connections for it.
func (p *Peer) Bench(which string, d time.Duration, threads int) (Result, error) {
	_, reply, err := p.ask(2*d, "bench", which, strconv.FormatFloat(d.Seconds(), 'f', -1, 64), strconv.Itoa(threads))
	if err != nil {
		return Result{}, err
	}
	var r Result
	err = json.Unmarshal([]byte(reply[0]), &r)
	return r, err
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
