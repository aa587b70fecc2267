package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// module makes its own module of some files.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.com/m\n\ngo 1.26.0\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// reported runs the tests of a module, and returns the exit code, what is shown, and the lines about skipped tests.
func reported(t *testing.T, dir string) (code int, out string, skipped []string) {
	t.Helper()
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	file := filepath.Join(t.TempDir(), "unchecked", "tests")
	var shown, errs bytes.Buffer
	code, err := report(file, []string{"go", "-C", dir, "test", "-json", "./..."}, &shown, &errs)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return code, shown.String() + errs.String(), strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

func TestSkippedTestsAreListed(t *testing.T) {
	code, out, skipped := reported(t, module(t, map[string]string{
		"a/a_test.go": `package a
import ("fmt"; "os"; "testing")
func TestPasses(t *testing.T) { fmt.Println("chatter"); t.Log("more of it") }
func TestSkips(t *testing.T) { fmt.Fprintln(os.Stderr, "SKIPPED: no server"); t.Skip("no server") }
func TestPart(t *testing.T) { for _, name := range []string{"two", "one", "three"} { t.Run(name, func(t *testing.T) { t.Skipf("no %s", "disk") }) }; t.Run("other", func(*testing.T) {}) }
func TestMute(t *testing.T) { t.SkipNow() }
func FuzzIt(f *testing.F) { f.Add(1); f.Fuzz(func(t *testing.T, n int) { t.Skip() }) }
`,
		"b/b.go": "package b\n",
	}))
	if code != 0 || !strings.Contains(out, "ok  \texample.com/m/a") || strings.Contains(out, "chatter") || strings.Contains(out, "more of it") {
		t.Errorf("exit code %d; it showed:\n%s", code, out)
	}
	want := []string{
		"example.com/m/a TestMute: no reason given",
		"example.com/m/a TestPart/one and 2 more: a_test.go:5: no disk",
		"example.com/m/a TestSkips: a_test.go:4: no server",
	}
	if strings.Join(skipped, "\n") != strings.Join(want, "\n") {
		t.Errorf("skipped are\n%s\nwant\n%s", strings.Join(skipped, "\n"), strings.Join(want, "\n"))
	}
}

// What has failed is shown as go test shows it: tests, packages that do not compile, and programs that end or panic.
func TestFailuresAreShown(t *testing.T) {
	code, out, _ := reported(t, module(t, map[string]string{
		"fails/x_test.go": `package fails
import "testing"
func TestFine(t *testing.T) { t.Log("quiet") }
func TestWhole(t *testing.T) { t.Run("part", func(t *testing.T) { t.Error("it is wrong") }) }
`,
		"panics/x_test.go":   "package panics\nimport \"testing\"\nfunc TestPanics(t *testing.T) { panic(\"out of order\") }\n",
		"exits/x_test.go":    "package exits\nimport (\"fmt\"; \"os\"; \"testing\")\nfunc TestExits(t *testing.T) { fmt.Println(\"last words\"); os.Exit(3) }\n",
		"compiles/x_test.go": "package compiles\nvar x int = \"no number\"\n",
	}))
	if code == 0 {
		t.Error("exit code 0")
	}
	for _, want := range []string{
		"--- FAIL: TestWhole/part", "it is wrong", "--- FAIL: TestWhole ", "FAIL\texample.com/m/fails", "panic: out of order", "FAIL\texample.com/m/panics",
		"last words", "FAIL\texample.com/m/exits", `cannot use "no number"`, "FAIL\texample.com/m/compiles [build failed]",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not shown", want)
		}
	}
	if strings.Contains(out, "quiet") || strings.Contains(out, "=== RUN") || strings.Contains(out, `"Action"`) {
		t.Error("too much is shown")
	}
	if t.Failed() {
		t.Log(out)
	}
}

// Where the database of vulnerabilities cannot be reached, that is said at the time, and again by tools/unchecked.sh at the end.
func TestVulnerabilitiesThatAreNotChecked(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"tools", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, script := range []string{"vuln.sh", "unchecked.sh"} {
		text, err := os.ReadFile(filepath.Join("../../tools", script))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "tools", script), text, 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	vuln := filepath.Join(dir, "bin", "govulncheck")
	const line = "== not checked: known vulnerabilities (the database cannot be reached)\n"
	for answer, want := range map[string]struct {
		code          int
		during, atEnd string
	}{
		`echo 'fetching https://vuln.go.dev/index/db.json: no such host'; exit 1`: {0, line, line},
		`echo 'Vulnerability #1: GO-0000-0000'; exit 3`:                           {1, "GO-0000-0000", ""},
		`echo 'No vulnerabilities found.'`:                                        {0, ".: No vulnerabilities found.", ""},
	} {
		if err := os.WriteFile(vuln, []byte("#!/bin/sh\n"+answer+"\n"), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
		cmd := exec.Command("bash", filepath.Join(dir, "tools", "vuln.sh"), vuln, ".")
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != want.code || !strings.Contains(string(out), want.during) {
			t.Errorf("%s: exit code %d; it printed %q", answer, code, out)
		}
		out, err := exec.Command("bash", filepath.Join(dir, "tools", "unchecked.sh")).CombinedOutput()
		if string(out) != want.atEnd || err != nil {
			t.Errorf("%s: at the end it says %q, %v; want %q", answer, out, err, want.atEnd)
		}
	}
}
