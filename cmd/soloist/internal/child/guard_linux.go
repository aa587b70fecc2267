package child

import (
	"bytes"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// instance begins the ids of all runs of this process.
var instance = newID()

// guard is started once.
var guard struct {
	sync.Mutex
	alive *os.File // closed by the system when this process ends
}

// Guard starts a process, once, that ends what the commands of this one have started when this one is killed with
// SIGKILL: whatever has inherited SOLOIST_RUN, or is in the cgroup of a run. If it is killed itself, another one is
// started. It runs the same program with args and without an environment; that has
// to call [EndOrphaned] with the last of args, which Guard adds.
func Guard(args ...string) error {
	guard.Lock()
	defer guard.Unlock()
	if guard.alive != nil {
		return nil
	}
	alive, pid, err := startGuard(args)
	if err != nil {
		return err
	}
	guard.alive = alive
	go replaceGuard(pid, args)
	return nil
}

// replaceGuard waits until the guard ends, which it does not do by itself while this process lives, and starts another.
func replaceGuard(pid int, args []string) {
	if !awaitPolled(pid) {
		return
	}
	_, _ = unix.Wait4(pid, nil, 0, nil)
	guard.Lock()
	_ = guard.alive.Close()
	guard.alive = nil
	guard.Unlock()
	for Guard(args...) != nil {
		time.Sleep(time.Second)
	}
}

func startGuard(args []string) (alive *os.File, pid int, err error) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = theirs.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		_ = ours.Close()
		return nil, 0, err
	}
	defer func() { _ = null.Close() }()
	attr := &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Files: []uintptr{theirs.Fd(), null.Fd(), null.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true}, // a signal to our group or from our terminal is not for it
	}
	forking.Lock()
	defer forking.Unlock()
	pid, err = fork("/proc/self/exe", append(slices.Clone(args), instance), attr)
	if err != nil {
		_ = ours.Close()
		return nil, 0, err
	}
	if p, ok := readProcess(pid); ok {
		children.Lock()
		strangers = append(strangers, p)
		children.Unlock()
	}
	return ours, pid, nil
}

// endWithin bounds how long EndOrphaned looks for processes that do not die, or that execute a program from a file
// system that hangs.
const endWithin = time.Minute

// EndOrphaned waits until alive is at its end, which is when the process that has started this one has ended, and kills
// every process that belongs to a run of that instance.
func EndOrphaned(alive io.Reader, instance string) {
	_, _ = io.Copy(io.Discard, alive)
	begin := time.Now()
	groups := cgroupsOf(instance)
	for _, g := range groups {
		g.kill()
	}
	for clean := 0; clean < 2 && time.Since(begin) < endWithin; time.Sleep(10 * time.Millisecond) {
		clean++ // twice, for one that was just being started
		for _, p := range processes() {
			if gone(p) || p.pid == os.Getpid() {
				continue
			}
			mark, marked, unread := markOf(p.pid)
			if marked && bytes.Contains(mark, []byte(instance)) {
				clean = 0
				_ = p.signal(unix.SIGKILL)
			}
			if unread {
				clean = 0
			}
		}
	}
	for _, g := range groups {
		g.remove()
	}
}
