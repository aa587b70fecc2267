package child

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A process as /proc reports it. The start, in ticks since the boot, tells it from a later one of the same number.
type process struct {
	pid, parent    int
	group, session int
	state          byte
	start          uint64
	bare           bool // it has no environment, and will have none
}

// kernelThread is PF_KTHREAD of Linux's include/linux/sched.h.
const kernelThread = 0x00200000

// readProcess reads /proc/pid/stat.
func readProcess(pid int) (process, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	return parseProcess(pid, text)
}

// parseProcess reads "pid (name) state ppid pgrp session …" as proc_pid_stat(5) describes it: the flags are the 9th field, the
// start is the 22nd, and the addresses where the environment begins and ends are the 50th and the 51st. The name may
// hold anything.
func parseProcess(pid int, text []byte) (process, bool) {
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 49 {
		return process{}, false
	}
	p := process{pid: pid, state: fields[0][0]}
	p.parent, _ = strconv.Atoi(fields[1])
	p.group, _ = strconv.Atoi(fields[2])
	p.session, _ = strconv.Atoi(fields[3])
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	if err != nil {
		return process{}, false
	}
	begin, end := fields[47], fields[48]
	p.bare = flags&kernelThread != 0 || begin == end && end != "0"
	p.start, err = strconv.ParseUint(fields[19], 10, 64)
	return p, err == nil
}

// processes are all that can be seen, by number.
func processes() map[int]process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	all := make(map[int]process, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := readProcess(pid); ok {
				all[pid] = p
			}
		}
	}
	return all
}

// signal signals this very process, not a later one of the same number.
func (p process) signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
	} else if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return err
	}
	if now, ok := readProcess(p.pid); !ok || now.start != p.start {
		return unix.ESRCH
	}
	if err == nil {
		return unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	return unix.Kill(p.pid, sig)
}
