package child

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/soloist-dev/soloist/test/servers"
)

// What a command leaves behind when it ends by itself is ended.
func TestNothingIsLeft(t *testing.T) {
	for name, script := range map[string]string{
		"in the group":           `sleep 1000 & echo $! >$1`,
		"deaf":                   `sh -c 'trap "" TERM; echo $$ >$1; while :; do sleep 0.01; done' sh $1 & while ! test -s $1; do sleep 0.01; done`,
		"stopped":                `sleep 1000 & kill -STOP $!; echo $! >$1`,
		"holds the output":       `sleep 1000 & echo $! >$1; exit 0`,
		"in a session":           `setsid sh -c 'echo $$ >$1; exec sleep 1000' sh $1 & exit 0`,
		"a daemon":               `(setsid sh -c 'echo $$ >$1; exec sleep 1000' sh $1 >/dev/null 2>&1 &) ; while ! test -s $1; do sleep 0.01; done`,
		"a daemon without env":   `(env -i setsid sh -c 'echo $$ >$1; exec sleep 1000' sh $1 &) ; while ! test -s $1; do sleep 0.01; done`,
		"a child of a daemon":    `(setsid sh -c 'setsid sleep 1000 & echo $! >$1; wait' sh $1 &) ; while ! test -s $1; do sleep 0.01; done`,
		"a deaf daemon in a job": `(setsid sh -c 'trap "" TERM; echo $$ >$1; while :; do sleep 0.01; done' sh $1 &) ; while ! test -s $1; do sleep 0.01; done`,
	} {
		t.Run(name, func(t *testing.T) {
			file := inTemp(t, "pid")
			r := begin(t, Command{Args: sh(script, file), Grace: 300 * time.Millisecond})
			result := r.wait(t)
			if r.err != nil || result.Code != 0 || result.Stopped {
				t.Errorf("%+v, %v", result, r.err)
			}
			if name == "in a session" {
				return // it may have been ended before it could write
			}
			if pid := pidIn(t, file); alive(pid) {
				t.Error("a process is left")
			}
		})
	}
}

// What is left of a command that has no grace is killed at once, and not told before.
func TestNothingIsLeftWithoutGrace(t *testing.T) {
	file := inTemp(t, "pid")
	result := begin(t, Command{Args: sh(`sleep 1000 & echo $! >$1`, file)}).wait(t)
	if !result.Killed || alive(pidIn(t, file)) {
		t.Errorf("%+v, and what was left is alive: %t", result, alive(pidIn(t, file)))
	}
}

