package child

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A process that has no environment may get one, unless it has an empty one or is a thread of the kernel.
func TestBareProcess(t *testing.T) {
	stat := func(flags uint64, begin, end string) string {
		fields := strings.Fields(strings.Repeat("0 ", 52))
		fields[0], fields[1], fields[2], fields[3], fields[4] = "7", "(a) (b)", "S", "5", "6"
		fields[8], fields[21], fields[49], fields[50] = fmt.Sprint(flags), "99", begin, end
		return strings.Join(fields, " ")
	}
	for name, c := range map[string]struct {
		flags      uint64
		begin, end string
		bare       bool
	}{
		"with an environment":       {0x400000, "140726113484731", "140726113487832", false},
		"with an empty environment": {0x400000, "140726113484731", "140726113484731", true},
		"while it is executed":      {0x400000, "0", "0", false},
		"a thread of the kernel":    {kernelThread | 0x40, "0", "0", true},
	} {
		want := process{pid: 7, parent: 5, group: 6, state: 'S', start: 99, bare: c.bare}
		if got, ok := parseProcess(7, []byte(stat(c.flags, c.begin, c.end))); !ok || got != want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, ok, want)
		}
	}
	if p, ok := readProcess(os.Getpid()); !ok || p.bare || p.parent != os.Getppid() {
		t.Errorf("this process: %+v, %v", p, ok)
	}
	pid := foreign(t, nil, []string{}, nil, "/bin/sleep", "1000")
	var empty process
	var ok bool
	eventually(func() bool { // the kernel tells its parent that it is executed before it notes the environment
		empty, ok = readProcess(pid)
		return !ok || empty.bare
	})
	if value, found, unread := markOf(empty.pid); !ok || !empty.bare || found || unread {
		t.Errorf("a process without environment: %+v, %v; mark %q, %v, %v", empty, ok, value, found, unread)
	}
}
