//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package child

import (
	"io"
	"os"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"
)

// Forwarded are the signals to pass on to a command: give them to signal.Notify for [Command.Signals]. With a terminal,
// SIGTSTP is not among them: it stops the command and this process. Without one, a SIGTSTP stops the command and not this
// process, which goes on to renew its lease.
func Forwarded() []os.Signal {
	signals := []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH}
	if !hasTerminal() {
		signals = append(signals, unix.SIGTSTP, unix.SIGCONT)
	}
	return slices.DeleteFunc(signals, signal.Ignored) // as under nohup: the command is to ignore them too
}

// A terminal can be lent to a command. The methods of a nil terminal do nothing.
type terminal struct {
	file  *os.File // the controlling terminal
	own   int      // our process group
	stdin bool     // it is the command's stdin
	lent  bool
}

// terminalOf is the terminal of a command that inherits its stdin, or nil.
func terminalOf(c *Command) *terminal {
	stdin, ok := c.Stdin.(*os.File)
	if !ok || stdin == nil {
		return nil
	}
	file, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	_, err = unix.IoctlGetInt(int(stdin.Fd()), unix.TIOCGPGRP)
	return &terminal{file: file, own: unix.Getpgrp(), stdin: err == nil}
}

func (t *terminal) close() {
	if t != nil {
		_ = t.file.Close()
	}
}

// foreground is the process group that the terminal listens to.
func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// give puts a group into the foreground. The system stops a process that does this from the background, unless it
// blocks or ignores SIGTTOU.
func (t *terminal) give(group int) {
	withoutTTOU(func() { _ = unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group) })
}

func (t *terminal) lend(group int) {
	t.lent = true
	t.give(group)
}

// lendEagerly lends the terminal to the command before it asks, unless there may be another process of our pipeline
// that needs it. If the command has asked already, it was stopped for that, and attend continues it.
func (t *terminal) lendEagerly(group int, stdout io.Writer) {
	if t == nil || !t.stdin || t.foreground() != t.own {
		return
	}
	if file, ok := stdout.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			return
		}
	}
	t.lend(group)
}

// restore takes the terminal back for good.
func (t *terminal) restore() {
	if t != nil && t.lent && t.foreground() != t.own {
		t.give(t.own)
	}
}

// suspend does what is right when the terminal stopped the command: lends the terminal to a command that asked for it,
// else stops this process too, so that the shell gets its terminal back. A command that asked for the terminal when this
// process can't be stopped is refused. It tells whether time has passed, so that the
// lease has to be looked at before the command is continued.
func (r *run) suspend(sig unix.Signal) bool {
	t := r.tty
	group := t.foreground()
	if sig != unix.SIGTSTP && group == t.own {
		t.lend(r.pid)
		return false
	}
	if sig != unix.SIGTSTP && group == r.pid {
		return false // it has been lent since
	}
	if group == r.pid {
		t.give(t.own)
	}
	if !stopGroup() && sig != unix.SIGTSTP {
		r.refuse()
	}
	if group == r.pid && t.foreground() == t.own {
		t.lend(r.pid)
	}
	return true
}

// refuse lets a command know that it can't have the terminal it asked for, as the system does to a stopped group that nobody could
// continue: by SIGHUP. A command that ignores this asks again when it is continued, so it is ended.
func (r *run) refuse() {
	switch r.refused++; r.refused {
	case 1:
		r.signalGroup(unix.SIGHUP)
	case 2:
		r.signalGroup(unix.SIGTERM)
	default:
		r.kill()
	}
}

// fromTerminal distinguishes the stops of job control from one that somebody sent on purpose, which is theirs to undo.
func fromTerminal(sig unix.Signal) bool {
	return sig == unix.SIGTSTP || sig == unix.SIGTTIN || sig == unix.SIGTTOU
}

// noteStop passes on that the command was stopped. The latest stop counts.
func (r *run) noteStop(sig unix.Signal) {
	if !fromTerminal(sig) {
		return
	}
	select {
	case <-r.stops:
	default:
	}
	r.stops <- sig // has room: nobody else sends
}
