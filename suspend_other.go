//go:build !linux

package soloist

import "time"

// kernelSuspended has no clock here that is known to go on in a suspend and to ignore steps.
func kernelSuspended() (atLeast, atMost time.Duration, ok bool) { return 0, 0, false }
