//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package child

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// children are the processes that this package has started and not reaped.
var children = struct {
	sync.Mutex
	pids map[int]struct{}
}{pids: make(map[int]struct{})}

// forking is held while a process is started, and by the one that looks at all processes: otherwise a child that is
// just being started could be taken for an orphan.
var forking sync.Mutex

func startRegistered(file string, args []string, attr *syscall.ProcAttr) (int, error) {
	forking.Lock()
	defer forking.Unlock()
	pid, err := fork(file, args, attr)
	if err == nil {
		children.Lock()
		children.pids[pid] = struct{}{}
		children.Unlock()
	}
	return pid, err
}

func (r *run) reapRegistered() unix.WaitStatus {
	children.Lock()
	defer children.Unlock()
	delete(children.pids, r.pid)
	return r.finish()
}
