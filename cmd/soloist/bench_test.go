//go:build unix

package main

import (
	"bytes"
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
	for _, letter := range []string{"B", "C"} {
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
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 || !strings.Contains(errs.String(), "interrupted") {
			t.Errorf("case %s: %v; it said %q", letter, err, errs.String())
		}
		if n := records(); n != 0 {
			t.Errorf("case %s: %d records are left", letter, n)
		}
	}
}
