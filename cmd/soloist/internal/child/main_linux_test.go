package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/soloist-dev/soloist/test/servers"
)

// helper names, in the environment, what the test binary is to do instead of testing.
const helper = "CHILD_TEST_HELPER"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "end-orphaned" {
		EndOrphaned(os.Stdin, os.Args[2])
		os.Exit(0)
	}
	switch os.Getenv(helper) {
	case "":
	case "bytes":
		_, _ = os.Stdout.Write(someBytes())
		os.Exit(0)
	case "stoppable":
		fmt.Println(isStoppable())
		os.Exit(0)
	case "stops":
		helperStops()
		os.Exit(0)
	case "run": // runs its arguments as soloist would
		os.Exit(helperRun())
	case "guarded": // as "run", and guarded
		if err := errors.Join(os.Unsetenv(helper), Guard(os.Args[0], "end-orphaned")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(98)
		}
		os.Exit(helperRun())
	default:
		os.Exit(99)
	}
	if err := Adopt(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, sig := range []os.Signal{os.Interrupt, unix.SIGHUP} { // as in the background of a script, and under nohup: no shell that is started here could trap it
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	code := m.Run()
	if code == 0 && !eventually(func() bool { return len(unregisteredChildren()) == 0 && len(registered()) == 0 }) {
		fmt.Fprintln(os.Stderr, "children or zombies are left; started and not reaped:", registered())
		for _, pid := range unregisteredChildren() {
			p, _ := readProcess(pid)
			args, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
			fmt.Fprintf(os.Stderr, "%+v %q\n", p, args)
		}
		code = 1
	}
	os.Exit(code)
}

func init() {
	if os.Getenv(helper) == "stoppable" {
		runtime.LockOSThread() // the main goroutine stays on the first thread
	}
}

// isStoppable asks once, or many times while the first thread of the process starts others.
func isStoppable() bool {
	if len(os.Args) == 1 {
		return stoppable()
	}
	answers := make(chan bool)
	go func() {
		for range 200 {
			answers <- stoppable()
		}
		close(answers)
	}()
	for all := true; ; {
		select {
		case is, more := <-answers:
			if all = all && (is || !more); !more {
				return all
			}
		default:
			_, _ = syscall.ForkExec("/nothing", nil, nil) // blocks all signals of this thread
		}
	}
}

// stops is how often helperStops stops the process.
const stops = 50

// helperStops writes something after each stop. Other threads are at work meanwhile, so that there is one that could go on.
func helperStops() {
	for range 3 {
		go func() {
			for {
				_ = os.Getpid()
			}
		}()
	}
	for range stops {
		stopOurselves(os.Getpid())
		_, _ = os.Stdout.WriteString("x")
	}
}

func helperRun() int {
	if err := Adopt(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, Forwarded()...)
	c := Command{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Grace: time.Second, Signals: signals}
	if os.Getenv("CHILD_TEST_LOST") != "" {
		c.MayContinue = func() error { return os.ErrDeadlineExceeded }
	}
	if os.Getenv("CHILD_TEST_INPUT") != "" {
		c.Stdin = strings.NewReader("")
	}
	result, err := c.Run(context.Background())
	fmt.Fprintf(os.Stderr, "helper: code %d, %v\n", result.Code, err)
	return result.Code
}

func someBytes() []byte {
	b := make([]byte, 1<<20)
	source := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(source.Uint32())
	}
	return b
}

const patience = servers.Patience

func eventually(is func() bool) bool {
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(2 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return false
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	if !eventually(is) {
		t.Fatalf("still not: %s", what)
	}
}

func alive(pid int) bool {
	p, ok := readProcess(pid)
	return ok && !gone(p)
}

// A buffer can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *buffer) has(s string) func() bool {
	return func() bool { return strings.Contains(b.String(), s) }
}

func sh(script string, args ...string) []string {
	return append([]string{"/bin/sh", "-c", script, "sh"}, args...)
}

// A running command.
type running struct {
	out    *buffer
	cancel context.CancelFunc
	done   chan struct{}
	result Result
	err    error
}

func begin(t *testing.T, c Command) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{out: &buffer{}, cancel: cancel, done: make(chan struct{})}
	if c.Stdout == nil {
		c.Stdout, c.Stderr = r.out, r.out
	}
	go func() {
		defer close(r.done)
		r.result, r.err = c.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); r.wait(t) })
	return r
}

func (r *running) wait(t *testing.T) Result {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		t.Fatalf("the command does not end; it wrote %q", r.out.String())
	}
	return r.result
}

// pidIn waits for a number in a file.
func pidIn(t *testing.T, file string) int {
	t.Helper()
	pid := 0
	waitFor(t, "a process id in "+file, func() bool {
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return pid
}

func inTemp(t *testing.T, name string) string { return filepath.Join(t.TempDir(), name) }

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// foreign starts a process that the package is to take for nobody's run.
func foreign(t *testing.T, files []*os.File, env []string, sys *unix.SysProcAttr, args ...string) int {
	t.Helper()
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
	}
	pid, err := startRegistered(args[0], args, procAttr(env, fds, sys))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		children.Lock()
		defer children.Unlock()
		if _, still := children.pids[pid]; still {
			_ = unix.Kill(pid, unix.SIGKILL)
			_, _ = unix.Wait4(pid, nil, 0, nil)
			delete(children.pids, pid)
		}
	})
	return pid
}

// waitForeign waits for a process of foreign.
func waitForeign(t *testing.T, pid int) unix.WaitStatus {
	t.Helper()
	var status unix.WaitStatus
	waitFor(t, "the end of a process", func() bool {
		children.Lock()
		defer children.Unlock()
		got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
		if got == pid || err != nil {
			delete(children.pids, pid)
			return true
		}
		return false
	})
	return status
}

var _ io.Writer = (*buffer)(nil)
