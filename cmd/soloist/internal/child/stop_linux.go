package child

import (
	"bytes"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stoppable reports whether somebody could continue our group if Ctrl-Z stopped it. That is the parent of one of its processes, in another group
// of the same session. The system does not count its own process 1; that of a container can be a shell, and is like any other.
func stoppable() bool {
	all, own, contained := processes(), unix.Getpgrp(), inContainer()
	for _, p := range all {
		parent, exists := all[p.parent]
		if exists && p.group == own && !gone(p) && (parent.pid != 1 || contained) && parent.group != own && parent.session == p.session {
			return true
		}
	}
	return false
}

// inContainer reports whether process 1 is not that of the system. The number is PROC_PID_INIT_INO of Linux's include/linux/proc_ns.h.
func inContainer() bool {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && namespace != "pid:[4026531836]"
}

// refused reports whether this process was started with a signal ignored or blocked, if nothing has caught the signal since. [signal.Ignored] knows
// that of few signals only. Of blocked ones the caller's thread knows, as those that Go starts inherit them; /proc/self/status shows
// the first thread, which blocks all signals while it starts a thread or a process.
func refused(sig unix.Signal) bool {
	var blocked unix.Sigset_t
	err := unix.PthreadSigmask(unix.SIG_BLOCK, nil, &blocked)
	return err != nil || blocked.Val[0]&(1<<(sig-1)) != 0 || inSet("SigIgn", sig)
}

// inSet reports whether a signal is in one of the sets of this process that /proc/self/status shows.
func inSet(name string, sig unix.Signal) bool {
	status, _ := os.ReadFile("/proc/self/status")
	_, set, _ := bytes.Cut(status, []byte("\n"+name+":"))
	set, _, _ = bytes.Cut(set, []byte("\n"))
	bits, _ := strconv.ParseUint(string(bytes.TrimSpace(set)), 16, 64)
	return bits&(1<<(sig-1)) != 0
}

// stopStrays stops what the commands have started outside of their groups. forking is held.
func stopStrays() {
	stopped := make(map[int]uint64)
	for again := true; again; { // until nothing is left that could have started another
		again = false
		for _, p := range newCensus().ofCommands() {
			if start, is := stopped[p.pid]; !is || start != p.start {
				_ = p.signal(unix.SIGSTOP)
				stopped[p.pid], again = p.start, true
			}
		}
	}
}

// stopOurselves has SIGTSTP stop this process or, with 0, its whole group, and returns when it is continued. The parent, which may be another
// soloist, has to see that signal: one that is stopped by SIGSTOP it leaves to who has sent that.
func stopOurselves(pid int) {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	withDefault(unix.SIGTSTP, func() {
		_ = unix.Kill(pid, unix.SIGTSTP)
		untilContinued(continued, stoppable, func() bool { return inSet("ShdPnd", unix.SIGTSTP) })
	})
}

// untilContinued returns when this process was stopped and is continued, or could not be continued: then the system does not stop it. The stop
// may come late, as a thread of this process has to run for it; what is sent to continue it takes a stop back that is pending.
func untilContinued(continued <-chan os.Signal, stoppable, pending func() bool) {
	for {
		select {
		case <-continued:
			if !pending() { // or it was sent before the stop
				return
			}
		case <-time.After(200 * time.Millisecond):
			if !stoppable() {
				return
			}
		}
	}
}

// withDefault calls do while a signal that os/signal has caught has its default effect, which that cannot give back. The zeros are a struct
// sigaction with SIG_DFL on all architectures, and no struct is longer.
func withDefault(sig unix.Signal, do func()) {
	var normal, caught [16]uint64
	mask := uintptr(8) // bytes of the kernel's sigset_t
	if strings.HasPrefix(runtime.GOARCH, "mips") {
		mask = 16
	}
	action := func(set, old *[16]uint64) bool {
		_, _, failed := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), mask, 0, 0)
		return failed == 0
	}
	if action(&normal, &caught) {
		defer action(&caught, nil)
		do()
	}
}
