package child

import (
	"fmt"
	"maps"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// adopted reports whether orphans of this process's descendants become its children; strangers are the children that it
// had before, and the guard. alone reports whether all orphans are those of commands: no stranger can leave one, and neither
// can others in a container, whose orphans go to its process 1. All are guarded by the lock of children.
var (
	adopted   bool
	alone     bool
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
	alone = os.Getpid() != 1
	for _, p := range processes() {
		if p.parent == os.Getpid() {
			strangers = append(strangers, p)
			alone = alone && gone(p)
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
	listing.Lock()
	defer listing.Unlock()
	for _, pid := range pids {
		if p, ok := readProcess(pid); ok && p.parent == os.Getpid() && p.state == 'Z' {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// listing is held while the list of orphans is read, and while they are reaped: the list may miss one when another
// leaves it meanwhile.
var listing sync.Mutex

// orphans are the children of this process that it has not started, as the kernel lists them: the children of the first
// thread, since commands are those of another. Not every kernel keeps the list.
func orphans() (pids []int, ok bool) {
	listing.Lock()
	defer listing.Unlock()
	list, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	return numbers(list), err == nil
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

// adoptsAlone reports whether only orphans of commands come to this process.
func adoptsAlone() bool {
	children.Lock()
	defer children.Unlock()
	return alone
}

// registered are the children that this process has started and not reaped.
func registered() map[int]struct{} {
	children.Lock()
	defer children.Unlock()
	return maps.Clone(children.pids)
}
