//go:build unix

package servers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

var _ Test = testing.TB(nil)

// A Process is a server that runs as a child of the test program. It dies with it.
type Process struct {
	t     Test
	name  string
	path  string
	args  []string
	env   []string // beside that of the test program
	dir   string
	as    *syscall.Credential
	ready func(context.Context) error

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// Patience is how long a test waits for what must come: a last resort, that the slowest machine does not need. Where it is over, what was
// waited for will not come.
const Patience = 5 * time.Minute

// Program finds the first of the programs that is here, on the PATH or at one of the patterns. Without one the test is skipped, or fails; see
// Missing. One of the names must be in tools/packages.txt, which test/rules checks; so they are literals.
func Program(t Test, what string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		if found, _ := filepath.Glob(name); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	Missing(t, "%s is not here: none of %v is on the PATH", what, names)
	return ""
}

// Missing skips the test with a message, or fails it when SOLOIST_TEST_REQUIRE is set.
func Missing(t Test, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv("SOLOIST_TEST_REQUIRE") != "" {
		t.Fatalf("%s, and SOLOIST_TEST_REQUIRE is set", why)
	}
	fmt.Fprintln(os.Stderr, "SKIPPED:", why)
	t.Skipf("%s", why)
}

// Long skips a test that takes long when short ones are asked for, as make check does.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long: make test runs it")
	}
}

// Live skips a test that takes minutes, unless SOLOIST_TEST_LIVE is set, as make live does.
func Live(t testing.TB) {
	t.Helper()
	if os.Getenv("SOLOIST_TEST_LIVE") == "" {
		t.Skip("it takes minutes: make live runs it")
	}
}

// fromEnvironment returns SOLOIST_TEST_<NAME>_URL.
func fromEnvironment(name string) string { return os.Getenv("SOLOIST_TEST_" + name + "_URL") }

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// unprivileged returns whom servers that refuse to run as root are run as: nil when we are not root. dir is given to them.
func unprivileged(t Test, dir string) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatalf("a server that refuses to run as root needs the user nobody: %v", err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, int(uid), int(gid)))
	})
	if err != nil {
		t.Fatalf("giving %s to nobody: %v", dir, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// launch starts a server and waits until ready returns nil. It ends with the test.
func launch(t Test, p *Process) *Process {
	t.Helper()
	p.t = t
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// Start starts the server again after Kill or Stop, on the same port with the same data, and waits until it is ready.
func (p *Process) Start() {
	p.t.Helper()
	log, err := os.OpenFile(p.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Fatalf("making the log of %s: %v", p.name, err)
	}
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.Env = append(os.Environ(), p.env...)
	cmd.SysProcAttr = attributes(p.as)
	err = cmd.Start()
	_ = log.Close()
	if err != nil {
		p.t.Fatalf("starting %s: %v", p.name, err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	p.mu.Lock()
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	p.waitReady(done)
}

func (p *Process) waitReady(done chan struct{}) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for limit := time.Second; ; {
		try, end := context.WithTimeout(ctx, limit)
		err := p.ready(try)
		if try.Err() != nil { // a server can accept a connection while it starts, and never respond on it
			limit *= 2
		}
		end()
		if err == nil {
			return
		}
		select {
		case <-done:
			p.t.Fatalf("%s ended by itself while starting: %v\n%s", p.name, err, p.tail())
		case <-ctx.Done():
			p.t.Fatalf("%s was not ready within %v: %v\n%s", p.name, Patience, err, p.tail())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// LogFile is the path of what the server has printed.
func (p *Process) LogFile() string { return filepath.Join(p.dir, p.name+".log") }

func (p *Process) tail() string {
	text, _ := os.ReadFile(p.LogFile())
	return string(text[max(0, len(text)-4000):])
}

// PID is that of the server.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Ended returns how the server's last process has ended; nil while it is running.
func (p *Process) Ended() *os.ProcessState {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.mu.Unlock()
	select {
	case <-done:
		return cmd.ProcessState
	default:
		return nil
	}
}

// Kill ends the server with SIGKILL, also when it is paused, and waits until it is gone.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// Stop ends the server with SIGTERM and waits until it is gone.
func (p *Process) Stop() { p.end(syscall.SIGTERM) }

func (p *Process) end(sig syscall.Signal) {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.mu.Unlock()
	_ = cmd.Process.Signal(sig)
	select {
	case <-done:
	case <-time.After(Patience):
		_ = cmd.Process.Kill()
		<-done
	}
}

// Pause stops the server with SIGSTOP: its connections stay, and nothing answers.
func (p *Process) Pause() {
	p.t.Helper()
	p.Signal(syscall.SIGSTOP)
	p.mu.Lock()
	pid := p.cmd.Process.Pid
	p.mu.Unlock()
	untilStopped(pid)
}

// untilStopped waits until all threads of processes have come to a stop, which is a moment after the signal; where there is no /proc, not
// at all.
func untilStopped(pids ...int) {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if !slices.ContainsFunc(pids, goesOn) {
			return
		}
	}
}

// goesOn reports whether a process has a thread that is not stopped.
func goesOn(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return slices.ContainsFunc(threads, func(stat string) bool {
		fields := fieldsOf(stat)
		return len(fields) > 0 && fields[0] != "T" && fields[0] != "Z"
	})
}

// Resume lets a paused server go on.
func (p *Process) Resume() { p.Signal(syscall.SIGCONT) }

// Signal sends the server a signal.
func (p *Process) Signal(sig syscall.Signal) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("sending %v to %s: %v", sig, p.name, err)
	}
}

// Wait returns when the condition holds, and fails the test when Patience is over.
func Wait(t Test, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v without success for %s", Patience, what)
		}
	}
}

// listening returns nil when something accepts connections at addr.
func listening(addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return c.Close()
	}
}
