package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What is written to the file while it is read for the first time is a change, too.
func TestWatchSeesWhatWasWrittenWhileItWasRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crontab")
	if err := os.WriteFile(path, []byte("@daily true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	seen, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("@daily true\n@hourly true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-(&cronRun{app: &app{}, path: path, watch: true}).changes(seen):
	case <-time.After(time.Minute):
		t.Error("the change is not seen")
	}
}

// A file that was refused is looked at again with --watch, and nothing is said as long as the reason is the same: unless somebody asks.
func TestRefusedFileIsReadAgain(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "crontab"), &bytes.Buffer{}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("@daily true\n")
	if err := os.Chmod(path, 0o664); err != nil {
		t.Fatal(err)
	}
	seen, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	r := &cronRun{app: &app{ttl: 30 * time.Second}, path: path, watch: true, log: slog.New(slog.NewTextHandler(log, nil))}
	errs := func() int { return strings.Count(log.String(), "level=ERROR") }
	if r.refusedAgain() || r.reload() != nil || errs() != 1 {
		t.Fatalf("a file that others may write to: %s", log)
	}
	changed := r.changes(seen)
	for range 2 {
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatal("it is not looked at again")
		}
		if !r.refusedAgain() {
			t.Error("the same reason is told again")
		}
	}
	if r.reload() != nil || errs() != 2 {
		t.Errorf("it is told %d times, one of them after HUP: %s", errs(), log)
	}
	write("daily true\n")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if r.refusedAgain() || r.reload() != nil || errs() != 3 {
		t.Errorf("another reason is not told: %s", log)
	}
	write("@daily true\n")
	if r.refusedAgain() || r.reload() == nil {
		t.Errorf("the file cannot be used: %s", log)
	}
	if r.refusedAgain() {
		t.Error("a file that can be used is refused")
	}
}
