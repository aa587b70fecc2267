package sqlitestore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// hostClock reads CLOCK_BOOTTIME. In a time namespace that clock is shifted; what the kernel reports the shift is
// taken back, so that processes of one host agree wherever they run.
func hostClock() (*clock, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("reading the id of the boot: %w", err)
	}
	shift, err := bootShift("/proc/self")
	if err != nil {
		return nil, err
	}
	if _, err := bootTime(); err != nil {
		return nil, fmt.Errorf("reading CLOCK_BOOTTIME: %w", err)
	}
	now := func() int64 {
		t, _ := bootTime() // it could be read above, and the kernel does not take a clock away
		return t - shift
	}
	return &clock{kind: bootClock, boot: string(bytes.TrimSpace(boot)), now: now, wall: wallNow}, nil
}

func bootTime() (int64, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return t.Nano(), err
}

// bootShift returns by how many nanoseconds this process's time namespace shifts CLOCK_BOOTTIME.
func bootShift(self string) (int64, error) {
	own, err := os.Readlink(self + "/ns/time")
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(self + "/ns"); err != nil {
			return 0, fmt.Errorf("reading the time namespace: %w", err)
		}
		return 0, nil // a kernel without time namespaces
	}
	if err != nil {
		return 0, fmt.Errorf("reading the time namespace: %w", err)
	}
	// timens_offsets reports the namespace that children get, which is this one unless the process has just left it.
	children, err := os.Readlink(self + "/ns/time_for_children")
	if err != nil {
		return 0, fmt.Errorf("reading the time namespace: %w", err)
	}
	if children != own {
		return 0, errors.New("reading the time namespace: this process has another than its children")
	}
	offsets, err := os.ReadFile(self + "/timens_offsets")
	if err != nil {
		return 0, fmt.Errorf("reading the time namespace: %w", err)
	}
	return parseShift(string(offsets))
}

// parseShift reads the line "boottime SECONDS NANOSECONDS".
func parseShift(offsets string) (int64, error) {
	lines := bufio.NewScanner(strings.NewReader(offsets))
	for lines.Scan() {
		var clock string
		var sec, nsec int64
		n, _ := fmt.Sscan(lines.Text(), &clock, &sec, &nsec)
		if n == 3 && (clock == "boottime" || clock == fmt.Sprint(unix.CLOCK_BOOTTIME)) {
			return sec*1e9 + nsec, nil
		}
	}
	return 0, fmt.Errorf("reading the time namespace: no boottime in %q", offsets)
}
