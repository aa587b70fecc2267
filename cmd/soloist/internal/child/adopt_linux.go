package child

import (
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// adopted says that orphans of this process's descendants become its children; strangers are the children that it had
// before. Both are guarded by the lock of children.
var (
	adopted   bool
	strangers []process
)

// Adopt makes this process the parent of whatever its descendants orphan, so that daemons of a command are found and
// ended with it, and reaps such orphans when they end. It is for the main package of a program that starts processes by
// this package alone: it would reap those of others.
func Adopt() error {
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

// reapOrphans reaps the children that ended and are nobody's.
func reapOrphans() {
	children.Lock()
	defer children.Unlock()
	for _, pid := range ownChildren() {
		if _, ours := children.pids[pid]; ours {
			continue
		}
		if p, ok := readProcess(pid); ok && p.parent == os.Getpid() && p.state == 'Z' {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// ownChildren are the children of this process. The kernel's list may miss one when another ends while it is read: it
// is read until it is twice the same.
func ownChildren() []int {
	var last []int
	for round := range 10 {
		now, ok := listedChildren()
		if !ok {
			break
		}
		if round > 0 && slices.Equal(last, now) {
			return now
		}
		last = now
	}
	var pids []int
	for _, p := range processes() {
		if p.parent == os.Getpid() {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// listedChildren reads the kernel's list of children, which not every kernel keeps.
func listedChildren() ([]int, bool) {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		return nil, false
	}
	var pids []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended, and its children went to another
		}
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, true
}
