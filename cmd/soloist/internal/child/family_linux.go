package child

import (
	"bytes"
	"os"
	"slices"
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
	for range 20 {
		if !r.mayHaveLeft() {
			return nil
		}
		all, open := r.family()
		if len(all) > 0 || !open {
			return all
		}
		time.Sleep(time.Millisecond) // for the one that is just being executed
	}
	return nil
}

// mayHaveLeft reports whether the ended command can have left a process, without looking at every process there is: what it leaves becomes a
// child of this process at once. It costs as much as there are orphans, mostly none.
func (r *run) mayHaveLeft() bool {
	pids, ok := orphans()
	if !ok || !adopts() {
		return true
	}
	for _, pid := range pids {
		p, ok := readProcess(pid)
		if !ok || gone(p) || stranger(p) {
			continue
		}
		mark, marked, _ := markOf(pid)
		if p.group == r.pid || r.knows(p) || !marked || bytes.Contains(mark, []byte(r.id)) {
			return true
		}
	}
	return false
}

// knows reports whether p was found to be of the run before.
func (r *run) knows(p process) bool {
	start, seen := r.seen[p.pid]
	return seen && start == p.start
}

func gone(p process) bool { return p.state == 'Z' || p.state == 'X' || p.state == 'x' }

func stranger(p process) bool {
	children.Lock()
	defer children.Unlock()
	return slices.ContainsFunc(strangers, func(s process) bool { return s.pid == p.pid && s.start == p.start })
}

// family returns the living processes of the run other than the command. It is open when there is an orphan that can't be
// assigned yet.
func (r *run) family() (living []process, open bool) {
	if r.seen == nil {
		r.seen = make(map[int]uint64)
	}
	c := takeCensus()
	ours := make(map[int]bool)
	var add func(p process)
	add = func(p process) {
		if ours[p.pid] || p.pid == os.Getpid() {
			return
		}
		ours[p.pid] = true
		for _, d := range c.children[p.pid] {
			add(d)
		}
	}
	if p, ok := c.all[r.pid]; ok {
		add(p)
	}
	for _, p := range c.groups[r.pid] {
		add(p)
	}
	for pid := range r.seen {
		if p, ok := c.all[pid]; ok && r.knows(p) {
			add(p)
		}
	}
	if c.adopted {
		for _, p := range c.orphans() {
			mine, sure := r.orphan(c, p)
			if mine {
				add(p)
			}
			open = open || !sure
		}
	}
	for pid := range ours {
		p := c.all[pid]
		if pid == r.pid || gone(p) {
			continue
		}
		r.seen[pid] = p.start
		living = append(living, p)
	}
	return living, open
}

// orphan reports whether the orphan p is one of the run.
func (r *run) orphan(c *census, p process) (mine, sure bool) {
	if mark, marked := c.marks[p.pid]; marked {
		return bytes.Contains(mark, []byte(r.id)), true
	}
	// Only descendants' orphans come to a process that is not the first of its container: with one run they are its.
	if len(c.started) == 1 && os.Getpid() != 1 {
		return true, true
	}
	return false, !c.unread[p.pid]
}
