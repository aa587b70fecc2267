package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A report takes the place of one that was longer, and one for a pipe is written to it.
func TestReportTakesThePlaceOfAnother(t *testing.T) {
	write := func(path string) {
		t.Helper()
		f, err := created("--report", path)
		if err == nil {
			err = written(f, func(w io.Writer) error { _, err := fmt.Fprint(w, "new"); return err })
		}
		if err != nil {
			t.Error(err)
		}
	}
	path := filepath.Join(t.TempDir(), "report")
	if err := os.WriteFile(path, []byte(strings.Repeat("old", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	write(path)
	if text, err := os.ReadFile(path); err != nil || string(text) != "new" {
		t.Errorf("%v; the file has %q", err, text)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	write(fmt.Sprint("/dev/fd/", w.Fd()))
	w.Close()
	if text, err := io.ReadAll(r); err != nil || string(text) != "new" {
		t.Errorf("%v; the pipe got %q", err, text)
	}
}
