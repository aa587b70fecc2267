//go:build unix

package servers

import (
	"fmt"
	"runtime"
	"testing"
)

// Skipped calls do with its own test and returns why do has skipped it, "" if it has not. It is for tests of skipping: a subtest that
// is skipped would be counted among those that could not run.
func Skipped(t testing.TB, do func(testing.TB)) string {
	t.Helper()
	s := &skipping{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do(s)
	}()
	<-ended
	return s.why
}

// A skipping test keeps why it was skipped to itself.
type skipping struct {
	testing.TB
	why string
}

func (s *skipping) Skip(args ...any) { s.skip(fmt.Sprint(args...)) }

func (s *skipping) Skipf(format string, args ...any) { s.skip(fmt.Sprintf(format, args...)) }

func (s *skipping) SkipNow() { s.skip("no reason given") }

func (s *skipping) skip(why string) {
	s.why = why
	runtime.Goexit()
}
