//go:build linux || darwin || freebsd || openbsd || dragonfly

package fleet

import "syscall"

// Supported reports whether processes can be paused here, and share a clock.
const Supported = true

// What the director does to a process.
const (
	Kill      = syscall.SIGKILL
	Stop      = syscall.SIGSTOP
	Continue  = syscall.SIGCONT
	Terminate = syscall.SIGTERM
)
