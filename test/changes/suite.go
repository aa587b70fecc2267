package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/test/changes/change"
)

// A suite is the tests of a package, the changed one or another.
type suite struct {
	binary, dir, temp string
	took              map[string]time.Duration // by test
	reaching          map[int][]string         // tests by change, the quickest first
}

// build compiles the tests of a package with the changed one, into the new directory temp.
func build(ctx context.Context, pattern, overlay, temp string) (*suite, error) {
	if err := os.Mkdir(temp, 0o777); err != nil {
		return nil, err
	}
	s := &suite{binary: filepath.Join(temp, "tests"), temp: temp, took: map[string]time.Duration{}, reaching: map[int][]string{}}
	dir, err := told(exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", pattern))
	if err != nil {
		return nil, err
	}
	s.dir = strings.TrimSpace(string(dir))
	if _, err = told(exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", s.binary, pattern)); err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.binary); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no tests: name another package that tests it, too, or another package", pattern)
	}
	return s, nil
}

// told runs a command and returns what it writes. If it fails, the error has what it says.
func told(cmd *exec.Cmd) ([]byte, error) {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &said)
	}
	return out.Bytes(), nil
}

// alone returns the command, with its arguments, that runs another one and its children where they see no other process: a change can make code that ends a
// process end all that it may. It is empty where the system has no such command.
var alone = sync.OnceValue(func() []string {
	for _, args := range [][]string{{}, {"--user", "--map-current-user"}} {
		args = append([]string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}, args...)
		if exec.Command(args[0], append(args[1:], "true")...).Run() == nil { //nolint:gosec // the words above
			return slices.Clip(args)
		}
	}
	return nil
})

// mostMemory bounds the memory of a test that a change makes run away, in KiB.
const mostMemory = 8 << 20

// run runs tests, with one more variable in the environment, and reports whether they pass in time.
func (s *suite) run(ctx context.Context, tests []string, limit time.Duration, variable string) (passed bool, err error) {
	args := append(alone(), "sh", "-c", fmt.Sprintf(`ulimit -v %d; "$@"; exit $?`, mostMemory), "sh", s.binary,
		"-test.run", "^("+strings.Join(tests, "|")+")$", "-test.short", "-test.failfast", "-test.timeout", limit.String())
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // what build has compiled
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), variable)
	var exit *exec.ExitError
	switch err := cmd.Run(); {
	case errors.As(err, &exit):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// reach runs each test alone, and notes which changes it reaches.
func (s *suite) reach(ctx context.Context, wanted string, atOnce int, out io.Writer) error {
	cmd := exec.CommandContext(ctx, s.binary, "-test.list", cmp.Or(wanted, "."))
	cmd.Dir = s.dir
	listed, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("listing the tests: %w", err)
	}
	tests := slices.DeleteFunc(strings.Fields(string(listed)), func(name string) bool { return !strings.HasPrefix(name, "Test") })
	var mu sync.Mutex
	err = each(atOnce, len(tests), func(i int) error {
		path := filepath.Join(s.temp, tests[i])
		begun := time.Now()
		passed, err := s.run(ctx, tests[i:i+1], 10*time.Minute, change.Reached+"="+path)
		if err != nil {
			return err
		}
		took := time.Since(begun)
		reached, err := os.ReadFile(path)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !passed:
			fmt.Fprintf(out, "%s fails, and is left out\n", tests[i])
			return nil
		case errors.Is(err, os.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		s.took[tests[i]] = took
		var n uint32
		for r := bytes.NewReader(reached); binary.Read(r, binary.LittleEndian, &n) == nil; {
			s.reaching[int(n)] = append(s.reaching[int(n)], tests[i])
		}
		return nil
	})
	for _, tests := range s.reaching {
		slices.SortFunc(tests, func(a, b string) int { return cmp.Or(cmp.Compare(s.took[a], s.took[b]), cmp.Compare(a, b)) })
	}
	return err
}

// A fate is what became of a change.
type fate int

const (
	noticed fate = iota
	unnoticed
	unreached
)

func (f fate) String() string { return [...]string{"noticed", "not noticed", "not reached"}[f] }

// try makes a change, and runs the tests of each suite that reach it until one fails.
func try(ctx context.Context, suites []*suite, n int) (fate, error) {
	worst := unreached
	for _, s := range suites {
		f, err := s.try(ctx, n)
		if err != nil || f == noticed {
			return f, err
		}
		worst = min(worst, f)
	}
	return worst, nil
}

func (s *suite) try(ctx context.Context, n int) (fate, error) {
	tests := slices.Compact(slices.Clone(s.reaching[n])) // a test that starts processes tells it more than once
	if len(tests) == 0 {
		return unreached, nil
	}
	limit := 30 * time.Second
	for _, t := range tests {
		limit += 10 * s.took[t]
	}
	passed, err := s.run(ctx, tests, limit, change.Made+"="+strconv.Itoa(n))
	if err != nil || passed {
		return unnoticed, err
	}
	return noticed, nil
}

// each calls fn with the numbers below n, some at once, and returns the errors.
func each(atOnce, n int, fn func(int) error) error {
	errs := make([]error, n)
	slots := make(chan struct{}, max(1, atOnce))
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = fn(i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
