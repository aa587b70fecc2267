package child

import (
	"bytes"
	"os"
	"strconv"
	"sync"
)

// A census is what /proc reports about all processes at one time. It is not changed once it is made.
type census struct {
	all      map[int]process
	children map[int][]process // by parent
	groups   map[int][]process
	marks    map[int][]byte   // of orphans of this process: the values of RunVariable that they inherited
	unread   map[int]bool     // orphans that have no environment yet: a program is being executed
	started  map[int]struct{} // the children that this process has started
	adopted  bool             // orphans come to this process
	alone    bool             // and only those of commands
}

// A pendingCensus is one that has not begun to look.
type pendingCensus struct {
	done   chan struct{}
	result *census
}

var censuses struct {
	sync.Mutex
	next *pendingCensus
}

// takeCensus returns a census that was begun after the call. Runs that ask at the same time share one: hundreds of
// commands that have to end at once cost little more than one.
func takeCensus() *census {
	censuses.Lock()
	pending := censuses.next
	mine := pending == nil
	if mine {
		pending = &pendingCensus{done: make(chan struct{})}
		censuses.next = pending
	}
	censuses.Unlock()
	if !mine {
		<-pending.done
		return pending.result
	}
	forking.Lock() // also waits for the census before
	censuses.Lock()
	censuses.next = nil // who asks from now on needs a later one
	censuses.Unlock()
	pending.result = newCensus()
	forking.Unlock()
	close(pending.done)
	return pending.result
}

// newCensus looks at all processes. forking is held.
func newCensus() *census {
	c := &census{
		adopted: adopts(), alone: adoptsAlone(), started: registered(), all: processes(),
		children: make(map[int][]process), groups: make(map[int][]process), marks: make(map[int][]byte), unread: make(map[int]bool),
	}
	for _, p := range c.all {
		c.children[p.parent] = append(c.children[p.parent], p)
		c.groups[p.group] = append(c.groups[p.group], p)
	}
	for _, p := range c.orphans() {
		value, found, unread := markOf(p.pid)
		if found {
			c.marks[p.pid] = value
		}
		c.unread[p.pid] = unread
	}
	return c
}

// orphans are the living children of this process that it has not started and did not have before it adopted.
func (c *census) orphans() []process {
	var all []process
	for _, p := range c.children[os.Getpid()] {
		if _, ours := c.started[p.pid]; !ours && !gone(p) && !stranger(p) {
			all = append(all, p)
		}
	}
	return all
}

// addTree adds a process and its descendants to a set of processes, by number.
func (c *census) addTree(set map[int]bool, p process) {
	if set[p.pid] || p.pid == os.Getpid() {
		return
	}
	set[p.pid] = true
	for _, child := range c.children[p.pid] {
		c.addTree(set, child)
	}
}

// addCommand adds a command, its group and the descendants of both.
func (c *census) addCommand(set map[int]bool, pid int) {
	if p, ok := c.all[pid]; ok {
		c.addTree(set, p)
	}
	for _, p := range c.groups[pid] {
		c.addTree(set, p)
	}
}

// isOf reports whether an orphan belongs to a run whose id begins so.
func (c *census) isOf(orphan process, id string) (is, sure bool) {
	if mark, marked := c.marks[orphan.pid]; marked {
		return bytes.Contains(mark, []byte(id)), true
	}
	if len(c.started) == 1 && c.alone {
		return true, true
	}
	return false, !c.unread[orphan.pid]
}

// ofCommands are the living processes of all runs.
func (c *census) ofCommands() (living []process) {
	set := make(map[int]bool)
	for pid := range c.started {
		c.addCommand(set, pid)
	}
	if c.adopted {
		for _, p := range c.orphans() {
			if is, _ := c.isOf(p, instance); is {
				c.addTree(set, p)
			}
		}
	}
	for pid := range set {
		if p := c.all[pid]; !gone(p) {
			living = append(living, p)
		}
	}
	return living
}

// sawAlive reports whether all of these were alive when the census was taken.
func (c *census) sawAlive(these []process) bool {
	for _, p := range these {
		if seen, ok := c.all[p.pid]; !ok || seen.start != p.start || gone(seen) {
			return false
		}
	}
	return true
}

// markOf returns the value of RunVariable in the environment of a process. If it is not found, unread reports whether it
// may appear yet: a process has no environment while it starts a program, which on a busy machine takes as long as
// reading the program's file.
func markOf(pid int) (value []byte, found, unread bool) {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(RunVariable+"=")); ok {
			return value, true, false
		}
	}
	if err != nil || len(environ) > 0 {
		return nil, false, false
	}
	p, exists := readProcess(pid)
	return nil, false, exists && !gone(p) && !p.bare
}
