package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/soloist-dev/soloist/test/servers"
)

// A program stands in for a test where servers are started: they end with it.
type program struct{ clean []func() }

var _ servers.Test = (*program)(nil)

// A stop is what a program panics with where a test would be skipped or fail.
type stop struct {
	why  string
	skip bool
}

func (*program) Helper()                           {}
func (*program) Logf(format string, args ...any)   { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (*program) Skipf(format string, args ...any)  { panic(&stop{fmt.Sprintf(format, args...), true}) }
func (*program) Fatalf(format string, args ...any) { panic(&stop{fmt.Sprintf(format, args...), false}) }
func (p *program) Cleanup(do func())               { p.clean = append(p.clean, do) }

func (p *program) end() {
	for _, do := range slices.Backward(p.clean) {
		do()
	}
	p.clean = nil
}

// attempt calls do, and returns why it was skipped, or an error.
func attempt(do func() error) (skipped string, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *stop:
			if v.skip {
				skipped = v.why
			} else {
				err = fmt.Errorf("%s", v.why)
			}
		default:
			panic(v)
		}
	}()
	return "", do()
}
