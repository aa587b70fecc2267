package child

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

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
	for range 10 {
		now, ok := listedChildren()
		if !ok {
			break
		}
		if last != nil && equal(last, now) {
			return now
		}
		last = append(now[:len(now):len(now)], -1)[:len(now)] // not nil
	}
	var pids []int
	for _, p := range processes() {
		if p.parent == os.Getpid() {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
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

// A process as /proc tells of it. The start, in ticks since the boot, tells it from a later one of the same number.
type process struct {
	pid, parent, group int
	state              byte
	start              uint64
}

// readProcess reads /proc/pid/stat: "pid (name) state ppid pgrp …" with the start as the 22nd field. The name may hold
// anything.
func readProcess(pid int) (process, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return process{}, false
	}
	p := process{pid: pid, state: fields[0][0]}
	p.parent, _ = strconv.Atoi(fields[1])
	p.group, _ = strconv.Atoi(fields[2])
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

// A relation is what has been learnt of the processes of a run.
type relation struct {
	seen map[int]uint64 // their starts, by number
}

// strays are the processes of the run that live outside of the command's group.
func (r *run) strays() []process {
	all, _ := r.family()
	strays := all[:0]
	for _, p := range all {
		if p.group != r.pid {
			strays = append(strays, p)
		}
	}
	return strays
}

// left are the processes of the run other than the command, which has ended.
func (r *run) left() []process {
	if r.childless() {
		return nil
	}
	for range 20 {
		all, open := r.family()
		if len(all) > 0 || !open {
			return all
		}
		time.Sleep(time.Millisecond) // for the one that is just being executed
	}
	return nil
}

// childless tells without looking at every process that the ended command has left none: what it leaves becomes our
// child at once.
func (r *run) childless() bool {
	children.Lock()
	defer children.Unlock()
	if !adopted {
		return false
	}
	for _, pid := range ownChildren() {
		if _, ours := children.pids[pid]; ours {
			continue
		}
		if p, ok := readProcess(pid); ok && !gone(p) && !stranger(p) {
			return false
		}
	}
	return true
}

func gone(p process) bool { return p.state == 'Z' || p.state == 'X' || p.state == 'x' }

func stranger(p process) bool {
	for _, s := range strangers {
		if s.pid == p.pid && s.start == p.start {
			return true
		}
	}
	return false
}

// family answers the living processes of the run other than the command. It is open when there is an orphan of which
// can't be said yet whose it is.
func (r *run) family() (living []process, open bool) {
	children.Lock()
	defer children.Unlock()
	if r.seen == nil {
		r.seen = make(map[int]uint64)
	}
	all := processes()
	descendants := make(map[int][]process, len(all))
	for _, p := range all {
		descendants[p.parent] = append(descendants[p.parent], p)
	}
	ours := make(map[int]bool)
	var add func(p process)
	add = func(p process) {
		if ours[p.pid] || p.pid == os.Getpid() {
			return
		}
		ours[p.pid] = true
		for _, d := range descendants[p.pid] {
			add(d)
		}
	}
	if p, ok := all[r.pid]; ok {
		add(p)
	}
	for _, p := range all {
		start, known := r.seen[p.pid]
		switch {
		case p.group == r.pid, known && start == p.start:
			add(p)
		case adopted && p.parent == os.Getpid():
			mine, sure := r.orphan(p)
			if mine {
				add(p)
			}
			open = open || !sure
		}
	}
	for pid := range ours {
		p := all[pid]
		if pid == r.pid || gone(p) {
			continue
		}
		r.seen[pid] = p.start
		living = append(living, p)
	}
	return living, open
}

// orphan tells whether the child p of this process is an orphan of the run.
func (r *run) orphan(p process) (mine, sure bool) {
	if _, child := children.pids[p.pid]; child || gone(p) || stranger(p) {
		return false, true
	}
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(RunVariable+"=")); ok {
			return bytes.Contains(value, []byte(r.id)), true
		}
	}
	// Only descendants' orphans come to a process that is not the first of its container: with one run they are its.
	if len(children.pids) == 1 && os.Getpid() != 1 {
		return true, true
	}
	return false, err != nil || len(environ) > 0
}
