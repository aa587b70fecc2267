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

// A Clock is the wall clock of a server, which a test can set.
type Clock struct {
	t    Test
	path string // has the offset from the machine's clock, in seconds
}

// RedisWithClock is Redis with its own wall clock: a library that is made with gcc stands between the server and the system's.
func RedisWithClock(t Test, settings ...string) (*RedisServer, *Clock) {
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
	c := &Clock{t, filepath.Join(dir, "offset")}
	c.Set(0)
	s := redisWith(t, FreePort(t), Directory(t), []string{"LD_PRELOAD=" + library, "SOLOIST_TEST_CLOCK=" + c.path}, settings...)
	return s, c
}

// Set makes the clock be that far, in whole seconds, ahead of the machine's, or behind it.
func (c *Clock) Set(offset time.Duration) {
	c.t.Helper()
	text := binary.NativeEndian.AppendUint64(nil, uint64(offset/time.Second)) //nolint:gosec // the library reads it as an int64
	f, err := os.OpenFile(c.path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteAt(text, 0) // in place: the server has mapped this file
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		c.t.Fatalf("setting the clock of a server: %v", err)
	}
}
