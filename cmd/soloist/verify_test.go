package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/verify"
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

// A short run is given minutes to reach its minimum, as the help says.
func TestShortRunIsGivenMinutes(t *testing.T) {
	if got := longestRun(time.Second); got != 10*time.Second+10*time.Minute {
		t.Errorf("a run of a second is void after %v, want ten times as long, and 10m", got)
	}
}

// A verdict is told, and ends the command with its code, also if its report cannot be written.
func TestVerdictWithoutItsReport(t *testing.T) {
	for verdict, code := range map[verify.Verdict]int{verify.Held: exitUnavailable, verify.Violated: exitViolated, verify.Void: exitVoid} {
		full, err := created("--report", filepath.Join(t.TempDir(), "report"))
		if err == nil {
			err = full.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		a := &app{out: &out, output: "table"}
		err = a.conclude(&verify.Report{Verdict: verdict}, full, nil)
		if exitCode(err) != code || !strings.Contains(fmt.Sprint(err), "writing "+full.Name()) {
			t.Errorf("%s: exit code %d, want %d: %v", verdict, exitCode(err), code, err)
		}
		if !strings.Contains(out.String(), string(verdict)+": ") {
			t.Errorf("%s: told %q", verdict, out.String())
		}
	}
}

// The exit code is the one that the help gives to a verdict.
func TestExitCodesOfVerdicts(t *testing.T) {
	for verdict, code := range map[verify.Verdict]int{verify.Held: 0, verify.Violated: 1, verify.Void: 2} {
		for _, format := range []string{"table", "json"} {
			var out bytes.Buffer
			a := &app{out: &out, output: format}
			if err := a.conclude(&verify.Report{Verdict: verdict}, nil, nil); exitCode(err) != code {
				t.Errorf("%s, as %s: exit code %d, want %d", verdict, format, exitCode(err), code)
			}
			if isJSON := strings.Contains(out.String(), `"verdict"`); isJSON != (format == "json") {
				t.Errorf("%s, as %s: told %q", verdict, format, out.String())
			}
		}
	}
}

// The bounds of the flags are as the help and the errors say.
func TestBoundsOfAVerification(t *testing.T) {
	const began = "in the memory of one process"
	for args, says := range map[string]string{
		"--for 1s": began, "--for 999ms": "--for 999ms", "--ttl 100ms": began, "--ttl 99ms": "--ttl 99ms", "--ttl 1h": began, "--ttl 1h1ms": "--ttl 1h0m0.001s",
		"--replicas 2": began, "--replicas 100": began, "--replicas 101": "--replicas 101", "--for 2s --within 2s": began, "--for 2s --within 1s": "--within 1s",
		"--for 1s --report " + filepath.Join(t.TempDir(), "no", "report"): "--report: ",
	} {
		if _, errs := invoked(t, "memory:", append([]string{"verify"}, strings.Fields(args)...)...); !strings.Contains(errs, says) {
			t.Errorf("verify %s: want %q, said %q", args, says, errs)
		}
	}
}
