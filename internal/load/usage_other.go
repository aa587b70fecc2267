//go:build !unix

package load

import "time"

// CPU is the processor time that this process has used. It is 0 where the system does not say.
func CPU() time.Duration { return 0 }
