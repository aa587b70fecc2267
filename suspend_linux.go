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

// kernelClock reads a clock, if the kernel lets it.
func kernelClock(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}

// kernelSuspended returns bounds of how long this machine was suspended since it booted, if both clocks can be read. known is an
// earlier result, or 0.
func kernelSuspended(known time.Duration) (atLeast, atMost time.Duration, ok bool) {
	return suspendedBy(kernelClock, known)
}

// suspendedBy compares two clocks: the boot clock continues during a suspend, the monotonic clock, which package time
// uses, does not. If the process is paused between two readings, the difference would look like a suspend, so the
// readings are repeated until they are close together.
//
// The sum never decreases, so a sum that is known is a lower bound: if the upper bound is close to it, the third reading is not needed.
func suspendedBy(clock func(id uintptr) (time.Duration, bool), known time.Duration) (atLeast, atMost time.Duration, ok bool) {
	for range 5 {
		before, told1 := clock(clockMonotonic)
		boot, told2 := clock(clockBoottime)
		if grown := boot - before - known; told1 && told2 && grown >= 0 && grown < sameSum {
			return known, boot - before, true
		}
		after, told3 := clock(clockMonotonic)
		if !told1 || !told2 || !told3 {
			return 0, 0, false
		}
		atLeast, atMost = boot-after, boot-before
		if atMost-atLeast < sameSum {
			break
		}
	}
	return atLeast, atMost, true
}
