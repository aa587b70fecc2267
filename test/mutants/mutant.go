package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A mutant is one defect.
type mutant struct {
	root, temp, file string
	runs             int
	catcher          string // the tests that must catch it, as a package and a regular expression; "" for all that the core has
	overlay          string
}

// A defect that makes something wait forever has been caught: tests have patience, building them not counted, and the simulation has
// simPatience. A slow machine needs less for all of them.
const (
	patience    = 10 * time.Minute
	simPatience = 30 * time.Minute
)

// try puts the defect of a patch into copies and looks who catches it.
func (m *mutant) try(ctx context.Context, text string) (verdict, error) {
	var v verdict
	var patch string
	v.defect, m.catcher, patch = divided(text)
	if err := m.apply(patch); err != nil {
		return v, err
	}
	if m.catcher != "" {
		test, err := m.named(ctx)
		if test != "" {
			v.caught = append(v.caught, test)
		}
		return v, err
	}
	law, err := m.laws(ctx)
	if err != nil {
		return v, err
	}
	runs := m.runs
	if law != "" {
		v.caught = append(v.caught, law)
		runs = min(runs, 2000) // whether the simulation sees it too is good to know, and no condition
	}
	checkers, histories, err := m.simulation(ctx, runs)
	if err != nil {
		return v, err
	}
	if len(checkers) > 0 {
		v.caught, v.histories = append(v.caught, strings.Join(checkers, ", ")), histories
	}
	if len(v.caught) == 0 {
		test, err := m.unit(ctx)
		if err != nil {
			return v, err
		}
		if test != "" {
			v.caught = append(v.caught, test)
		}
	}
	return v, nil
}

// caughtBy begins the line of a patch that names the tests which must catch it.
const caughtBy = "Caught by: "

// divided takes a patch apart: its first line says what the defect is, a second may name the tests which must catch it.
func divided(text string) (defect, catcher, patch string) {
	defect, patch, _ = strings.Cut(text, "\n")
	if rest, ok := strings.CutPrefix(patch, caughtBy); ok {
		catcher, patch, _ = strings.Cut(rest, "\n")
	}
	return defect, catcher, patch
}

// named runs the tests that the patch names, as a package and a regular expression. One that was skipped has shown nothing.
func (m *mutant) named(ctx context.Context) (string, error) {
	pkg, tests, ok := strings.Cut(m.catcher, " ")
	if !ok {
		return "", fmt.Errorf("%q: want a package and a regular expression of tests", m.catcher)
	}
	test, out, err := m.test(ctx, "-v", "-run", tests, pkg)
	if idle := skipped.FindString(out); err == nil && test == "" && idle != "" {
		err = fmt.Errorf("nothing was shown: %s", strings.TrimSpace(idle))
	}
	if test != "" && pkg != "." {
		test += " of `" + strings.TrimPrefix(pkg, "./") + "`"
	}
	return test, err
}

// skipped is what go test says of tests that were not run.
var skipped = regexp.MustCompile(`(?m)^\s*--- SKIP: .*$|^testing: warning: no tests to run$`)

// apply writes the patched copies and the overlay that puts them in the place of the originals.
func (m *mutant) apply(patch string) error {
	files, err := parse(patch)
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for name, hunks := range files {
		original := filepath.Join(m.root, name)
		text, err := os.ReadFile(original)
		if err != nil {
			return fmt.Errorf("the patch changes a file that is not there: %w", err)
		}
		changed, err := patched(string(text), hunks)
		if err != nil {
			return fmt.Errorf("it does not apply to %s any more (%w): write the same defect into the code as it is now", name, err)
		}
		fresh := filepath.Join(m.temp, name)
		if err := os.MkdirAll(filepath.Dir(fresh), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(fresh, []byte(changed), 0o666); err != nil {
			return err
		}
		replace[original] = fresh
	}
	m.overlay = filepath.Join(m.temp, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(m.overlay, text, 0o666)
}

// command runs a command and returns what it wrote.
func (m *mutant) command(ctx context.Context, dir string, args ...string) (out string, late bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, simPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Join(m.root, dir)
	cmd.WaitDelay = time.Second
	text, err := cmd.CombinedOutput()
	return string(text), ctx.Err() != nil, err
}

// failed is the first test of a run that failed, or why there was none.
var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// test runs tests with the defect and returns the one that caught it, "" if none did, and what they said.
func (m *mutant) test(ctx context.Context, args ...string) (test, out string, err error) {
	out, late, err := m.command(ctx, "", append([]string{"go", "test", "-vet=off", "-count=1", "-failfast", "-timeout", patience.String(), "-overlay", m.overlay}, args...)...)
	switch {
	case late || strings.Contains(out, "panic: test timed out after"):
		return "a test that did not end", out, nil
	case err == nil:
		return "", out, nil
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return "", out, fmt.Errorf("with the defect the code does not compile; mend the patch:\n%s", out)
	}
	if all := failed.FindAllStringSubmatch(out, -1); len(all) > 0 {
		return "`" + all[len(all)-1][1] + "`", out, nil
	}
	if strings.Contains(out, "panic: ") || strings.Contains(out, "fatal error: ") {
		return "a panic in a test", out, nil
	}
	return "", out, errors.New(out)
}

// laws runs the conformance suite of the memory store.
func (m *mutant) laws(ctx context.Context) (string, error) {
	test, _, err := m.test(ctx, "-run", "^TestLaws$", "./store/memstore")
	return strings.Replace(test, "TestLaws/", "law ", 1), err
}

// unit runs the tests beside the code.
func (m *mutant) unit(ctx context.Context) (string, error) {
	test, _, err := m.test(ctx, ".", "./fence", "./cron", "./store/memstore")
	return test, err
}

// simulation runs the simulation until it has caught the defect, and returns the checkers that did and after how many histories.
func (m *mutant) simulation(ctx context.Context, runs int) (checkers []string, histories int, err error) {
	program, report := filepath.Join(m.temp, "sim.test"), filepath.Join(m.temp, "report.json")
	if out, _, err := m.command(ctx, "test/sim", "go", "test", "-c", "-vet=off", "-overlay", m.overlay, "-o", program, "."); err != nil {
		return nil, 0, fmt.Errorf("with the defect the code does not compile; mend the patch:\n%s", out)
	}
	defer func() { _ = os.Remove(program) }() // some 10 MB each; the rest goes with the directory
	out, late, err := m.command(ctx, "test/sim", program, "-test.run=^TestSimulation$", "-sim.procs=2", "-sim.stop", fmt.Sprint("-sim.runs=", runs), "-sim.json="+report)
	if late {
		return []string{"a history that did not end"}, 0, nil
	}
	if err == nil {
		return nil, 0, nil
	}
	var found struct {
		Histories int
		Caught    []string
		Broken    []string
	}
	text, unread := os.ReadFile(report)
	if unread != nil || json.Unmarshal(text, &found) != nil {
		return nil, 0, fmt.Errorf("the simulation did not report: %w\n%s", err, out)
	}
	by := map[string]bool{}
	for _, checker := range found.Caught {
		by[checker] = true
	}
	if len(found.Broken) > 0 {
		by["deadlock or panic"] = true
	}
	if len(by) == 0 {
		return nil, 0, errors.New(out)
	}
	return slices.Sorted(maps.Keys(by)), found.Histories, nil
}
