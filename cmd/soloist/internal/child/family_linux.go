package child

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

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
