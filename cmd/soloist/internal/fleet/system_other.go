//go:build !(linux || darwin || freebsd || openbsd || dragonfly)

package fleet

import (
	"syscall"
	"time"
)

// Supported reports whether processes can be paused here, and share a clock.
const Supported = false

const (
	Kill      = syscall.Signal(9)
	Stop      = Kill
	Continue  = Kill
	Terminate = Kill
)

func attributes() *syscall.SysProcAttr { return nil }

func Now() time.Duration { return 0 }
