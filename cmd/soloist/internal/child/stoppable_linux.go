package child

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// stoppable reports whether Ctrl-Z may stop this process: SIGTSTP is neither ignored nor blocked, and somebody could
// continue our group. That is the parent of one of its processes, in another group of the same session.
func stoppable() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil || hasSignal(status, unix.SIGTSTP) {
		return false
	}
	all, own := processes(), unix.Getpgrp()
	for _, p := range all {
		parent, exists := all[p.parent]
		if exists && p.group == own && !gone(p) && parent.pid != 1 && parent.group != own && parent.session == p.session {
			return true
		}
	}
	return false
}

// hasSignal reports whether a /proc/pid/status has the signal in one of the sets that keep it from its default effect.
func hasSignal(status []byte, sig unix.Signal) bool {
	for line := range bytes.Lines(status) {
		for _, set := range []string{"SigBlk:", "SigIgn:"} {
			value, found := bytes.CutPrefix(line, []byte(set))
			if !found {
				continue
			}
			bits, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 16, 64)
			if err != nil || bits&(1<<(sig-1)) != 0 {
				return true
			}
		}
	}
	return false
}