// When the lease is lost everything ends, wherever it went.
func TestNothingIsLeftWhenTold(t *testing.T) {
	for name, script := range map[string]string{
		"in the group": `sleep 1000 & echo $! >$1; wait`,
		"in a session": `setsid sh -c 'echo $$ >$1; exec sleep 1000' sh $1; exit 0`,
		"deaf in a session": `trap '' TERM; setsid sh -c 'trap "" TERM; echo $$ >$1; while :; do sleep 0.01; done' sh $1;
			while :; do sleep 0.01; done`,
		"a daemon": `(setsid sh -c 'echo $$ >$1; exec sleep 1000' sh $1 &) ; exec sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			file := inTemp(t, "pid")
			r := begin(t, Command{Args: sh(script, file), Grace: 300 * time.Millisecond})
			pid := pidIn(t, file)
			r.cancel()
			if result := r.wait(t); r.err != nil || !result.Stopped {
				t.Errorf("%+v, %v", result, r.err)
			}
			if alive(pid) {
				t.Error("a process is left")
			}
		})
	}
}

// The end of one run does not touch the processes of another.
func TestRunsAreToldApart(t *testing.T) {
	const daemon = `(setsid sh -c 'echo $$ >$1; exec sleep 1000' sh $1 >/dev/null 2>&1 &) ; echo ready; read x`
	const bare = `(env -i /usr/bin/setsid /bin/sh -c 'echo $$ >$1; exec sleep 1000' sh $1 >/dev/null 2>&1 &) ; echo ready; read x`
	fileA, fileB, fileC := inTemp(t, "a"), inTemp(t, "b"), inTemp(t, "c")
	gateA, gateB, gateC := newGate(t), newGate(t), newGate(t)
	a := begin(t, Command{Args: sh(daemon, fileA), Stdin: gateA, Grace: time.Second})
	b := begin(t, Command{Args: sh(daemon, fileB), Stdin: gateB, Grace: time.Second})
	c := begin(t, Command{Args: sh(bare, fileC), Stdin: gateC, Grace: time.Second})
	pidA, pidB, pidC := pidIn(t, fileA), pidIn(t, fileB), pidIn(t, fileC)
	a.cancel()
	a.wait(t)
	if alive(pidA) || !alive(pidB) {
		t.Errorf("after the end of a: its daemon lives: %v, that of b: %v", alive(pidA), alive(pidB))
	}
	// The daemon of c threw away by what it could be known. It ends with the last run.
	c.cancel()
	c.wait(t)
	if !alive(pidC) || !alive(pidB) {
		t.Errorf("after the end of c: its daemon lives: %v, that of b: %v", alive(pidC), alive(pidB))
	}
	b.cancel()
	b.wait(t)
	if alive(pidB) || alive(pidC) {
		t.Errorf("after the end of b: its daemon lives: %v, that of c: %v", alive(pidB), alive(pidC))
	}
}

// What was a child of this process before it adopted is not a run's.
func TestStrangersAreLeftAlone(t *testing.T) {
	pid := foreign(t, nil, nil, nil, "/bin/sleep", "1000")
	p, _ := readProcess(pid)
	children.Lock()
	strangers = append(strangers, p)
	children.Unlock()
	if _, err := (&Command{Args: []string{"true"}}).Run(t.Context()); err != nil || !alive(pid) {
		t.Errorf("%v; alive: %v", err, alive(pid))
	}
}

// daemon is a script that starts a daemon, which writes its number to a file.
const daemon = `/usr/bin/setsid -f /bin/sh -c 'echo $$ >$0; exec sleep 1000' `

// What was a child of this process before it adopted may leave a daemon, which is not a run's. Nobody can tell it from what a run has left that threw
// its environment away: that is left alone too, and both are named.
func TestDaemonsOfStrangersAreLeftAlone(t *testing.T) {
	begun, theirs, ours, bare := inTemp(t, "begun"), inTemp(t, "theirs"), inTemp(t, "ours"), inTemp(t, "bare")
	said, err := os.Create(inTemp(t, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = said.Close() }()
	pid := foreign(t, []*os.File{said, said, said}, append(os.Environ(), helper+"=run"), nil,
		sh(`(until [ -e $1 ]; do sleep 0.01; done; `+daemon+`$2) & shift 2; exec "$@"`, append([]string{begun, theirs, self(t)}, sh(
			`>$1; `+daemon+`$3; env -i `+daemon+`$4; until [ -s $2 ] && [ -s $3 ] && [ -s $4 ]; do :; done
			until read -r _ _ _ parent _ </proc/$(cat $2)/stat && [ $parent = $PPID ]; do :; done`,
			begun, theirs, ours, bare)...)...)...)
	status := waitForeign(t, pid)
	text, err := os.ReadFile(said.Name())
	if err != nil || status.ExitStatus() != 0 {
		t.Fatalf("%v, %v, %s", err, status, text)
	}
	a, b := pidIn(t, theirs), pidIn(t, bare)
	if !alive(a) || !alive(b) || alive(pidIn(t, ours)) {
		t.Errorf("the daemon of a stranger lives: %t, that of the run without an environment: %t, that with one: %t", alive(a), alive(b), alive(pidIn(t, ours)))
	}
	if want := fmt.Sprintf("processes %d %d go on: nobody can tell", min(a, b), max(a, b)); !bytes.Contains(text, []byte(want)) {
		t.Errorf("%s\nwant %q", text, want)
	}
	for _, pid := range []int{a, b} {
		_ = unix.Kill(pid, unix.SIGKILL)
		waitFor(t, "the end of a daemon", func() bool { return !alive(pid) })
	}
}

// Process 1 of a container gets also what others leave in it: what a run has left that threw its environment away is named.
func TestProcessOneNamesWhatMayBeOfARun(t *testing.T) {
	namespace := []string{"unshare", "--pid", "--fork", "--mount-proc"}
	if result, err := (&Command{Args: slices.Concat(namespace, []string{"true"})}).Run(t.Context()); err != nil || result.Code != 0 {
		servers.Missing(t, "there is no process 1 to be had here: %+v, %v", result, err)
	}
	ours, bare := inTemp(t, "ours"), inTemp(t, "bare")
	script := sh(daemon+`$1; env -i `+daemon+`$2; until [ -s $1 ] && [ -s $2 ]; do :; done; exit 3`, ours, bare)
	r := begin(t, Command{Args: slices.Concat(namespace, []string{"env", helper + "=run", self(t)}, script)})
	result := r.wait(t)
	if want := fmt.Sprintf("helper: code 3, processes %d go on: nobody can tell", pidIn(t, bare)); r.err != nil || result.Code != 3 || !r.out.has(want)() {
		t.Errorf("%+v, %v, %q, want %q", result, r.err, r.out.String(), want)
	}
}

// Orphans that end by themselves leave no zombies while the command goes on.
func TestOrphansAreReaped(t *testing.T) {
	file := inTemp(t, "pid")
	r := begin(t, Command{Args: sh(`(setsid sh -c 'echo $$ >$1' sh $1 &) ; sleep 1000`, file), Grace: time.Second})
	pid := pidIn(t, file)
	waitFor(t, "reaped", func() bool { _, exists := readProcess(pid); return !exists })
	r.cancel()
	r.wait(t)
}

func TestManyAtOnce(t *testing.T) {
	var runs []*running
	for range 20 {
		runs = append(runs, begin(t, Command{Args: sh(`sleep 1000 & setsid sleep 1000 & echo ready`), Grace: time.Second}))
	}
	for _, r := range runs {
		if result := r.wait(t); r.err != nil || result.Code != 0 || r.out.String() != "ready\n" {
			t.Errorf("%+v, %v, %q", result, r.err, r.out.String())
		}
	}
}

func TestMark(t *testing.T) {
	t.Setenv(RunVariable, "outer")
	var out bytes.Buffer
	if _, err := (&Command{Args: sh(`echo $SOLOIST_RUN`), Stdout: &out}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(out.Bytes(), []byte("outer/")) || out.Len() != len("outer/")+32+1 {
		t.Errorf("%q", out.String())
	}
}

// Whose an orphan is tells the mark that it has inherited, also while there is one run only: what an earlier run has left is not of this one.
func TestTheMarkTellsWhoseAnOrphanIs(t *testing.T) {
	orphan := process{pid: 7}
	one, two := map[int]struct{}{5: {}}, map[int]struct{}{5: {}, 6: {}}
	marked := func(by string) map[int][]byte { return map[int][]byte{orphan.pid: []byte(by)} }
	for what, c := range map[string]struct {
		census     census
		mine, sure bool
	}{
		"ours":                          {census{started: one, marks: marked("mine")}, true, true},
		"ours, of two runs":             {census{started: two, marks: marked("mine")}, true, true},
		"that of a run within ours":     {census{started: two, marks: marked("mine another")}, true, true},
		"another's":                     {census{started: one, marks: marked("another")}, false, true},
		"another's, of two runs":        {census{started: two, marks: marked("another")}, false, true},
		"of one run, without a mark":    {census{started: one, alone: true}, true, true},
		"of two runs, without a mark":   {census{started: two, alone: true}, false, true},
		"of two runs, not readable yet": {census{started: two, alone: true, unread: map[int]bool{orphan.pid: true}}, false, false},
		"of one run, or of others":      {census{started: one}, false, true},
		"of others, not readable yet":   {census{started: one, unread: map[int]bool{orphan.pid: true}}, false, false},
	} {
		if mine, sure := c.census.isOf(orphan, "mine"); mine != c.mine || sure != c.sure {
			t.Errorf("%s: of the run: %t, surely: %t; want %t and %t", what, mine, sure, c.mine, c.sure)
		}
	}
}
