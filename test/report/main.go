// Command report runs go test -json, shows what go test without it shows, and writes down which tests were skipped and why:
//
//	report FILE go test -json -race work
//
// It ends with the exit code of the command. FILE has a line for each reason for which tests of a package were skipped.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: report FILE go test -json [ARG...]")
		os.Exit(64)
	}
	code, err := report(os.Args[1], os.Args[2:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
	}
	os.Exit(code)
}

// report runs the command, writes file, and returns the exit code.
func report(file string, command []string, out, errs io.Writer) (int, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec // that is what it is for
	cmd.Stderr = errs
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	r := reader{out: out, said: map[key][]string{}, skipped: map[reason][]string{}}
	readErr := r.read(events)
	waitErr := cmd.Wait()
	var exit *exec.ExitError
	if waitErr != nil && !errors.As(waitErr, &exit) {
		return 1, waitErr
	}
	code := cmd.ProcessState.ExitCode()
	if err := errors.Join(readErr, write(file, r.lines())); err != nil {
		return max(code, 1), err
	}
	return code, nil
}

// write replaces a file by lines.
func write(file string, lines []string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	text := ""
	for _, line := range lines {
		text += line + "\n"
	}
	return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // it is no secret
}

// An event is a line of go test -json; see go doc test2json.
type event struct {
	Action, Package, Test, Output string
}

// A key names a test, or a package where the name of the test is "".
type key struct{ pkg, test string }

// A reader reads events.
type reader struct {
	out     io.Writer
	said    map[key][]string // of tests and packages that have not ended
	skipped map[reason][]string
}

// A reason is why tests of a package were skipped.
type reason struct{ pkg, why string }

// lines prints the tests that were skipped, those of a package with the same reason in one line.
func (r *reader) lines() []string {
	var lines []string
	for reason, tests := range r.skipped {
		slices.Sort(tests)
		which := tests[0]
		if others := len(tests) - 1; others > 0 {
			which += fmt.Sprintf(" and %d more", others)
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s", reason.pkg, which, reason.why))
	}
	slices.Sort(lines)
	return lines
}

func (r *reader) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
				r.see(e)
			} else {
				r.print(line) // go itself complains
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *reader) see(e event) {
	k := key{e.Package, e.Test}
	switch {
	case e.Action == "build-output":
		r.print(e.Output)
	case e.Action == "output":
		r.said[k] = append(r.said[k], e.Output)
	case e.Action == "fail" && e.Test == "":
		r.showUnfinished(e.Package)
		r.show(k)
	case e.Action == "fail":
		r.show(k)
	case e.Action == "skip" && e.Test != "":
		r.skip(k)
	case (e.Action == "pass" || e.Action == "skip") && e.Test == "":
		for _, line := range r.said[k] {
			if strings.HasPrefix(line, "ok  ") || strings.HasPrefix(line, "?   ") {
				r.print(line)
			}
		}
		delete(r.said, k)
	case e.Action == "pass":
		delete(r.said, k)
	}
}

func (r *reader) print(text string) { _, _ = io.WriteString(r.out, text) }

// show prints what a test or a package has said, without the lines that report its beginning and its pauses.
func (r *reader) show(k key) {
	for _, line := range r.said[k] {
		if !framing(line) {
			r.print(line)
		}
	}
	delete(r.said, k)
}

// showUnfinished prints what tests of a package have said that have not ended: one of them has ended the program, or hung.
func (r *reader) showUnfinished(pkg string) {
	var unfinished []key
	for k := range r.said {
		if k.pkg == pkg && k.test != "" {
			unfinished = append(unfinished, k)
		}
	}
	slices.SortFunc(unfinished, func(a, b key) int { return cmp.Compare(a.test, b.test) })
	for _, k := range unfinished {
		r.show(k)
	}
}

func (r *reader) skip(k key) {
	var why []string
	for _, line := range r.said[k] {
		if line = strings.TrimSpace(line); line != "" && !framing(line) && !strings.HasPrefix(line, "--- SKIP") && !strings.HasPrefix(line, "SKIPPED:") {
			why = append(why, line)
		}
	}
	delete(r.said, k)
	if strings.HasPrefix(k.test, "Fuzz") && strings.Contains(k.test, "/") {
		return // an input that is not for its target
	}
	if len(why) == 0 {
		why = []string{"no reason given"}
	}
	reason := reason{k.pkg, strings.Join(why, " ")}
	r.skipped[reason] = append(r.skipped[reason], k.test)
}

// framing reports whether a line reports the course of a test, and is not of the test itself.
func framing(line string) bool {
	for _, prefix := range []string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return line == "PASS\n"
}
