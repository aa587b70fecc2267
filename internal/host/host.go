// Package host lets a simulation stand in for the machine that a client runs on. Nothing else uses it.
package host

import "time"

// A Host is what a client sees of its machine beside package time.
type Host struct {
	// Suspended bounds for how long the machine has been suspended since some fixed instant.
	Suspended func() (atLeast, atMost time.Duration)

	// HerdFrom is how many jobs of one schedule replicas ask for by one of them; 0 means as many as elsewhere.
	HerdFrom int
}

// A Guest is a store that brings the host of its client along.
type Guest interface{ SimulatedHost() *Host }
