//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadmeCommands types in the shell lines of the README as they stand.
func TestReadmeCommands(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := memoryDir(t)
	for _, name := range []string{"close.sh", "issue", "render", "import"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho "+name+" \"$@\" >>log\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "crontab"), []byte("* * * * * * echo cron >>log\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for line := range strings.Lines(string(text)) {
		if command, _, _ := strings.Cut(line, "#"); strings.HasPrefix(command, "soloist ") {
			readmeCommand(t, dir, strings.TrimSpace(command))
			ran++
		}
	}
	if ran < 5 {
		t.Errorf("only %d commands were found in the README", ran)
	}
	log, _ := os.ReadFile(filepath.Join(dir, "log"))
	for _, want := range []string{"close.sh\n", "issue 4711\n", "render a.html\n", "import\n", "cron\n"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("%q has not run; the log is:\n%s", want, log)
		}
	}
}

func readmeCommand(t *testing.T, dir, line string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "exec "+line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SOLOIST_STORE=sqlite:"+filepath.Join(dir, "store.db"))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(line, "soloist cron ") {
		until(t, "the crontab's job has run", func() bool {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			return strings.Contains(string(log), "cron\n")
		})
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", line, err, out.String())
	}
}
