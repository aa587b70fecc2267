package child

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The cgroup of a process is found by its mounts, or not at all.
func TestCgroupDirectory(t *testing.T) {
	const hybrid = "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	for _, test := range []struct{ name, groups, mounts, want string }{
		{"version 2", "0::/user.slice/a.service\n", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/user.slice/a.service"},
		{"both versions", "4:memory:/x\n0::/a\n", hybrid, "/sys/fs/cgroup/unified/a"},
		{"the root", "0::/\n", hybrid, "/sys/fs/cgroup/unified"},
		{"a part is mounted", "0::/pod/a/b\n", "41 31 0:38 /pod/a /cg rw shared:4 - cgroup2 cgroup2 rw\n", "/cg/b"},
		{"another part is mounted", "0::/pod/a\n", "41 31 0:38 /other /cg rw - cgroup2 cgroup2 rw\n", ""},
		{"outside of the namespace", "0::/../a\n", hybrid, ""},
		{"version 1", "4:memory:/x\n", hybrid, ""},
		{"not mounted", "0::/a\n", "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw\n", ""},
		{"nothing", "", "", ""},
	} {
		if got := cgroupDir(test.groups, test.mounts); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// inDelegated returns what starts a process in a cgroup that is delegated to it, and the cgroup's directory.
func inDelegated(t *testing.T) (sys *unix.SysProcAttr, dir string) {
	t.Helper()
	g := &cgroup{filepath.Join(ownCgroup(), "test-"+newID())}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() { g.kill(); g.remove() })
	if err := unix.Setxattr(g.dir, "user.delegate", []byte("1"), 0); err != nil {
		t.Skipf("no cgroup can be delegated here: %v", err)
	}
	f, err := os.Open(g.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return &unix.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}, g.dir
}

// A daemon that has thrown its environment away is ended with its run, and so is what another soloist in the run has
// started, even after kill -9 of this one, where it may make cgroups. Nothing is left of them.
func TestCgroupsFindEveryProcess(t *testing.T) {
	const daemon = `(env -i setsid sh -c 'trap "" TERM; echo $$ >'$1'; while :; do sleep 1000; done' &); while ! test -s $1; do sleep 0.01; done; `
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	for name, test := range map[string]struct {
		script string
		nested bool // in the command of another soloist
		kill   bool // which is the first to end
	}{
		"the command ends":              {script: daemon},
		"the parent is killed":          {script: daemon + "sleep 1000", kill: true},
		"the command ends, nested":      {script: daemon, nested: true},
		"the outer one is killed":       {script: daemon + "sleep 1000", nested: true, kill: true},
		"the command has made a cgroup": {script: `mkdir $2/$(sed -n 's|^0::.*/||p' /proc/self/cgroup)/inner; ` + daemon},
	} {
		t.Run(name, func(t *testing.T) {
			sys, dir := inDelegated(t)
			file := inTemp(t, "pid")
			env := append(os.Environ(), helper+"=guarded")
			args := append([]string{self(t)}, sh(test.script, file, dir)...)
			if test.nested {
				args = append([]string{self(t), "/usr/bin/env", helper + "=guarded"}, args...)
			}
			parent := foreign(t, []*os.File{null, null, null}, env, sys, args...)
			pid := pidIn(t, file)
			if test.kill {
				if err := unix.Kill(parent, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			waitForeign(t, parent)
			waitFor(t, "the daemon's death", func() bool { return !alive(pid) })
			waitFor(t, "the end of the cgroups", func() bool {
				return !slices.ContainsFunc((&cgroup{dir}).dirs(), func(d string) bool { return strings.Contains(d, "/"+cgroupPrefix) })
			})
			waitFor(t, "the death of all others, and of the guards", func() bool { return len(unregisteredChildren()) == 0 })
		})
	}
}

// A guard that is killed is replaced: what a command has started ends although it and its parent are killed one after
// the other.
func TestAGuardIsReplaced(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	file := inTemp(t, "pid")
	parent := foreign(t, []*os.File{null, null, null}, append(os.Environ(), helper+"=guarded"), nil,
		append([]string{self(t)}, sh(`(setsid sh -c 'echo $$ >$1; exec sleep 1000' sh $1 &); sleep 1000`, file)...)...)
	pid := pidIn(t, file)
	last := 0
	guard := func() bool {
		for _, p := range processes() {
			args, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "cmdline"))
			if p.parent == parent && p.pid != last && strings.Contains(string(args), "end-orphaned") {
				last = p.pid
				return true
			}
		}
		return false
	}
	for range 3 {
		waitFor(t, "a guard", guard)
		killed := last
		if err := unix.Kill(killed, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the guard to be no zombie", func() bool { _, there := readProcess(killed); return !there })
	}
	waitFor(t, "a guard", guard)
	if err := unix.Kill(parent, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitForeign(t, parent)
	waitFor(t, "the death of the daemon", func() bool { return !alive(pid) })
	waitFor(t, "the death of all others, and of the guard", func() bool { return len(unregisteredChildren()) == 0 })
}
