//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// A fleet is some processes of soloist cron on one file.
type fleet struct {
	t   *testing.T
	dir string
}

// replica starts one; the test binary is the command when it is called soloist.
func (f fleet) replica(name string, args ...string) *exec.Cmd {
	f.t.Helper()
	path, err := exec.LookPath("soloist")
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"cron", "--replica", name}, args...)...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "SOLOIST_STORE=sqlite:"+filepath.Join(f.dir, "store.db"))
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &errs, &errs
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if f.t.Failed() {
			f.t.Logf("%s:\n%s", name, errs.String())
		}
	})
	return cmd
}

// lines answers what the jobs have written to a file, by fields.
func (f fleet) lines(name string) [][]string {
	file, err := os.Open(filepath.Join(f.dir, name))
	if err != nil {
		return nil
	}
	defer file.Close()
	var all [][]string
	for in := bufio.NewScanner(file); in.Scan(); {
		all = append(all, strings.Fields(in.Text()))
	}
	return all
}

// until waits for a condition.
func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	servers.Wait(t, what, met)
}

// Three processes share a crontab with a job every second. One is killed with kill -9 in the middle of a run, another stopped for
// longer than its lease in the middle of one. Every scheduled time is begun, and every one whose process lived is run once.
func TestFleetSurvivesKillAndPause(t *testing.T) {
	f := fleet{t, memoryDir(t)}
	job := "# name: tick\n* * * * * * * echo begin $SOLOIST_SCHEDULED_AT $SOLOIST_ATTEMPT $SOLOIST_HOLDER >>log; sleep 0.2; echo end $SOLOIST_SCHEDULED_AT >>log\n"
	if err := os.WriteFile(filepath.Join(f.dir, "crontab"), []byte(job), 0o600); err != nil {
		t.Fatal(err)
	}
	replicas := map[string]*exec.Cmd{}
	for _, name := range []string{"a", "b", "c"} {
		replicas[name] = f.replica(name, "--ttl", "4s", "crontab")
	}
	last := func() (name, scheduled string) { // of the run that has begun last, if it has not ended
		lines := f.lines("log")
		if len(lines) == 0 || lines[len(lines)-1][0] != "begin" || len(lines[len(lines)-1]) < 4 {
			return "", ""
		}
		line := lines[len(lines)-1]
		name, _, _ = strings.Cut(line[3], "#")
		return name, line[1]
	}
	middle := func(sig os.Signal) (name, scheduled string) {
		until(t, "a run is under way", func() bool { name, scheduled = last(); return replicas[name] != nil })
		if err := replicas[name].Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		return name, scheduled
	}
	until(t, "three runs have ended", func() bool { return len(f.lines("log")) >= 6 })
	killed, _ := middle(syscall.SIGKILL)
	delete(replicas, killed)
	count := len(f.lines("log"))
	until(t, "the others go on", func() bool { return len(f.lines("log")) > count+6 })
	paused, _ := middle(syscall.SIGSTOP)
	stopped := replicas[paused]
	delete(replicas, paused)
	count = len(f.lines("log"))
	until(t, "the last goes on", func() bool { return len(f.lines("log")) > count+6 })
	if err := stopped.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	count = len(f.lines("log"))
	until(t, "they go on together", func() bool { return len(f.lines("log")) > count+8 })
	for _, r := range append([]*exec.Cmd{stopped}, replicas[onlyKey(replicas)]) {
		if err := r.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := r.Wait(); err != nil {
			t.Errorf("after TERM: %v", err)
		}
	}
	f.audit()
}

func onlyKey[V any](m map[string]V) (key string) {
	for key = range m {
	}
	return key
}

// audit checks that no second was left out and that none was run twice, but for those whose process was killed or stopped.
func (f fleet) audit() {
	f.t.Helper()
	begun, ended := map[string]int{}, map[string]int{}
	var first, newest time.Time
	for _, line := range f.lines("log") {
		at, err := time.Parse(time.RFC3339, line[1])
		if err != nil {
			f.t.Fatal(err)
		}
		if line[0] == "end" {
			ended[line[1]]++
			continue
		}
		begun[line[1]]++
		if first.IsZero() {
			first = at
		}
		newest = at
	}
	again := 0
	for at := first; !at.After(newest); at = at.Add(time.Second) {
		key := at.Format(time.RFC3339)
		switch {
		case begun[key] == 0:
			f.t.Errorf("%s was left out", key)
		case begun[key] > 1:
			again++
		}
		if ended[key] != 1 && begun[key] == 1 {
			f.t.Errorf("%s ended %d times", key, ended[key])
		}
	}
	if again > 2 {
		f.t.Errorf("%d scheduled times were begun again, but just two processes were harmed", again)
	}
	f.t.Log(fmt.Sprint(len(begun), " scheduled times, ", again, " taken over"))
}

// A holder that is killed leaves the lock to the next one when its lease ends, and its child dies with it.
func TestLockOfAKilledProcess(t *testing.T) {
	dir := memoryDir(t)
	path, err := exec.LookPath("soloist")
	if err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(path, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "SOLOIST_STORE=sqlite:"+filepath.Join(dir, "store.db"))
		return cmd
	}
	holder := command("lock", "x", "--ttl", "1s", "--", "sh", "-c", "echo $$ >pid; exec sleep 60")
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	f := fleet{t, dir}
	var pid int
	until(t, "the child runs", func() bool {
		lines := f.lines("pid")
		if len(lines) == 0 {
			return false
		}
		_, err := fmt.Sscan(lines[0][0], &pid)
		return err == nil
	})
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	if out, err := command("lock", "x", "--wait", servers.Patience.String(), "--", "true").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	until(t, "the child has died with it", func() bool { return syscall.Kill(pid, 0) != nil || zombie(pid) })
}

// zombie says that a process has ended and just waits to be reaped by its parent.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
