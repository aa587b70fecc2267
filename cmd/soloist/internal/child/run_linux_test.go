package child

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func procAttr(env []string, fds []uintptr, sys *unix.SysProcAttr) *syscall.ProcAttr {
	return &syscall.ProcAttr{Env: env, Files: fds, Sys: sys}
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	plain := write("plain", "echo", 0o644)
	junk := write("junk", "\x01\x02", 0o755)
	orphan := write("orphan", "#!/no/such/interpreter\n", 0o755)
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		args []string
		env  []string
		code int
		says string
	}{
		"own":              {args: sh("exit 7"), code: 7},
		"zero":             {args: sh("exit 0"), code: 0},
		"after TERM":       {args: sh("kill -TERM $$"), code: 143},
		"after KILL":       {args: sh("kill -KILL $$"), code: 137},
		"no file":          {args: []string{"/no/such/file"}, code: 127, says: "no such file"},
		"not in PATH":      {args: []string{"no-such-command"}, env: []string{"PATH=/bin:/usr/bin"}, code: 127, says: "(/bin:/usr/bin)"},
		"no PATH":          {args: []string{"sh", "-c", "exit 5"}, env: []string{}, code: 5},
		"relative PATH":    {args: []string{"sh"}, env: []string{"PATH=:.:bin"}, code: 127},
		"not executable":   {args: []string{plain}, code: 126, says: "chmod +x"},
		"not executable 2": {args: []string{"plain"}, env: []string{"PATH=" + dir}, code: 126, says: "chmod +x"},
		"a directory":      {args: []string{dir}, code: 126, says: "directory"},
		"no program":       {args: []string{junk}, code: 126, says: "#!/bin/sh"},
		"no interpreter":   {args: []string{orphan}, code: 126, says: "interpreter"},
		"a file as folder": {args: []string{plain + "/x"}, code: 127, says: "no such file"},
		"a loop of links":  {args: []string{loop}, code: 126, says: "symbolic links"},
		"a long name":      {args: []string{"/" + strings.Repeat("x", 300)}, code: 126, says: "name too long"},
		"a long argument":  {args: sh(strings.Repeat("x", 1<<20)), code: 126, says: "too long for this system"},
		"a zero byte":      {args: sh("\x00"), code: 126, says: "invalid argument"},
		"no command":       {code: 127, says: "no command"},
		"empty command":    {args: []string{""}, code: 127, says: "no command"},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := (&Command{Args: row.args, Env: row.env}).Run(t.Context())
			if result.Code != row.code {
				t.Errorf("code %d, want %d (%v)", result.Code, row.code, err)
			}
			var start *StartError
			switch {
			case row.says == "" && row.code != 127 && err != nil:
				t.Errorf("error %v", err)
			case row.says != "" && (!errors.As(err, &start) || !strings.Contains(err.Error(), row.says)):
				t.Errorf("error %v, want one that says %q", err, row.says)
			case start != nil && !start.Lasts():
				t.Errorf("%v is told as one that goes away by itself", err)
			}
		})
	}
}

