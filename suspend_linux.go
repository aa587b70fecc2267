package soloist

import (
	"syscall"
	"time"
	"unsafe"
)

// The clocks of clock_gettime(2).
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

func kernelClock(id uintptr) time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0
	}
	return time.Duration(ts.Nano())
}

// kernelSuspended bounds for how long this machine has been suspended since it booted: boot time goes on in a suspend,
// the monotonic clock that Go's time follows does not. A process can be paused between two readings, which would look
// like a suspend, so the readings are taken again until they are close together.
func kernelSuspended() (atLeast, atMost time.Duration) {
	for range 5 {
		before := kernelClock(clockMonotonic)
		boot := kernelClock(clockBoottime)
		after := kernelClock(clockMonotonic)
		atLeast, atMost = boot-after, boot-before
		if atMost-atLeast < 100*time.Microsecond {
			break
		}
	}
	return atLeast, atMost
}
