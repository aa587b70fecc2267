//go:build !(linux || darwin || freebsd || openbsd || dragonfly)

package demo

import (
	"syscall"
	"time"
)

// supported says whether processes can be paused here, and share a clock.
const supported = false

const (
	sigKill = syscall.Signal(9)
	sigStop = sigKill
	sigCont = sigKill
	sigTerm = sigKill
)

func attributes() *syscall.SysProcAttr { return nil }

func monotonic() time.Duration { return 0 }
