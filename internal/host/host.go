// Package host describes what a client reads from its machine besides package time, so that a simulation can replace
// it.
package host

import (
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A Host describes a machine. The zero value means the real one.
type Host struct {
	// Suspended returns bounds of how long the machine has been suspended since some fixed instant; nil means to ask the
	// kernel.
	Suspended func() (atLeast, atMost time.Duration)

	// GroupFrom is how many jobs of one schedule form a claim group; 0 means the client's default.
	GroupFrom int
}

// A Guest is a store that runs in a simulation and provides the host of its client.
type Guest interface{ SimulatedHost() *Host }

// Of returns the host of a client on s: the zero value, unless s is a Guest or wraps one.
func Of(s store.Store) Host {
	if guest, ok := store.As[Guest](s); ok {
		return *guest.SimulatedHost()
	}
	return Host{}
}
