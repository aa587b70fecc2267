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

// TestReadmeCommands types in the shell lines of the README and of the page for beginners as they stand.
func TestReadmeCommands(t *testing.T) {
	text := ""
	for _, page := range []string{"../../README.md", "../../docs/start/primitives.md"} {
		of, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text += string(of)
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
	ran := map[string]bool{}
	code := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		command, _, _ := strings.Cut(line, "#")
		command = strings.TrimSpace(command)
		if code && strings.HasPrefix(command, "soloist ") && !ran[command] {
			readmeCommand(t, dir, command)
			ran[command] = true
		}
	}
	if len(ran) < 6 {
		t.Errorf("only %d commands were found: %v", len(ran), ran)
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
	if strings.HasPrefix(line, "soloist serve") { // on another port, which is free
		p := watched(t, dir, "sqlite:"+filepath.Join(dir, "store.db"), append(strings.Fields(line)[1:], "--listen", "0")...)
		p.until("/readyz", "200 ok")
		p.ends()
		return
	}
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
