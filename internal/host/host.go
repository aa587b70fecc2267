// Package host describes what a client sees of its machine beside package time, so that a simulation can stand in for it.
package host

import (
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A Host is what a client sees of its machine. The zero value is the real one.
type Host struct {
	// Suspended bounds for how long the machine has been suspended since some fixed instant; nil asks the kernel.
	Suspended func() (atLeast, atMost time.Duration)

	// GroupFrom is how many jobs of one schedule make a claim group; 0 is the client's own number.
	GroupFrom int
}

// A Guest is a store that runs in a simulation and brings the host of its client along.
type Guest interface{ SimulatedHost() *Host }

// Of returns the host of a client on s: the real one, unless s is a Guest or wraps one.
func Of(s store.Store) Host {
	if guest, ok := store.As[Guest](s); ok {
		return *guest.SimulatedHost()
	}
	return Host{}
}
