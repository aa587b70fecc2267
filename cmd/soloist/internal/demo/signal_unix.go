//go:build linux || darwin || freebsd || openbsd || dragonfly

package demo

import "syscall"

const supported = true

// What the director does to a process.
const (
	sigKill = syscall.SIGKILL
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
	sigTerm = syscall.SIGTERM
)
