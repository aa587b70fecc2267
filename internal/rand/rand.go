// Package rand draws the client's random numbers, which only spread load: nothing that is promised depends on them. A simulation
// puts a source of its own in their place, so that the same seed gives the same history.
package rand

import (
	"math/rand/v2"
	"sync/atomic"
)

// integer are the types that can be drawn.
type integer interface {
	~int | ~int64 | ~uint64
}

var simulated atomic.Pointer[func(n int64) int64]

// N answers a random number from 0 up to but without n, which is > 0.
func N[I integer](n I) I {
	if draw := simulated.Load(); draw != nil {
		return I((*draw)(int64(n)))
	}
	return rand.N(n)
}

// Simulate draws with a function from now on, in the whole process; nil ends that. It is called from many goroutines.
func Simulate(draw func(n int64) int64) {
	if draw == nil {
		simulated.Store(nil)
		return
	}
	simulated.Store(&draw)
}
