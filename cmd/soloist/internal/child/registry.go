//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package child

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// children are the processes that this package has started and not reaped. The lock is held while one is started or
// reaped and while orphans are looked for, so that no child is taken for an orphan.
var children = struct {
	sync.Mutex
	pids map[int]struct{}
}{pids: make(map[int]struct{})}

func startRegistered(file string, args []string, attr *syscall.ProcAttr) (int, error) {
	children.Lock()
	defer children.Unlock()
	pid, err := syscall.ForkExec(file, args, attr)
	if err == nil {
		children.pids[pid] = struct{}{}
	}
	return pid, err
}

func (r *run) reapRegistered() unix.WaitStatus {
	children.Lock()
	defer children.Unlock()
	delete(children.pids, r.pid)
	return r.finish()
}
