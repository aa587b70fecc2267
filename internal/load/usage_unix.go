//go:build unix

package load

import (
	"syscall"
	"time"
)

// CPU returns the processor time that this process has used, user and system together. It is 0 where the system does
// not report it.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
