package main

import (
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
)

// A replica that has missed a renewal is shown as silent before it counts as dead.
func TestStateOfReplicas(t *testing.T) {
	for want, info := range map[string]soloist.ReplicaInfo{
		"alive, 0s ago":        {Alive: true, Left: 30 * time.Second},
		"alive, 10s ago":       {Alive: true, Left: 20 * time.Second, Silent: 10 * time.Second},
		"silent, 16s ago":      {Alive: true, Left: 14 * time.Second, Silent: 16 * time.Second},
		"died, over 30s ago":   {Silent: 30 * time.Second},
		"died, over 10m0s ago": {Silent: 10 * time.Minute},
	} {
		state, seen := heard(info)
		if got := state + ", " + seen; got != want {
			t.Errorf("%+v: %s, want %s", info, got, want)
		}
	}
}
