//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package child

import (
	"context"
	"io"
	"os"
	"runtime"
)

// RunVariable names the variable by which the processes of a run are known.
const RunVariable = Prefix + "RUN"

// Guard does nothing here.
func Guard(...string) error { return nil }

// EndOrphaned does nothing here.
func EndOrphaned(io.Reader, string) {}

// Adopt does nothing here.
func Adopt() error { return nil }

// Forwarded is empty here.
func Forwarded() []os.Signal { return nil }

// Check reports what Run would.
func (c *Command) Check() error {
	_, err := c.Run(context.Background())
	return err
}

// Run refuses: without process groups and signals nothing could be promised of a command that has lost its lease.
func (c *Command) Run(context.Context) (Result, error) {
	file := ""
	if len(c.Args) > 0 {
		file = c.Args[0]
	}
	return Result{Code: CodeNotExecutable}, &StartError{file, CodeNotExecutable,
		"soloist runs commands on Unix only, not on " + runtime.GOOS, nil}
}

func readNow(*os.File, []byte) (int, error) { return 0, ErrOutputHeld }

func inPipe(*os.File) int64 { return 0 }
