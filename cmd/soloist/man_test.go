package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Each subcommand that people see has a page, with each of its flags.
func TestManualPagesAreComplete(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	if _, errs := invoked(t, "memory:", "man", dir); errs != "" {
		t.Fatal(errs)
	}
	root := (&app{}).root()
	pages := 1
	for c := range subcommands(root) {
		pages++
		page, err := os.ReadFile(filepath.Join(dir, pageName(c)+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		text := string(page)
		for line := range strings.Lines(text) {
			if macro, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(macro, ".") && !strings.Contains(" .TH .SH .B .TP .PP .nf .fi ", " "+macro+" ") {
				t.Errorf("%s: text has become the macro %q", c.CommandPath(), line)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(text, roffText("--"+f.Name)) {
				t.Errorf("%s: --%s is missing", c.CommandPath(), f.Name)
			}
		})
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS"} {
			if !strings.Contains(text, ".SH \""+section+"\"") {
				t.Errorf("%s: there is no section %s", c.CommandPath(), section)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(files) != pages {
		t.Errorf("%d pages of %d commands, %v", len(files), pages, err)
	}
}

// Text that begins as a macro of roff's does is text.
func TestRoffText(t *testing.T) {
	for text, want := range map[string]string{".x": `\&.x`, "'x": `\&'x`, `a\b -c`: `a\eb \-c`, "x.": "x."} {
		if got := roffText(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
