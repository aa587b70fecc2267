//go:build linux || darwin || freebsd || openbsd || dragonfly

package fleet

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time on a clock that all processes of the host share and nobody can set. On Linux it goes on while the host is suspended, as
// the clocks of servers do.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(hostClock, &ts); err != nil {
		return 0 // the clock is there, and the address is ours
	}
	return time.Duration(ts.Nano())
}