func TestStartErrorsThatGoAway(t *testing.T) {
	for _, err := range []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ETXTBSY, unix.EIO} {
		start := &StartError{Err: os.NewSyscallError("pipe2", err)}
		if start.Lasts() {
			t.Errorf("%v is told as one that lasts", err)
		}
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "here"), []byte("#!/bin/sh\npwd -P\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := begin(t, Command{Args: []string{"./here"}, Dir: dir})
	r.wait(t)
	real, _ := filepath.EvalSymlinks(dir)
	if r.err != nil || r.out.String() != real+"\n" {
		t.Errorf("wrote %q, %v", r.out.String(), r.err)
	}
	result, err := (&Command{Args: []string{"true"}, Dir: dir + "/none"}).Run(t.Context())
	if result.Code != 126 || err == nil || !strings.Contains(err.Error(), "there is no directory") {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestOverBeforeStart(t *testing.T) {
	lost := errors.New("lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(lost)
	file := inTemp(t, "ran")
	if _, err := (&Command{Args: []string{"touch", file}}).Run(ctx); !errors.Is(err, lost) {
		t.Errorf("error %v, want the cause", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it ran")
	}
}

func TestBytesPassUntouched(t *testing.T) {
	env := append(os.Environ(), helper+"=bytes")
	t.Run("writer", func(t *testing.T) {
		var out bytes.Buffer
		if _, err := (&Command{Args: []string{self(t)}, Env: env, Stdout: &out}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.Bytes(), someBytes()) {
			t.Error("other bytes")
		}
	})
	t.Run("file", func(t *testing.T) {
		file, err := os.Create(inTemp(t, "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		if _, err := (&Command{Args: []string{self(t)}, Env: env, Stdout: file}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(file.Name()); !bytes.Equal(got, someBytes()) {
			t.Error("other bytes")
		}
	})
}

func TestStdin(t *testing.T) {
	in := bytes.Repeat([]byte("x\x00y\n"), 100_000)
	var out bytes.Buffer
	result, err := (&Command{Args: []string{"cat"}, Stdin: bytes.NewReader(in), Stdout: &out}).Run(t.Context())
	if err != nil || result.Code != 0 || !bytes.Equal(out.Bytes(), in) {
		t.Errorf("%+v, %v, %d bytes of %d", result, err, out.Len(), len(in))
	}
	t.Run("none", func(t *testing.T) {
		result, err := (&Command{Args: sh("read x; test $? = 1")}).Run(t.Context())
		if err != nil || result.Code != 0 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("not read", func(t *testing.T) {
		result, err := (&Command{Args: sh("exit 4"), Stdin: bytes.NewReader(in)}).Run(t.Context())
		if err != nil || result.Code != 4 {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("never ends", func(t *testing.T) {
		never, stop := io.Pipe()
		defer func() { _ = stop.Close() }()
		result, err := (&Command{Args: sh("exit 4"), Stdin: never}).Run(t.Context())
		if err != nil || result.Code != 4 {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestOutputErrors(t *testing.T) {
	result, err := (&Command{Args: []string{"yes"}, Stdout: failing{}}).Run(t.Context())
	if err == nil || err.Error() != "full" || result.Code != 128+13 && result.Code != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	result, err = (&Command{Args: sh("exec >&- 2>&-; exit 5"), Stdout: &bytes.Buffer{}}).Run(t.Context())
	if err != nil || result.Code != 5 {
		t.Errorf("closed its output: %+v, %v", result, err)
	}
}

func TestOneOrderForOneWriter(t *testing.T) {
	r := begin(t, Command{Args: sh("echo a; echo b >&2; echo c; echo d >&2")})
	r.wait(t)
	if got := r.out.String(); got != "a\nb\nc\nd\n" {
		t.Errorf("wrote %q", got)
	}
}

func TestEndsWhenTold(t *testing.T) {
	r := begin(t, Command{Args: sh(`trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done`), Grace: patience})
	waitFor(t, "ready", r.out.has("ready"))
	r.cancel()
	result := r.wait(t)
	if r.err != nil || result.Code != 3 || !result.Stopped || result.Killed {
		t.Errorf("%+v, %v", result, r.err)
	}
}

// A command that has ended by itself was not stopped, though the context has ended before that is noticed: this process may have stood still.
func TestWhatHasEndedIsNotStopped(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	waitFor(t, "the end of the command", func() bool { return hasEnded(cmd.Process.Pid) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for noticed, times := range map[bool]int{false: 1, true: 100} {
		for range times {
			r := &run{command: &Command{}, pid: cmd.Process.Pid, ended: make(chan struct{}), reaped: true} // as if it were, so that nothing is signalled
			if noticed {
				close(r.ended)
			} else {
				time.AfterFunc(time.Millisecond, func() { close(r.ended) })
			}
			if r.attend(ctx); r.stopped {
				t.Fatalf("stopped; its end was noticed before: %v", noticed)
			}
		}
	}
}

// Keys of a terminal that was lent to a command send their signals to it alone.
func TestSignalsOfTheTerminal(t *testing.T) {
	for lent, want := range map[bool]int{false: 1, true: 4} {
		r := &run{tty: &terminal{lent: lent}, passed: []os.Signal{unix.SIGTERM}}
		if sent := r.sent(); len(sent) != want || slices.Contains(sent, os.Signal(unix.SIGINT)) != lent {
			t.Errorf("lent %v: %v", lent, sent)
		}
	}
}

func TestKilledWhenDeaf(t *testing.T) {
	const deaf = `trap '' TERM; echo ready; while :; do sleep 0.01; done`
	for name, grace := range map[string]time.Duration{"grace": 300 * time.Millisecond, "no grace": 0} {
		t.Run(name, func(t *testing.T) {
			r := begin(t, Command{Args: sh(deaf), Grace: grace})
			waitFor(t, "ready", r.out.has("ready"))
			at := time.Now()
			r.cancel()
			result := r.wait(t)
			if r.err != nil || result.Signal != syscall.SIGKILL || result.Code != 137 || !result.Stopped || !result.Killed {
				t.Errorf("%+v, %v", result, r.err)
			}
			if took := time.Since(at); took < grace/2 {
				t.Errorf("killed after %v of %v", took, grace)
			}
		})
	}
	t.Run("hurry", func(t *testing.T) {
		hurry := make(chan struct{})
		r := begin(t, Command{Args: sh(deaf), Grace: time.Hour, Hurry: hurry})
		waitFor(t, "ready", r.out.has("ready"))
		r.cancel()
		close(hurry)
		if result := r.wait(t); !result.Killed || result.Code != 137 {
			t.Errorf("%+v, %v", result, r.err)
		}
	})
	t.Run("hurry for what is left", func(t *testing.T) {
		hurry, file := make(chan struct{}), inTemp(t, "pid")
		r := begin(t, Command{
			Args:  sh(`sh -c "trap '' TERM; echo \$\$ >$1; while :; do sleep 0.01; done" & trap 'exit 0' TERM; wait`, file),
			Grace: time.Hour, Hurry: hurry,
		})
		pid := pidIn(t, file)
		r.cancel()
		close(hurry)
		if r.wait(t); alive(pid) {
			t.Error("a process is left")
		}
	})
}

// The kill does not wait for anything else that goes on at the same time.
func TestKilledInTimeWhileBusy(t *testing.T) {
	signals := make(chan os.Signal)
	r := begin(t, Command{Args: sh(`trap '' TERM WINCH; echo ready; while :; do sleep 0.01; done`), Grace: 200 * time.Millisecond, Signals: signals})
	waitFor(t, "ready", r.out.has("ready"))
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case signals <- syscall.SIGWINCH:
			case <-stop:
				return
			}
		}
	}()
	r.cancel()
	if result := r.wait(t); result.Code != 137 {
		t.Errorf("%+v", result)
	}
}

func TestStoppedIsStillEnded(t *testing.T) {
	for name, row := range map[string]struct {
		script string
		grace  time.Duration
		code   int
	}{
		"by TERM": {`echo $$; kill -STOP $$; sleep 1000`, patience, 143},
		"by KILL": {`trap '' TERM; echo $$; kill -STOP $$; while :; do kill -STOP $$; done`, 300 * time.Millisecond, 137},
	} {
		t.Run(name, func(t *testing.T) {
			pid := make(chan int, 1)
			r := begin(t, Command{Args: sh(row.script), Grace: row.grace, Started: func(p int) { pid <- p }})
			p := <-pid
			waitFor(t, "stopped", func() bool { q, ok := readProcess(p); return ok && q.state == 'T' })
			r.cancel()
			if result := r.wait(t); result.Code != row.code {
				t.Errorf("%+v, %v", result, r.err)
			}
		})
	}
}

func TestSignalsAreForwarded(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH,
	} {
		t.Run(name, func(t *testing.T) {
			if signal.Ignored(sig) {
				t.Skip("ignored from outside")
			}
			signals := make(chan os.Signal, 1)
			r := begin(t, Command{
				Args:    sh(`trap "echo got; exit 9" $1; echo ready; while :; do sleep 0.01; done`, name),
				Signals: signals, Grace: time.Second,
			})
			waitFor(t, "ready", r.out.has("ready"))
			signals <- sig
			result := r.wait(t)
			if result.Code != 9 || result.Stopped || !slices.Equal(result.Passed, []os.Signal{sig}) || strings.Count(r.out.String(), "got") != 1 {
				t.Errorf("%+v, %v, %q", result, r.err, r.out.String())
			}
			if told := sig == syscall.SIGTERM || sig == syscall.SIGINT; result.Told != told {
				t.Errorf("told to end: %v, want %v", result.Told, told)
			}
		})
	}
	t.Run("to the whole group", func(t *testing.T) {
		signals := make(chan os.Signal, 1)
		r := begin(t, Command{
			Args:    sh(`trap : USR1; sh -c 'trap "echo child; exit" USR1; echo ready; while :; do sleep 0.01; done' & wait; wait; echo end`),
			Signals: signals, Grace: time.Second,
		})
		waitFor(t, "ready", r.out.has("ready"))
		signals <- syscall.SIGUSR1
		close(signals)
		if r.wait(t); !strings.Contains(r.out.String(), "child") {
			t.Errorf("%q", r.out.String())
		}
	})
	t.Run("stop and continue", func(t *testing.T) {
		signals, pid := make(chan os.Signal, 1), make(chan int, 1)
		r := begin(t, Command{Args: []string{"sleep", "1000"}, Signals: signals, Started: func(p int) { pid <- p }, Grace: time.Second})
		p := <-pid
		state := func(want string) func() bool {
			return func() bool { q, ok := readProcess(p); return ok && strings.ContainsRune(want, rune(q.state)) }
		}
		signals <- syscall.SIGTSTP
		waitFor(t, "stopped", state("T"))
		signals <- syscall.SIGCONT
		waitFor(t, "continued", state("SR"))
		r.cancel()
		r.wait(t)
	})
}

func TestDiesWithItsParent(t *testing.T) {
	file := inTemp(t, "pid")
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	parent := foreign(t, []*os.File{null, null, null}, append(os.Environ(), helper+"=run"), nil,
		append([]string{self(t)}, sh(`echo $$ >$1; exec sleep 1000`, file)...)...)
	pid := pidIn(t, file)
	if err := unix.Kill(parent, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitForeign(t, parent)
	waitFor(t, "the child's death", func() bool { return !alive(pid) })
}

// What a command has started ends with its parent, too, wherever it went, if the parent is guarded.
func TestEverythingDiesWithAGuardedParent(t *testing.T) {
	file := inTemp(t, "pid")
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	parent := foreign(t, []*os.File{null, null, null}, append(os.Environ(), helper+"=guarded"), nil,
		append([]string{self(t)}, sh(`(setsid sh -c 'trap "" TERM; echo $$ >$1; while :; do sleep 1000; done' sh $1 &); sleep 1000`, file)...)...)
	pid := pidIn(t, file)
	if err := unix.Kill(parent, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitForeign(t, parent)
	waitFor(t, "the death of the daemon", func() bool { return !alive(pid) })
	// The guard is an orphan of nobody's run: the next test would end it with its own.
	waitFor(t, "the death of all others, and of the guard", func() bool { return len(unregisteredChildren()) == 0 })
}

// What the inner one of two has started ends with it at once: the outer one goes on, and sees to it only when its own command has ended.
func TestEverythingDiesWithANestedParent(t *testing.T) {
	file, nested := inTemp(t, "pid"), inTemp(t, "nested")
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	outer := foreign(t, []*os.File{null, null, null}, append(os.Environ(), helper+"=guarded"), nil,
		append([]string{self(t)}, sh(`env "$4" "$3" sh -c '(setsid sh -c "echo \$\$ >\$1; exec sleep 1000" sh "$1" &); sleep 1000' sh "$1" & echo $! >"$2"; exec sleep 1000`,
			file, nested, self(t), helper+"=guarded")...)...)
	pid := pidIn(t, file)
	if err := unix.Kill(pidIn(t, nested), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the death of the daemon", func() bool { return !alive(pid) })
	if !alive(outer) {
		t.Error("the outer one has ended, too")
	}
	if err := unix.Kill(outer, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitForeign(t, outer)
	waitFor(t, "the death of all others, and of the guards", func() bool { return len(unregisteredChildren()) == 0 })
}

// Linux would kill the command when the thread that forked it ends; Go ends threads.
func TestOutlivesThreads(t *testing.T) {
	r := begin(t, Command{Args: sh(`echo ready; read x; exit 6`), Stdin: newGate(t)})
	waitFor(t, "ready", r.out.has("ready"))
	for range 50 {
		ended := make(chan struct{})
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			close(ended)
		}()
		<-ended
	}
	openGate()
	if result := r.wait(t); result.Code != 6 {
		t.Errorf("%+v, %v", result, r.err)
	}
}

var openGate func()

// newGate is an input that is empty until openGate ends it.
func newGate(t *testing.T) io.Reader {
	t.Helper()
	r, w := io.Pipe()
	openGate = func() { _ = w.Close() }
	return r
}

// Commands that run cost no threads: hundreds are no burden.
func TestCommandsTakeNoThreads(t *testing.T) {
	if fd, err := unix.PidfdOpen(os.Getpid(), unix.PIDFD_NONBLOCK); err != nil {
		t.Skip("this kernel is older than 5.10: ", err)
	} else {
		_ = unix.Close(fd)
	}
	threads := func() int {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(tasks)
	}
	const commands = 100
	before := threads()
	var runs []*running
	for range commands {
		started := make(chan int, 1)
		runs = append(runs, begin(t, Command{Args: []string{"sleep", "1000"}, Started: func(pid int) { started <- pid }}))
		<-started
	}
	if more := threads() - before; more > commands/2 {
		t.Errorf("%d commands take %d threads", commands, more)
	}
	for _, r := range runs {
		r.cancel()
	}
	for _, r := range runs {
		r.wait(t)
	}
}

// A nice command yields to others.
func TestNice(t *testing.T) {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	pid := make(chan int, 1)
	r := begin(t, Command{Args: []string{"sleep", "1000"}, Nice: 5, Started: func(p int) { pid <- p }})
	got, err := unix.Getpriority(unix.PRIO_PROCESS, <-pid)
	if want := max(own-5, 1); err != nil || got != want {
		t.Errorf("priority %d, want %d (%v)", got, want, err)
	}
	r.cancel()
	r.wait(t)
}
