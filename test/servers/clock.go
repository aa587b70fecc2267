//go:build unix

package servers

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed testdata/clock.c
var clockSource []byte

// A Clock is the wall clock of a program, which a test can set: a library that is made with gcc stands between the program and the system's.
type Clock struct {
	t    Test
	path string   // has the offset from the machine's clock, in seconds
	Env  []string // of a program that has this clock
}

// RedisWithClock is Redis with its own wall clock.
func RedisWithClock(t Test, settings ...string) (*RedisServer, *Clock) {
	t.Helper()
	c := NewClock(t)
	return redisWith(t, FreePort(t), Directory(t), c.Env, settings...), c
}

// NewClock returns a clock for a program, as yet that of the machine.
func NewClock(t Test) *Clock {
	t.Helper()
	gcc := Program(t, "a C compiler", "gcc", "cc")
	dir := Directory(t)
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		t.Fatalf("writing the library of a clock: %v", err)
	}
	if out, err := exec.Command(gcc, "-shared", "-fPIC", "-O2", "-o", library, source).CombinedOutput(); err != nil {
		Missing(t, "%s cannot make the library of a clock: %v\n%s", gcc, err, out)
	}
	path := filepath.Join(dir, "offset")
	c := &Clock{t, path, []string{"LD_PRELOAD=" + library, "SOLOIST_TEST_CLOCK=" + path}}
	c.Set(0)
	return c
}

// Set makes the clock be that far, in whole seconds, ahead of the machine's, or behind it.
func (c *Clock) Set(offset time.Duration) {
	c.t.Helper()
	text := binary.NativeEndian.AppendUint64(nil, uint64(offset/time.Second)) //nolint:gosec // the library reads it as an int64
	f, err := os.OpenFile(c.path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteAt(text, 0) // in place: the program has mapped this file
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		c.t.Fatalf("setting the clock of a program: %v", err)
	}
}
