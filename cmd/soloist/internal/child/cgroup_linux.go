package child

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A cgroup is a control group (version 2) for the processes of one run. Every process that the command starts is in it,
// whatever it does to its session, its parent or its environment. nil is a run without one.
type cgroup struct{ dir string }

// cgroupPrefix begins the names of the cgroups that are made here. The id of the run follows.
const cgroupPrefix = "soloist-"

// delegated returns the directory of the cgroup of this process if it was delegated to it, so that it may make cgroups
// there; "" if not. Like systemd it goes by an extended attribute of the directory: in a cgroup without it, another
// program may be the only one that is to make changes.
var delegated = sync.OnceValue(func() string {
	dir := ownCgroup()
	if dir == "" || unix.Access(filepath.Join(dir, "cgroup.kill"), unix.F_OK) != nil {
		return ""
	}
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 2)
		if n, err := unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" && unix.Access(dir, unix.W_OK) == nil {
			return dir
		}
	}
	return ""
})

// ownCgroup returns the directory of the cgroup of this process; "" if it cannot be found.
func ownCgroup() string {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	return cgroupDir(string(groups), string(mounts))
}

// cgroupDir finds the directory of a cgroup of version 2 in the texts of /proc/PID/cgroup and /proc/PID/mountinfo.
func cgroupDir(groups, mounts string) string {
	for line := range strings.Lines(groups) {
		path, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !is || strings.HasPrefix(path, "/..") {
			continue
		}
		for mount := range strings.Lines(mounts) {
			fields := strings.Fields(mount)
			_, after, _ := strings.Cut(mount, " - ")
			if len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") || strings.Contains(fields[4], `\`) {
				continue
			}
			if rest, under := strings.CutPrefix(path, strings.TrimSuffix(fields[3], "/")); under {
				return filepath.Join(fields[4], rest)
			}
		}
	}
	return ""
}

// newCgroup makes the cgroup of a run, or returns nil if it cannot.
func newCgroup(run string) *cgroup {
	parent := delegated()
	if parent == "" {
		return nil
	}
	g := &cgroup{filepath.Join(parent, cgroupPrefix+run)}
	if os.Mkdir(g.dir, 0o755) != nil {
		return nil
	}
	_ = unix.Setxattr(g.dir, "user.delegate", []byte("1"), 0) // for a soloist in the command
	return g
}

// spawn starts the command of a run, in a cgroup if it may make one.
func (r *run) spawn(file string, attr *syscall.ProcAttr) (pid int, err error) {
	if r.cgroup = newCgroup(r.id); r.cgroup != nil {
		if pid, err := r.cgroup.spawn(file, r.command.Args, attr); err == nil {
			return pid, nil
		}
		r.discard()
		r.cgroup = nil
	}
	return startRegistered(file, r.command.Args, attr)
}

func (g *cgroup) spawn(file string, args []string, attr *syscall.ProcAttr) (pid int, err error) {
	fd, err := unix.Open(g.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	within, sys := *attr, *attr.Sys
	sys.UseCgroupFD, sys.CgroupFD = true, fd
	within.Sys = &sys
	return startRegistered(file, args, &within)
}

// dirs returns the directories of the cgroup, and of those that its processes have made in it, the innermost first.
func (g *cgroup) dirs() (dirs []string) {
	_ = filepath.WalkDir(g.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append([]string{path}, dirs...)
		}
		return nil
	})
	return dirs
}

// processes returns the numbers of the living processes in the cgroup.
func (g *cgroup) processes() (pids []int) {
	if g.empty() {
		return nil
	}
	for _, dir := range g.dirs() {
		list, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		pids = append(pids, numbers(list)...)
	}
	return pids
}

// empty reports whether no process is alive in the cgroup.
func (g *cgroup) empty() bool {
	if g == nil {
		return true
	}
	events, err := os.ReadFile(filepath.Join(g.dir, "cgroup.events"))
	return err != nil || bytes.Contains(events, []byte("populated 0"))
}

// kill kills all processes in the cgroup, those of other users, too.
func (g *cgroup) kill() {
	if g != nil {
		_ = os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0)
	}
}

// killCgroup kills all processes of the run, if it has a cgroup.
func (r *run) killCgroup() { r.cgroup.kill() }

// discard removes the cgroup of the run, whose processes have ended. The last of them may leave it a moment later.
func (r *run) discard() {
	if r.cgroup != nil {
		r.cgroup.remove()
	}
}

func (g *cgroup) remove() {
	for begin := time.Now(); time.Since(begin) < time.Second; time.Sleep(time.Millisecond) {
		for _, dir := range g.dirs() {
			_ = unix.Rmdir(dir)
		}
		if unix.Access(g.dir, unix.F_OK) != nil {
			return
		}
	}
}

// cgroupsOf returns the cgroups of the runs of an instance.
func cgroupsOf(instance string) (all []*cgroup) {
	parent := delegated()
	if parent == "" {
		return nil
	}
	entries, _ := os.ReadDir(parent)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), cgroupPrefix+instance) {
			all = append(all, &cgroup{filepath.Join(parent, entry.Name())})
		}
	}
	return all
}
