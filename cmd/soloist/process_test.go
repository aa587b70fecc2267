//go:build unix

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// A replica is one of them.
type replica struct {
	*exec.Cmd
	said bytes.Buffer // complete when it has ended
}

// replica starts one; the test binary is the command when it is called soloist.
func (f fleet) replica(name string, args ...string) *replica {
	f.t.Helper()
	path, err := exec.LookPath("soloist")
	if err != nil {
		f.t.Fatal(err)
	}
	r := &replica{Cmd: exec.Command(path, append([]string{"cron", "--replica", name}, args...)...)}
	r.Dir = f.dir
	r.Env = append(os.Environ(), "SOLOIST_STORE=sqlite:"+filepath.Join(f.dir, "store.db"))
	r.Stdout, r.Stderr = &r.said, &r.said
	if err := r.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = r.Process.Signal(syscall.SIGCONT)
		_ = r.Process.Kill()
		_ = r.Wait()
		if f.t.Failed() {
			f.t.Logf("%s:\n%s", name, r.said.String())
		}
	})
	return r
}

// lines returns what the jobs have written to a file, by fields.
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

// Three processes share a crontab with a job every second. One is killed with kill -9 in the middle of a run, another
// stopped for longer than its lease in the middle of one. Every scheduled time is begun, and run once unless its
// process was killed or says that it has lost the lease.
func TestFleetSurvivesKillAndPause(t *testing.T) {
	servers.Long(t)
	f := fleet{t, memoryDir(t)}
	job := `# name: tick
# soloist: grace=1h
* * * * * * * echo begin $SOLOIST_SCHEDULED_AT $SOLOIST_HOLDER $SOLOIST_TOKEN >>log; sleep 0.2; echo end $SOLOIST_SCHEDULED_AT >>log
`
	if err := os.WriteFile(filepath.Join(f.dir, "crontab"), []byte(job), 0o600); err != nil {
		t.Fatal(err)
	}
	replicas := map[string]*replica{}
	for _, name := range []string{"a", "b", "c"} {
		replicas[name] = f.replica(name, "--ttl", "4s", "--drain", servers.Patience.String(), "crontab")
	}
	middle := func(sig os.Signal) (name string, harmed *replica) { // of the run that has begun last
		until(t, "a run is under way", func() bool {
			lines := f.lines("log")
			if len(lines) == 0 || lines[len(lines)-1][0] != "begin" || len(lines[len(lines)-1]) < 4 {
				return false
			}
			name, _, _ = strings.Cut(lines[len(lines)-1][2], "#")
			harmed = replicas[name]
			return harmed != nil
		})
		if err := harmed.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		delete(replicas, name)
		return name, harmed
	}
	goOn := func(who string, runs int) {
		count := len(f.lines("log"))
		until(t, who+" to go on", func() bool { return len(f.lines("log")) > count+2*runs })
	}
	goOn("all", 3)
	killed, _ := middle(syscall.SIGKILL)
	goOn("the others", 3)
	_, stopped := middle(syscall.SIGSTOP)
	goOn("the last", 3)
	if err := stopped.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	goOn("both", 4)
	lost := map[string]bool{} // the tokens that a process has said it has lost
	for _, r := range []*replica{stopped, replicas[onlyKey(replicas)]} {
		if err := r.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := r.Wait(); err != nil {
			t.Errorf("after TERM: %v", err)
		}
		for _, found := range regexp.MustCompile(`(?m)(?:lease lost|outlived its lease).* token=([0-9]+)`).FindAllStringSubmatch(r.said.String(), -1) {
			lost[found[1]] = true
		}
	}
	f.audit(killed, lost)
}

func onlyKey[V any](m map[string]V) (key string) {
	for key = range m {
	}
	return key
}

// audit checks that no second was left out and that none was run twice, but for those whose process was killed or has
// lost its lease.
func (f fleet) audit(killed string, lost map[string]bool) {
	f.t.Helper()
	begun, ended := map[string][][]string{}, map[string]int{}
	var times []time.Time
	last := "" // the token of the last run of the process that was killed
	for _, line := range f.lines("log") {
		at, err := time.Parse(time.RFC3339, line[1])
		if err != nil {
			f.t.Fatal(err)
		}
		if line[0] == "end" {
			ended[line[1]]++
			continue
		}
		begun[line[1]] = append(begun[line[1]], line)
		times = append(times, at)
		if strings.HasPrefix(line[2], killed+"#") {
			last = line[3]
		}
	}
	lost[last] = true // nobody is left to say so
	newest := slices.MaxFunc(times, time.Time.Compare)
	again := 0
	for at := slices.MinFunc(times, time.Time.Compare); !at.After(newest); at = at.Add(time.Second) {
		key := at.Format(time.RFC3339)
		runs := begun[key]
		if len(runs) == 0 {
			f.t.Errorf("%s was left out", key)
			continue
		}
		again += len(runs) - 1
		if len(runs) == 1 && ended[key] != 1 {
			f.t.Errorf("%s ended %d times", key, ended[key])
		}
		slices.SortFunc(runs, func(a, b []string) int { return cmp.Or(len(a[3])-len(b[3]), strings.Compare(a[3], b[3])) })
		for _, run := range runs[:len(runs)-1] { // by their tokens: another came after each
			if !lost[run[3]] {
				f.t.Errorf("%s was begun again, though %s, which had it with token %s, has neither died nor lost it", key, run[2], run[3])
			}
		}
	}
	f.t.Logf("%d scheduled times, %d runs taken over", len(begun), again)
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
	holder := command("lock", "x", "--ttl", "5s", "--", "sh", "-c", "echo $$ >pid; exec sleep 60")
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

// zombie reports whether a process has ended and just waits to be reaped by its parent.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
