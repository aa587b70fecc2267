//go:build darwin || freebsd || openbsd || dragonfly

package fleet

import "golang.org/x/sys/unix"

const hostClock = unix.CLOCK_MONOTONIC
