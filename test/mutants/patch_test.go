package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPatched(t *testing.T) {
	const diff = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
	files, err := parse(diff)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := patched("0\na\nb\nc\n", files["x"]); err != nil || got != "0\na\nB\nc\n" {
		t.Errorf("%q, %v", got, err)
	}
	for text, want := range map[string]string{"a\nc\n": "0 times", "a\nb\nc\na\nb\nc\n": "2 times"} {
		if _, err := patched(text, files["x"]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for _, bad := range []string{"", "a\n", "@@ -1 +1 @@\n a\n"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is taken for a diff", bad)
		}
	}
}

// TestPatchesApply shows that every defect can still be put into the code, which is quicker to learn here than from make mutants.
func TestPatchesApply(t *testing.T) {
	files, err := filepath.Glob("*.patch")
	if err != nil || len(files) <= 800 {
		t.Fatalf("%d patches, %v, want more than the 800 that docs/why/safety.md states", len(files), err)
	}
	numbered := map[int]string{}
	for _, file := range files {
		if other, twice := numbered[number(file)]; twice {
			t.Errorf("%s and %s have one number: make mutants could not choose between them by it", other, file)
		}
		numbered[number(file)] = file
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		header, catcher, patch := divided(string(text))
		if pkg, tests, ok := strings.Cut(catcher, " "); catcher != "" && (!ok || !strings.HasPrefix(pkg, ".") || tests == "") {
			t.Errorf("%s: %q is no package with a regular expression of tests", file, catcher)
		}
		if header == "" || strings.HasPrefix(header, "---") {
			t.Errorf("%s: the first line is to say what the defect is", file)
		}
		if err := (&mutant{root: "../..", temp: t.TempDir(), file: file}).apply(patch); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
