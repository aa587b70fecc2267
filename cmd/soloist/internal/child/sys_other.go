//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package child

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// instance begins the ids of all runs of this process.
var instance = newID()

// Guard does nothing here: processes are not found by what they have inherited.
func Guard(...string) error { return nil }

// EndOrphaned does nothing here.
func EndOrphaned(io.Reader, string) {}

// Adopt does nothing here: orphans go to init, whichever process started them.
func Adopt() error { return nil }

// attributes put the command into its own group.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func fork(file string, args []string, attr *syscall.ProcAttr) (int, error) {
	return syscall.ForkExec(file, args, attr)
}

func (r *run) spawn(file string, attr *syscall.ProcAttr) (int, error) {
	return startRegistered(file, r.command.Args, attr)
}

func (r *run) killCgroup() {}

func (r *run) discard() {}

// A relation is nothing here: all that is known of a run is its group.
type relation struct{}

// A process is a group here: its number is that of the command.
type process struct{ pid int }

func (p process) signal(sig unix.Signal) error { return unix.Kill(-p.pid, sig) }

// await reaps the command. The number of its group stays taken while the group has a process.
func (r *run) await() {
	options := 0
	if r.tty != nil {
		options |= unix.WUNTRACED
	}
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(r.pid, &status, options, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil && status.Stopped():
			r.noteStop(status.StopSignal())
		default:
			r.mu.Lock()
			r.status = status
			r.mu.Unlock()
			return
		}
	}
}

// over reports whether the command has ended.
func (r *run) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// benice makes the command's group nicer than this process by n.
func (r *run) benice(n int) {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		own = 0
	}
	_ = unix.Setpriority(unix.PRIO_PGRP, r.pid, min(own+n, 19))
}

// withoutTTOU calls do while this process ignores SIGTTOU.
func withoutTTOU(do func()) {
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	do()
}

// refused is not known here, as [signal.Ignored] knows it of few signals only.
func refused(unix.Signal) bool { return false }

// stopStrays does nothing here: what has left the group of its command is not found.
func stopStrays() {}

// stopOurselves stops this process, with 0 the others of its group before it, and returns when it is continued. The stop may come late, as
// a thread of this process has to run for it.
func stopOurselves(pid int) {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	if pid == 0 {
		_ = unix.Kill(0, unix.SIGTSTP)
	}
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP) // SIGTSTP does nothing to a process whose os/signal has caught it
	<-continued
}

// stoppable reports whether somebody could continue our group if Ctrl-Z stopped it, as far as our parent shows it: a shell that has put us into a
// group can.
func stoppable() bool {
	parent := unix.Getppid()
	group, err := unix.Getpgid(parent)
	if err != nil || group == unix.Getpgrp() {
		return false
	}
	session, err := unix.Getsid(parent)
	if err != nil {
		return false
	}
	own, err := unix.Getsid(0)
	return err == nil && session == own
}

func (r *run) finish() unix.WaitStatus { return r.status }

func (r *run) strays() []process { return nil }

func (r *run) left() ([]process, error) {
	if unix.Kill(-r.pid, 0) != nil {
		return nil, nil
	}
	return []process{{r.pid}}, nil
}

// inPipe does not know here how many bytes are in a pipe.
func inPipe(*os.File) int64 { return 0 }
