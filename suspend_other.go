//go:build !linux

package soloist

import "time"

// kernelSuspended reports false: this system has no clock that is known to continue during a suspend and to ignore
// steps.
func kernelSuspended(time.Duration) (atLeast, atMost time.Duration, ok bool) { return 0, 0, false }
