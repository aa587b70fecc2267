//go:build unix

package servers

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

// A Test is what servers need of a testing.TB. A server ends when its test cleans up.
type Test interface {
	Helper()
	Logf(format string, args ...any)
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Main runs the tests of a package, ends the servers that they share, and exits.
func Main(m *testing.M) {
	code := m.Run()
	End()
	os.Exit(code)
}

// End ends what lasts as long as the program. Main does it; a program that starts servers without Main does it last.
func End() { whole.finish() }

// Shared makes a server that is started when a test first asks for it, and that all tests of the package share. When it cannot be
// had, each test that asks is skipped or failed as the first was.
func Shared[S any](start func(Test) S) func(testing.TB) S {
	begin := begun(start)
	return func(t testing.TB) S {
		t.Helper()
		server, missing := begin()
		switch {
		case missing == nil:
		case missing.skip:
			t.Skip(missing.why)
		default:
			t.Fatal(missing.why)
		}
		return server
	}
}

// begun returns a function that starts something once, for as long as the test program lasts, and returns it or why it cannot be had.
func begun[S any](start func(Test) S) func() (S, *missing) {
	return sync.OnceValues(func() (server S, missing *missing) {
		defer func() { missing = asMissing(recover()) }()
		return start(whole), nil
	})
}

// whole lasts as long as the test program.
var whole = &program{}

type program struct {
	mu    sync.Mutex
	clean []func()
}

// missing is what a program panics with where a test would have been skipped or failed.
type missing struct {
	why  string
	skip bool
}

func asMissing(recovered any) *missing {
	if recovered == nil {
		return nil
	}
	m, ok := recovered.(*missing)
	if !ok {
		panic(recovered)
	}
	return m
}

func (*program) Helper()                         {}
func (*program) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (*program) Skipf(format string, args ...any) {
	panic(&missing{fmt.Sprintf(format, args...), true})
}
func (*program) Fatalf(format string, args ...any) {
	panic(&missing{fmt.Sprintf(format, args...), false})
}

func (p *program) Cleanup(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clean = append(p.clean, do)
}

func (p *program) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, do := range slices.Backward(p.clean) {
		do()
	}
	p.clean = nil
}
