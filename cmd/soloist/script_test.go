package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/soloist-dev/soloist/test/servers"
)

// TestMain lets this test binary be the command soloist, in the scripts and for the tests of processes.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"soloist": main})
}

// tests are those of this package, which share servers.
type tests struct{ *testing.M }

var endServers = func() {}

func (t tests) Run() int {
	defer endServers()
	return t.M.Run()
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:         "testdata/script",
		WorkdirRoot: memoryDir(t),
		Setup: func(env *testscript.Env) error {
			env.Setenv("SOLOIST_STORE", "sqlite:"+filepath.Join(env.WorkDir, "store.db"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"await": await, "fails": fails, "signal": signalBackground},
	})
}

// memoryDir is a directory for files that are synced often, in memory if the system has that: a disk that stalls for
// longer than a lease ends it, which is right, and not what these tests are about.
func memoryDir(t *testing.T) string {
	t.Helper()
	return servers.Directory(t)
}

// await REGEXP COMMAND [ARG...] runs a command again and again until its output matches.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await regexp command [arg...]")
	}
	want := regexp.MustCompile("(?m)" + args[0])
	path, err := exec.LookPath(args[1])
	ts.Check(err)
	var out []byte
	for deadline := time.Now().Add(servers.Patience); time.Now().Before(deadline); {
		cmd := exec.Command(path, args[2:]...)
		cmd.Dir = ts.MkAbs(".")
		cmd.Env = append(os.Environ(), "SOLOIST_STORE="+ts.Getenv("SOLOIST_STORE"))
		out, _ = cmd.CombinedOutput()
		if want.Match(out) {
			return
		}
	}
	ts.Fatalf("%v never printed %q; last:\n%s", args[1:], args[0], bytes.TrimSpace(out))
}

// fails CODE COMMAND [ARG...] is exec for a command that ends with an exit code.
func fails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fails code command [arg...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		code = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// signalBackground SIGNAL REGEXP sends a signal to the background command whose arguments match.
func signalBackground(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL}
	if neg || len(args) != 2 || signals[args[0]] == nil {
		ts.Fatalf("usage: signal TERM|INT|HUP|KILL regexp")
	}
	match := regexp.MustCompile(args[1])
	for _, cmd := range ts.BackgroundCmds() {
		if match.MatchString(strings.Join(cmd.Args, " ")) {
			if err := cmd.Process.Signal(signals[args[0]]); !errors.Is(err, os.ErrProcessDone) { // then wait judges how it has ended
				ts.Check(err)
			}
			return
		}
	}
	ts.Fatalf("no background command matches %q", args[1])
}
