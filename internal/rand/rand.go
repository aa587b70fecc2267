// Package rand returns the client's random numbers. They only spread load: no guarantee depends on them. A simulation
// replaces their source, so that the same seed gives the same history.
package rand

import (
	"math/rand/v2"
	"sync/atomic"
)

// integer is the constraint of the types of random numbers.
type integer interface {
	~int | ~int64 | ~uint64
}

var simulated atomic.Pointer[func(n int64) int64]

// N returns a random number in [0, n). n must be > 0.
func N[I integer](n I) I {
	if draw := simulated.Load(); draw != nil {
		return I((*draw)(int64(n)))
	}
	return rand.N(n)
}

// Simulate replaces the source of random numbers in the whole process; nil restores it. The function is called from
// many goroutines concurrently.
func Simulate(draw func(n int64) int64) {
	if draw == nil {
		simulated.Store(nil)
		return
	}
	simulated.Store(&draw)
}
