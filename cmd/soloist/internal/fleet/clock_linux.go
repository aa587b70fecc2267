package fleet

import "golang.org/x/sys/unix"

// hostClock goes on in a suspend, which CLOCK_MONOTONIC does not: see clock_gettime(2).
const hostClock = unix.CLOCK_BOOTTIME
