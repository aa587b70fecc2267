package child

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// adopted reports whether orphans of this process's descendants become its children; strangers are the children that it had
// before. Both are guarded by the lock of children.
var (
	adopted   bool
	strangers []process
)

// Adopt makes this process the parent of whatever its descendants orphan, so that daemons of a command are found and
// ended with it, and reaps such orphans when they end. It is for the main package of a program that starts processes by
// this package alone: it would reap those of others.
func Adopt() error {
	forking.Lock()
	defer forking.Unlock()
	children.Lock()
	defer children.Unlock()
	if adopted {
		return nil
	}
	for _, p := range processes() {
		if p.parent == os.Getpid() {
			strangers = append(strangers, p)
		}
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	adopted = true
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		for range ended {
			reapOrphans()
		}
	}()
	return nil
}

// reapOrphans reaps the orphans that ended.
func reapOrphans() {
	pids, ok := orphans()
	if !ok {
		forking.Lock() // or one that is just started would be taken for one
		defer forking.Unlock()
		pids = unregisteredChildren()
	}
	for _, pid := range pids {
		if p, ok := readProcess(pid); ok && p.parent == os.Getpid() && p.state == 'Z' {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// orphans are the children of this process that it has not started, as the kernel lists them: the children of the first thread, since
// commands are those of another. The list may miss one when another ends while it is read: it is read until it is twice the same. Not every
// kernel keeps it.
func orphans() (pids []int, ok bool) {
	list := fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())
	last, err := os.ReadFile(list)
	for range 10 {
		if err != nil {
			return nil, false
		}
		var now []byte
		if now, err = os.ReadFile(list); err == nil && bytes.Equal(last, now) {
			return numbers(now), true
		}
		last = now
	}
	return nil, false
}

func numbers(text []byte) []int {
	fields := strings.Fields(string(text))
	all := make([]int, 0, len(fields))
	for _, field := range fields {
		if n, err := strconv.Atoi(field); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// unregisteredChildren are the children of this process that it has not started, found among all processes.
func unregisteredChildren() []int {
	started := registered()
	var pids []int
	for _, p := range processes() {
		if _, ours := started[p.pid]; !ours && p.parent == os.Getpid() {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// adopts reports whether orphans come to this process.
func adopts() bool {
	children.Lock()
	defer children.Unlock()
	return adopted
}

// registered are the children that this process has started and not reaped.
func registered() map[int]struct{} {
	children.Lock()
	defer children.Unlock()
	return maps.Clone(children.pids)
}
