package servers

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// removeSegment removes the segment of shared memory that a killed PostgreSQL server has left, of which the system has only so many. Its
// number stands in the seventh line of postmaster.pid.
func removeSegment(data string) {
	const line, ipcRMID = 6, 0
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return // it has ended in good order
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) <= line {
		return
	}
	fields := strings.Fields(lines[line])
	if len(fields) != 2 {
		return
	}
	if id, err := strconv.Atoi(fields[1]); err == nil {
		_, _, _ = syscall.Syscall(syscall.SYS_SHMCTL, uintptr(id), ipcRMID, 0)
	}
}

// unmount unmounts what is mounted below a directory.
func unmount(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for _, line := range strings.Split(string(mounts), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			_ = syscall.Unmount(fields[1], syscall.MNT_DETACH)
		}
	}
}
