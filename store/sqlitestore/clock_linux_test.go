package sqlitestore

import (
	"fmt"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

func init() { roles["clock"] = tellClock }

func tellClock(string) error {
	c, err := hostClock()
	if err == nil {
		fmt.Println(c.boot, c.now())
	}
	return err
}

func TestTimeNamespace(t *testing.T) {
	here, err := hostClock()
	if err != nil {
		servers.Missing(t, "this host's clock cannot be read: %v", err)
	}
	inNamespace := []string{servers.Program(t, "unshare, of util-linux", "unshare"), "-T", "--boottime", "1000000", "--fork"}
	if err := osexec.Command(inNamespace[0], append(inNamespace[1:], "true")...).Run(); err != nil {
		servers.Missing(t, "a time namespace cannot be made: %v", err)
	}
	out, err := process(t, "clock", "", inNamespace...).Output()
	if err != nil {
		t.Fatal(err)
	}
	boot, now, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	there, err := strconv.ParseInt(now, 10, 64)
	if err != nil || boot != here.boot {
		t.Fatalf("a process in a namespace answers %q", out)
	}
	if off := time.Duration(here.now() - there); off < 0 || off > time.Minute {
		t.Errorf("a process whose clock is shifted by a million seconds is off by %v", off)
	}
}

func TestHostClockOnLinux(t *testing.T) {
	_, err := bootShift(filepath.Join(t.TempDir(), "no-proc"))
	says(t, err, "time namespace")
	for text, want := range map[string]int64{
		"monotonic           0         0\nboottime            0         0\n": 0,
		"monotonic  5 0\nboottime  86400  7\n":                               86400e9 + 7,
		"monotonic  5 0\nboottime  -2  500000000\n":                          -15e8,
		"1 5 0\n7 3 0\n": 3e9,
	} {
		if got, err := parseShift(text); got != want || err != nil {
			t.Errorf("%q is a shift of %d, %v; want %d", text, got, err, want)
		}
	}
	_, err = parseShift("monotonic 0 0\n")
	says(t, err, "boottime")
}
