//go:build linux || darwin || freebsd || openbsd || dragonfly

package fleet

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time on a clock that all processes of the host share and nobody can set.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // the clock is there, and the address is ours
	}
	return time.Duration(ts.Nano())
}
