//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/soloist-dev/soloist/store/sqlitestore"
)

// A benchmark that a signal ends removes what it has made, and says what happened.
func TestAnInterruptedBenchmarkCleansUp(t *testing.T) {
	file := filepath.Join(memoryDir(t), "store.db")
	s, err := sqlitestore.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	records := func() int {
		n := 0
		for _, err := range s.List(t.Context(), "@bench-") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	for letter, sig := range map[string]syscall.Signal{"B": syscall.SIGINT, "C": syscall.SIGTERM} {
		path, err := exec.LookPath("soloist")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, "bench", "--case", letter, "--for", "1h", "--clients", "8")
		cmd.Env = append(os.Environ(), "SOLOIST_STORE=sqlite:"+file)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, "it has made something", func() bool { return records() > 0 })
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(sig) || !strings.Contains(errs.String(), "interrupted") {
			t.Errorf("case %s: %v; it said %q", letter, err, errs.String())
		}
		if n := records(); n != 0 {
			t.Errorf("case %s: %d records are left", letter, n)
		}
	}
}

// onSilence starts soloist on a store that takes requests and does not answer, and returns when it has sent one.
func onSilence(t *testing.T, args ...string) (cmd *exec.Cmd, errs *bytes.Buffer) {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	path, err := exec.LookPath("soloist")
	if err != nil {
		t.Fatal(err)
	}
	cmd, errs = exec.Command(path, args...), &bytes.Buffer{}
	cmd.Env = append(os.Environ(), "SOLOIST_STORE=redis://"+silent.Addr().String())
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := silent.Accept(); err != nil {
		t.Fatal(err)
	}
	return cmd, errs
}

// A store that takes requests and does not answer lets neither of them remove its records: the first signal ends what they do, and the next one the process.
func TestASecondSignalEndsWhatDoesNotEnd(t *testing.T) {
	cmd, _ := onSilence(t, "bench", "--case", "B", "--for", "1h")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	until(t, "one of several signals ends it", func() bool {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		return len(ended) > 0
	})
	<-ended
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v, want the signal", cmd.ProcessState)
	}
}

// A verification that TERM ends has the code of TERM.
func TestAnInterruptedVerification(t *testing.T) {
	cmd, errs := onSilence(t, "verify")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 143 || !strings.Contains(errs.String(), "the verification was interrupted") {
		t.Errorf("%v; it said %q", err, errs.String())
	}
}

// A move that TERM interrupts has the code of TERM. It takes its signals as the others do, so another one ends it at once.
func TestAnInterruptedMove(t *testing.T) {
	cmd, errs := onSilence(t, "move", "status", "env:SOLOIST_STORE", "sqlite:"+filepath.Join(memoryDir(t), "store.db"))
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 143 || !strings.Contains(errs.String(), "the move was interrupted") {
		t.Errorf("%v; it said %q", err, errs.String())
	}
}

// A demo that TERM interrupts ends its replicas, and has the code of TERM.
func TestAnInterruptedDemo(t *testing.T) {
	path, err := exec.LookPath("soloist")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "demo")
	messages, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewReader(messages)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(lines)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 143 || !strings.Contains(string(said), "the demo was interrupted") {
		t.Errorf("%v; it said %q", err, said)
	}
}

// What an interrupted benchmark could not remove is told, and what its cases failed with because of that is not.
func TestEndOfABenchmark(t *testing.T) {
	failed, left := errors.New("case B: context canceled"), errors.New("3 records are left under @bench-x/")
	interrupted := &exit{143, errors.New("the benchmark was interrupted")}
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := benchEnd(ctx, failed, left); !errors.Is(err, failed) || !errors.Is(err, left) || benchEnd(ctx, nil, nil) != nil {
		t.Errorf("not interrupted: %v", err)
	}
	cancel(interrupted)
	if err := benchEnd(ctx, failed, left); exitCode(err) != 143 || errors.Is(err, failed) || !errors.Is(err, left) {
		t.Errorf("interrupted: %v", err)
	}
}
