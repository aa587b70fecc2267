package child

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/test/servers"

	"golang.org/x/sys/unix"
)

// A pty is a terminal with somebody in front of it.
type pty struct {
	master *os.File
	out    *buffer
}

// openPty opens a terminal; the file is the end for the processes.
func openPty(t *testing.T) (*pty, *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		servers.Missing(t, "there are no pseudo terminals here: %v", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		servers.Missing(t, "there are no pseudo terminals here: %v", err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		servers.Missing(t, "there are no pseudo terminals here: %v", err)
	}
	p := &pty{os.NewFile(uintptr(fd), "ptmx"), &buffer{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		piece := make([]byte, 4096)
		for {
			n, err := p.master.Read(piece)
			_, _ = p.out.Write(piece[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.master.Close()
		<-ended
	})
	return p, slave
}

func (p *pty) types(t *testing.T, text string) {
	t.Helper()
	if _, err := p.master.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func (p *pty) shows(t *testing.T, text string) {
	t.Helper()
	if !eventually(p.out.has(text)) {
		t.Fatalf("the terminal does not show %q but %q", text, p.out.String())
	}
}

// onTerminal starts a program as the leader of a session on a new terminal.
func onTerminal(t *testing.T, env []string, args ...string) (*pty, int) {
	t.Helper()
	p, slave := openPty(t)
	pid := foreign(t, []*os.File{slave, slave, slave}, append(os.Environ(), env...), &unix.SysProcAttr{Setsid: true, Setctty: true}, args...)
	_ = slave.Close()
	return p, pid
}

func runsOnTerminal(t *testing.T, script string, args ...string) (*pty, int) {
	t.Helper()
	return onTerminal(t, []string{helper + "=run"}, append([]string{self(t)}, sh(script, args...)...)...)
}

// inFront is what a script waits with until it has the terminal.
const inFront = `until read -r _ _ _ _ group _ _ front _ </proc/$$/stat && [ $group = $front ]; do :; done; `

func TestReadsFromTheTerminal(t *testing.T) {
	p, pid := runsOnTerminal(t, `read x; echo "<$x>"; exit 5`)
	p.types(t, "hello\n")
	p.shows(t, "<hello>")
	if status := waitForeign(t, pid); status.ExitStatus() != 5 {
		t.Errorf("status %v", status)
	}
}

// A process that has lent its terminal ignores no more signals than before: commands that it starts later would, too.
func TestLendingIgnoresNoSignal(t *testing.T) {
	p, pid := runsOnTerminal(t, inFront+`echo ready; read x`)
	p.shows(t, "ready")
	if ignores(pid, unix.SIGTTOU) {
		t.Error("SIGTTOU is ignored")
	}
	p.types(t, "on\n")
	waitForeign(t, pid)
}

// A command whose output goes through a pipe gets the terminal when it asks for it.
func TestReadsFromTheTerminalThroughAPipe(t *testing.T) {
	p, slave := openPty(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	pid := foreign(t, []*os.File{slave, w, slave}, append(os.Environ(), helper+"=run"), &unix.SysProcAttr{Setsid: true, Setctty: true},
		append([]string{self(t)}, sh(`read x; echo "<$x>"; exit 5`)...)...)
	_, _ = slave.Close(), w.Close()
	defer func() { _ = r.Close() }()
	p.types(t, "hello\n")
	if status := waitForeign(t, pid); status.ExitStatus() != 5 {
		t.Errorf("status %v", status)
	}
	text := make([]byte, 100)
	if n, _ := r.Read(text); string(text[:n]) != "<hello>\n" {
		t.Errorf("read %q", text[:n])
	}
}

func TestCtrlCArrivesOnce(t *testing.T) {
	p, pid := runsOnTerminal(t, `n=0; trap 'n=$((n+1)); echo "int $n"' INT; trap 'exit 4' USR1; echo "ready"; while :; do sleep 0.05; done`)
	p.shows(t, "ready")
	p.types(t, "\x03")
	p.shows(t, "int 1")
	// A signal to the helper alone is forwarded, behind a second one if there were one.
	if err := unix.Kill(pid, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if status := waitForeign(t, pid); status.ExitStatus() != 4 || strings.Contains(p.out.String(), "int 2") {
		t.Errorf("status %v, %q", status, p.out.String())
	}
}

// within are ways to run a command in the foreground: by itself, and by another such process.
func within(t *testing.T, script string) map[string][]string {
	t.Helper()
	inner := append([]string{self(t)}, sh(inFront+script)...)
	return map[string][]string{
		"the command":                    inner[1:],
		"one within another":             inner,
		"one within a script of another": append(sh(`"$@"; exit $?`), inner...),
	}
}

// Ctrl-Z in a group that nobody could continue must not leave a stopped command.
func TestCtrlZWithoutAShell(t *testing.T) {
	for name, command := range within(t, `echo ready; read x; echo "<$x>"; exit 3`) {
		t.Run(name, func(t *testing.T) {
			p, pid := onTerminal(t, []string{helper + "=run"}, append([]string{self(t)}, command...)...)
			p.shows(t, "ready")
			p.types(t, "\x1a")
			p.shows(t, "^Z")
			p.types(t, "on\n")
			p.shows(t, "<on>")
			if status := waitForeign(t, pid); status.ExitStatus() != 3 {
				t.Errorf("status %v", status)
			}
		})
	}
}

// bash starts an interactive shell on a terminal, in which $helper is the helper.
func bash(t *testing.T) *pty {
	t.Helper()
	shell := servers.Program(t, "bash", "bash")
	p, _ := onTerminal(t, []string{"PS1=prompt-", "helper=" + helper + "=run " + self(t), "TERM=dumb", "HISTFILE="},
		shell, "--norc", "--noprofile", "--noediting", "-i")
	p.shows(t, "prompt-")
	return p
}

func TestCtrlZInAShell(t *testing.T) {
	for name, command := range within(t, `echo begun-$((1+1)); read x; echo "<$x>"`) {
		t.Run(name, func(t *testing.T) {
			p := bash(t)
			p.types(t, "env $helper")
			for _, arg := range command {
				p.types(t, " '"+arg+"'")
			}
			p.types(t, "\n")
			p.shows(t, "begun-2")
			p.types(t, "\x1a")
			p.shows(t, "Stopped")
			p.types(t, "echo shell-$((2+2))\n")
			p.shows(t, "shell-4")
			p.types(t, "fg\n")
			p.types(t, "on\n")
			p.shows(t, "<on>")
			p.types(t, "echo again-$((3+3))\n")
			p.shows(t, "again-6")
			p.types(t, "exit\n")
		})
	}
}

// What was started with Ctrl-Z ignored is not stopped by it, and neither is its command.
func TestCtrlZThatIsIgnored(t *testing.T) {
	p := bash(t)
	p.types(t, `(trap "" TSTP; exec env $helper /bin/sh -c '`+inFront+`echo begun-$((1+1)); read x; echo "<$x>"')`+"\n")
	p.shows(t, "begun-2")
	p.types(t, "\x1a")
	p.shows(t, "^Z")
	p.types(t, "on\n")
	p.shows(t, "<on>")
	p.shows(t, "helper: code 0")
	p.types(t, "exit\n")
	if strings.Contains(p.out.String(), "Stopped") {
		t.Error("it was stopped")
	}
}

func TestCtrlZUntilTheLeaseIsLost(t *testing.T) {
	p := bash(t)
	p.types(t, `CHILD_TEST_LOST=1 env $helper /bin/sh -c '`+inFront+`echo begun-$((1+1)); read x; echo "went on"'`+"\n")
	p.shows(t, "begun-2")
	p.types(t, "\x1a")
	p.shows(t, "Stopped")
	p.types(t, "fg\n")
	p.shows(t, "helper: code 143")
	p.types(t, "exit\n")
	if strings.Contains(strings.ReplaceAll(p.out.String(), `echo "went on"`, ""), "went on\r\n") {
		t.Error("it went on")
	}
}

// Nobody renews the lease while soloist is stopped, so nothing of the command may run: also what ignores Ctrl-Z.
func TestCtrlZStopsAllOfTheCommand(t *testing.T) {
	const part = `sh -c "echo \$\$ >$file; exec sleep 1000"`
	for name, start := range map[string]string{
		"what ignores it":                `(trap "" TSTP; exec ` + part + `) &`,
		"what has left the group":        `setsid ` + part + ` &`,
		"what has left its parents":      `setsid -f ` + part + `;`,
		"the command of another soloist": `$0 ` + part + ` &`,
	} {
		t.Run(name, func(t *testing.T) {
			p, file := bash(t), inTemp(t, "pid")
			p.types(t, `env file=`+file+` $helper /bin/sh -c '`+inFront+start+` echo begun-$((1+1)); read x; kill $(cat $file)' `+self(t)+"\n")
			p.shows(t, "begun-2")
			pid := pidIn(t, file)
			p.types(t, "\x1a")
			p.shows(t, "Stopped")
			state := func(want string) func() bool {
				return func() bool { q, ok := readProcess(pid); return ok && strings.ContainsRune(want, rune(q.state)) }
			}
			waitFor(t, "all of the command is stopped", state("T"))
			p.types(t, "fg\n")
			waitFor(t, "all of the command goes on", state("SRD"))
			p.types(t, "on\n")
			p.shows(t, "helper: code")
			p.types(t, "exit\n")
		})
	}
}

// A command that the terminal was not lent to, as in a pipeline, is not reached by Ctrl-Z: it is stopped before soloist is, and goes on only if the
// lease has not been lost meanwhile.
func TestCtrlZStopsWhatIsNotInFront(t *testing.T) {
	for name, row := range map[string]struct{ before, after, says string }{
		"in a pipeline":           {"", "| cat", "went-2"},
		"with redirected input":   {"", "</dev/null", "went-2"},
		"with input from soloist": {"CHILD_TEST_INPUT=1", "", "went-2"},
		"until the lease is lost": {"CHILD_TEST_LOST=1", "| cat", "helper: code 143"},
	} {
		t.Run(name, func(t *testing.T) {
			p, file, on := bash(t), inTemp(t, "pid"), inTemp(t, "on")
			p.types(t, row.before+` env $helper /bin/sh -c 'echo $$ >`+file+`; until [ -e `+on+` ]; do :; done; echo went-$((1+1))' `+row.after+"\n")
			pid := pidIn(t, file)
			p.types(t, "\x1a")
			p.shows(t, "Stopped")
			waitFor(t, "the command is stopped", func() bool { q, _ := readProcess(pid); return q.state == 'T' })
			if err := os.WriteFile(on, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			p.types(t, "fg\n")
			p.shows(t, row.says)
			p.types(t, "exit\n")
			if strings.Contains(p.out.String(), "went-2") != (row.says == "went-2") {
				t.Error("it went on")
			}
		})
	}
}

// ignores reports whether a process ignores a signal.
func ignores(pid int, sig unix.Signal) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	_, set, _ := strings.Cut(string(status), "SigIgn:")
	set, _, _ = strings.Cut(set, "\n")
	bits, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
	return err == nil && bits&(1<<(sig-1)) != 0
}

// A process that is stopped goes on after that only, whichever of its threads the system lets run.
func TestStopTakesEffectAtOnce(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	pid := foreign(t, []*os.File{w, w, w}, append(os.Environ(), helper+"=stops"), &unix.SysProcAttr{Setpgid: true}, self(t))
	_ = w.Close()
	for range stops {
		waitFor(t, "the process is stopped", func() bool { p, _ := readProcess(pid); return p.state == 'T' })
		if err := unix.Kill(pid, unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if rest, err := io.ReadAll(r); len(rest) > 0 || err != nil {
		t.Errorf("it went on %d times without a stop, %v", len(rest), err)
	}
}

// A process may run on for as long as the system likes before it is stopped: it takes that for no end of the stop, and neither what was sent
// to continue it before that.
func TestStopThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		continued := make(chan os.Signal, 1)
		begin, pending := time.Now(), true
		continued <- unix.SIGCONT
		time.AfterFunc(time.Hour, func() {
			pending = false
			continued <- unix.SIGCONT
		})
		untilContinued(continued, func() bool { return true }, func() bool { return pending })
		if took := time.Since(begin); took != time.Hour {
			t.Errorf("went on after %v", took)
		}
		untilContinued(continued, func() bool { return false }, func() bool { return true }) // returns
	})
}

func TestStoppable(t *testing.T) {
	env, again := append(os.Environ(), helper+"=stoppable"), "'"+self(t)+"'; :"
	for name, row := range map[string]struct {
		args []string
		sys  unix.SysProcAttr
		want string
	}{
		"a job":                         {[]string{self(t)}, unix.SysProcAttr{Setpgid: true}, "true"},
		"a job that starts processes":   {[]string{self(t), "forks"}, unix.SysProcAttr{Setpgid: true}, "true"},
		"in a script that is a job":     {[]string{"/bin/sh", "-c", again}, unix.SysProcAttr{Setpgid: true}, "true"},
		"the leader of a session":       {[]string{self(t)}, unix.SysProcAttr{Setsid: true}, "false"},
		"in a script without a session": {[]string{"/bin/sh", "-c", again}, unix.SysProcAttr{Setsid: true}, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := answer(t, env, &row.sys, row.args...); got != row.want+"\n" {
				t.Errorf("%q, want %s", got, row.want)
			}
		})
	}
}

// answer returns what a process writes.
func answer(t *testing.T, env []string, sys *unix.SysProcAttr, args ...string) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	foreign(t, []*os.File{w, w, w}, env, sys, args...)
	_ = w.Close()
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// A shell that is process 1 of a container continues its jobs as any other does.
func TestStoppableInAContainer(t *testing.T) {
	contained := []string{servers.Program(t, "unshare, of util-linux", "unshare"), "--pid", "--fork", "--mount-proc"}
	shell := servers.Program(t, "bash", "bash")
	if got := answer(t, os.Environ(), &unix.SysProcAttr{}, append(contained, "/bin/sh", "-c", "echo $$")...); got != "1\n" {
		servers.Missing(t, "no process can be the first of a namespace here: %s", got)
	}
	env := append(os.Environ(), helper+"=stoppable")
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"a job of its shell":  {[]string{shell, "-c", "set -m; '" + self(t) + "'; :"}, "true"},
		"in its shell script": {[]string{shell, "-c", "'" + self(t) + "'; :"}, "false"},
		"its first process":   {[]string{self(t)}, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := answer(t, env, &unix.SysProcAttr{}, append(contained, row.args...)...); got != row.want+"\n" {
				t.Errorf("%q, want %s", got, row.want)
			}
		})
	}
}

func TestBackgroundCommandIsContinuedByFg(t *testing.T) {
	p := bash(t)
	p.types(t, `env $helper /bin/sh -c 'echo begun-$((1+1)); read x; echo "<$x>"' &`+"\n")
	p.shows(t, "begun-2")
	waitFor(t, "the shell's word that the job is stopped", func() bool {
		time.Sleep(50 * time.Millisecond)
		p.types(t, "jobs\n")
		return p.out.has("Stopped")()
	})
	p.types(t, "fg\n")
	p.types(t, "on\n")
	p.shows(t, "<on>")
	p.types(t, "exit\n")
}

// A command that asks for the terminal in a background in which it can't be stopped until it has it gets SIGHUP, as from the system. It is not
// stopped and continued without end, whatever it ignores.
func TestTerminalThatNobodyCanGive(t *testing.T) {
	for name, row := range map[string]struct{ begin, ignores, end, says string }{
		"a command":                           {`(`, ``, ` &)`, "helper: code 129"},
		"one that ignores SIGHUP":             {`(`, `trap "" HUP;`, ` &)`, "helper: code 143"},
		"one that ignores all it can":         {`(`, `trap "" HUP TERM;`, ` &)`, "helper: code 137"},
		"one of a process that Ctrl-Z spares": {`(trap "" TSTP; exec `, ``, `) &`, "helper: code 129"},
	} {
		t.Run(name, func(t *testing.T) {
			p, file, on := bash(t), inTemp(t, "pid"), inTemp(t, "on")
			p.types(t, row.begin+`env $helper /bin/sh -c '`+row.ignores+` echo $PPID >`+file+`; until [ -e `+on+` ]; do :; done; read x </dev/tty'`+row.end+"\n")
			pid := pidIn(t, file)
			waitFor(t, "the shell that started it in the background has ended", func() bool {
				q, _ := readProcess(pid)
				return q.parent == os.Getpid() || row.end == ") &"
			})
			p.types(t, "echo shell-$((2+2))\n")
			p.shows(t, "shell-4") // it is in front
			if err := os.WriteFile(on, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			p.shows(t, row.says+", "+ErrNoTerminal.Error())
			p.types(t, "exit\n")
		})
	}
}
