package child

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// stoppable reports whether somebody could continue our group if Ctrl-Z stopped it. That is the parent of one of its processes, in another group
// of the same session.
func stoppable() bool {
	all, own := processes(), unix.Getpgrp()
	for _, p := range all {
		parent, exists := all[p.parent]
		if exists && p.group == own && !gone(p) && parent.pid != 1 && parent.group != own && parent.session == p.session {
			return true
		}
	}
	return false
}

// refused reports whether this process was started with a signal ignored or blocked, if nothing has caught the signal since. [signal.Ignored] knows
// that of few signals only. Of blocked ones the caller's thread knows, as those that Go starts inherit them; /proc/self/status shows
// the first thread, which blocks all signals while it starts a thread or a process.
func refused(sig unix.Signal) bool {
	bit := uint64(1) << (sig - 1)
	var blocked unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, nil, &blocked); err != nil || uint64(blocked.Val[0])&bit != 0 {
		return true
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return true
	}
	_, ignored, _ := bytes.Cut(status, []byte("\nSigIgn:"))
	ignored, _, _ = bytes.Cut(ignored, []byte("\n"))
	bits, err := strconv.ParseUint(string(bytes.TrimSpace(ignored)), 16, 64)
	return err != nil || bits&bit != 0
}
