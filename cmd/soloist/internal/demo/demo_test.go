package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// replicaArg makes the test binary a replica.
const replicaArg = "demo-replica"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == replicaArg {
		if err := Replica(context.Background(), os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes most of a minute")
	}
	t.Parallel()
	dir := scratch(t)
	out, progress := &buffer{}, &buffer{}
	begin := time.Now() // it takes most of a minute, and more on a slow machine
	err := Run(t.Context(), Config{Dir: dir, Out: out, Progress: progress})
	t.Logf("after %.1f s\n%s\n%s", time.Since(begin).Seconds(), progress, out)
	if err != nil {
		t.Error(err)
	}
	if n := strings.Count(out.String(), "\n✓ "); n != len(audit(&findings{})) {
		t.Errorf("the report has %d lines with ✓", n)
	}
	for _, want := range []string{"300 of 300", "taken over", "was killed", "was paused", "refused, its token is stale"} {
		if !strings.Contains(out.String()+progress.String(), want) {
			t.Errorf("nothing says %q", want)
		}
	}
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(line)) - 1; n > 100 && !strings.HasPrefix(line, "✓") {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.Contains(line, "\x1b") {
			t.Errorf("a colour that was not asked for: %q", line)
		}
	}
	leavesNothing(t, dir)
}

func TestCtrlCEndsAll(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("Ctrl-C")
	progress := &buffer{onWrite: func(all string) {
		if strings.Contains(all, "are at work") {
			cancel(stop)
		}
	}}
	out := &buffer{}
	err := Run(ctx, Config{Dir: dir, Out: out, Progress: progress})
	if !errors.Is(err, stop) || errors.Is(err, ErrAudit) {
		t.Errorf("it answers %v", err)
	}
	if out.String() != "" {
		t.Errorf("it reports on a demo that was broken off:\n%s", out)
	}
	leavesNothing(t, dir)
}

func TestLeftOverGoroutines(t *testing.T) {
	before := goroutines()
	done := make(chan struct{})
	go func() { <-done }()
	time.AfterFunc(10*time.Millisecond, func() { close(done) })
	if n := leftOver(before); n != 0 {
		t.Errorf("%d are left although all have ended", n)
	}
	forever := make(chan struct{})
	defer close(forever)
	go func() { <-forever }()
	if n := leftOver(before); n != 1 {
		t.Errorf("%d are left instead of 1", n)
	}
}

func TestReplicaThatDoesNotStart(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	err := Run(t.Context(), Config{Dir: dir, Args: []string{replicaArg, "an argument too many"}})
	if err == nil || !strings.Contains(err.Error(), "has ended by itself") || !strings.Contains(err.Error(), "NAME STORE SERVICE") {
		t.Errorf("it answers %v", err)
	}
	if !errors.Is(err, ErrAudit) {
		t.Error("the audit of nothing does not fail")
	}
	leavesNothing(t, dir)
}

func TestKeep(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	progress := &buffer{}
	err := Run(t.Context(), Config{Dir: dir, Keep: true, Progress: progress, Args: []string{replicaArg, "an argument too many"}})
	if !errors.Is(err, ErrAudit) {
		t.Errorf("it answers %v", err)
	}
	for _, name := range []string{"demo.db", "events.jsonl"} {
		if found, err := filepath.Glob(filepath.Join(dir, "*", name)); err != nil || len(found) != 1 {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	if !strings.Contains(progress.String(), "are kept in "+dir) {
		t.Errorf("nothing says where it is kept:\n%s", progress)
	}
}

// scratch makes an empty directory where the demo would make its own.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := makeDir("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// leavesNothing looks for files in dir and for processes that were given its path.
func leavesNothing(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("left on disk: %v, %v", entries, err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		args, _ := os.ReadFile(line) // it may have ended meanwhile
		if bytes.Contains(args, []byte(dir)) {
			t.Errorf("left running: %s %q", line, args)
		}
	}
}

// A buffer can be read while it is written.
type buffer struct {
	mu      sync.Mutex
	b       strings.Builder
	onWrite func(all string)
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.b.Write(p)
	if b.onWrite != nil {
		b.onWrite(b.b.String())
	}
	return n, err
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
