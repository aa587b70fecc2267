package main

import (
	"os"
	"path/filepath"
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
