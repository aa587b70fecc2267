package main

import (
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/internal/load"
	"github.com/soloist-dev/soloist/test/interop"
	"github.com/soloist-dev/soloist/test/servers"
)

// A javaSpec says how to get a contender that runs in its own Java process, which measures itself.
type javaSpec struct {
	name, provider string
	prepare        func(t servers.Test, url string) error // what has to be made in the server before; may be nil
}

// javaPeer is one that runs.
type javaPeer struct {
	name string
	peer *interop.Peer
}

// javaCases are those that a Java process can measure.
const javaCases = "ABD"

func (j javaSpec) start(t servers.Test, url string) (*javaPeer, error) {
	if j.prepare != nil {
		if err := j.prepare(t, url); err != nil {
			return nil, fmt.Errorf("preparing %s: %w", j.name, err)
		}
	}
	return &javaPeer{j.name, interop.Start(t, interop.Options{Provider: j.provider, URL: url, Fast: true, Connections: 64})}, nil
}

// measure returns what the process measured. It has warmed up for as long before.
func (p *javaPeer) measure(letter string, d time.Duration, workers int) (load.Result, error) {
	r, err := p.peer.Bench(letter, d, workers)
	if err != nil {
		return load.Result{}, err
	}
	return load.Result{Case: letter, Seconds: r.Seconds, Operations: r.Operations, Rate: r.Rate, P50: r.P50, P99: r.P99}, nil
}
