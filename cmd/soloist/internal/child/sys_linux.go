package child

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attributes put the command into its own group and let it die with us.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// withoutTTOU calls do on a thread that blocks SIGTTOU. To ignore it would be for good, since os/signal does not take that
// back, and commands that are started later would inherit it.
func withoutTTOU(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var blocked, before unix.Sigset_t
	blocked.Val[0] = 1 << (unix.SIGTTOU - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, &before); err == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	}
	do()
}

// cldStopped is the si_code of a child that was stopped by a signal.
const cldStopped = 5

// await returns when the command has ended, leaving it unreaped so that its number stays its own. Meanwhile it reports
// stops, if there is a terminal to hand over. Only then, and where the kernel is older than 5.10, it takes a thread.
func (r *run) await() {
	if r.tty == nil && awaitPolled(r.pid) {
		return
	}
	options := unix.WEXITED | unix.WNOWAIT
	if r.tty != nil {
		options |= unix.WSTOPPED
	}
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, r.pid, &info, options, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || info.Code != cldStopped:
			return
		default:
			r.reportStop()
		}
	}
}

// awaitPolled waits for the end of a child as for a network connection: no thread waits. It reports false if the system
// can't.
func awaitPolled(pid int) bool {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return false
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	defer func() { _ = file.Close() }()
	conn, err := file.SyscallConn()
	if err != nil {
		return false
	}
	return conn.Read(func(uintptr) bool { return hasEnded(pid) }) == nil
}

// hasEnded reports whether a child has ended, and leaves it unreaped.
func hasEnded(pid int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || info.Signo != 0
		}
	}
}

// over reports whether the command has ended, also if r.ended is still to be closed.
func (r *run) over() bool { return hasEnded(r.pid) }

// benice makes the command's group nicer than this process by n.
func (r *run) benice(n int) {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		own = 20
	}
	_ = unix.Setpriority(unix.PRIO_PGRP, r.pid, min(20-own+n, 19)) // Linux tells 20 less the niceness
}

// reportStop takes the news of a stop from the system and passes it on.
func (r *run) reportStop() {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, r.pid, &info, unix.WSTOPPED|unix.WNOHANG, nil); err != nil || info.Code != cldStopped {
		return
	}
	r.noteStop(unix.Signal(stopSignal(&info)))
}

// stopSignal is si_status: the third number of the part of siginfo that begins, aligned as a pointer, after the first
// three.
func stopSignal(info *unix.Siginfo) int32 {
	const header = 3 * 4
	const word = unsafe.Sizeof(uintptr(0))
	const union = (header + word - 1) / word * word
	return *(*int32)(unsafe.Add(unsafe.Pointer(info), union+2*4))
}

// unknownStatus is exit code 255: somebody else has reaped the command, which must not pass for success.
const unknownStatus unix.WaitStatus = 255 << 8

// finish reaps the command.
func (r *run) finish() unix.WaitStatus {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(r.pid, &status, 0, nil)
		switch {
		case err == nil:
			return status
		case !errors.Is(err, unix.EINTR):
			return unknownStatus
		}
	}
}

// inPipe returns how many bytes are in a pipe (FIONREAD, which unix calls TIOCINQ).
func inPipe(pipe *os.File) (n int64) {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) {
		if there, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
			n = int64(there)
		}
	})
	return n
}
