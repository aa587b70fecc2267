package child

import (
	"bytes"
	"slices"
	"time"
)

// A relation is what has been learnt of the processes of a run.
type relation struct {
	seen   map[int]uint64 // their starts, by number
	cgroup *cgroup        // that they are in; nil without one
}

// strays are the processes of the run that live outside of the command's group.
func (r *run) strays() []process {
	all, _, _ := r.family()
	strays := all[:0]
	for _, p := range all {
		if p.group != r.pid {
			strays = append(strays, p)
		}
	}
	return strays
}

// left returns the processes of the run other than the command, which has ended. It returns a *LeftError with processes
// that may be of the run: those that have been starting a program for longer than dieWithin, and those of unknown.
func (r *run) left() ([]process, error) {
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		candidates, complete := r.candidates()
		if complete && len(candidates) == 0 && r.cgroup.empty() {
			return nil, nil
		}
		all, c, undecided := r.family()
		switch {
		case len(all) > 0:
			return all, nil
		case len(undecided) > 0 && time.Since(begin) > dieWithin:
			return nil, leftError(undecided)
		case !r.cgroup.empty() && time.Since(begin) < dieWithin: // one was just started, or is just gone
		case len(undecided) == 0 && c.sawAlive(candidates):
			return nil, r.unknown(c) // they are not surely of the run
		}
	}
}

// unknown returns a *LeftError with the orphans that may be of the run or of others: without a mark, and not older than the
// command. It returns nil where that is known.
func (r *run) unknown(c *census) error {
	if c.alone || !c.adopted || r.cgroup != nil {
		return nil
	}
	e := &LeftError{Unknown: true}
	for _, p := range c.orphans() {
		if _, marked := c.marks[p.pid]; !marked && p.start >= c.all[r.pid].start {
			e.Pids = append(e.Pids, p.pid)
		}
	}
	if len(e.Pids) == 0 {
		return nil
	}
	slices.Sort(e.Pids)
	return e
}

// candidates are the living orphans that may be of the run, whose command has ended, found without looking at every
// process there is: what a command leaves becomes a child of this process at once. It costs as much as there are
// orphans, mostly none. It is not complete where the kernel or this process keeps no list of orphans.
func (r *run) candidates() (living []process, complete bool) {
	if !adopts() {
		return nil, false
	}
	ended := make(map[int]bool)
	for again := true; again; {
		pids, ok := orphans()
		if !ok {
			return nil, false
		}
		living, again = nil, false
		for _, pid := range pids {
			p, ok := readProcess(pid)
			if !ok || gone(p) {
				again = again || !ended[pid] // since the list was read it may have left us its children
				ended[pid] = true
				continue
			}
			if !stranger(p) && r.mayOwn(p) {
				living = append(living, p)
			}
		}
	}
	return living, true
}

// mayOwn reports whether an orphan may be of the run.
func (r *run) mayOwn(p process) bool {
	mark, marked, _ := markOf(p.pid)
	return p.group == r.pid || r.knows(p) || !marked || bytes.Contains(mark, []byte(r.id))
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

// family returns the living processes of the run other than the command, the census in which they were found, and the
// orphans that can't be assigned yet.
func (r *run) family() (living []process, c *census, undecided []process) {
	if r.seen == nil {
		r.seen = make(map[int]uint64)
	}
	c = takeCensus()
	ours := make(map[int]bool)
	c.addCommand(ours, r.pid)
	for pid := range r.seen {
		if p, ok := c.all[pid]; ok && r.knows(p) {
			c.addTree(ours, p)
		}
	}
	for _, pid := range r.cgroup.processes() {
		if p, ok := c.all[pid]; ok {
			c.addTree(ours, p)
		}
	}
	if c.adopted {
		for _, p := range c.orphans() {
			mine, sure := c.isOf(p, r.id)
			switch {
			case mine:
				c.addTree(ours, p)
			case !sure:
				undecided = append(undecided, p)
			}
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
	return living, c, undecided
}
