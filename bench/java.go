package main

import (
	"context"
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

// measure returns what the process measured, after it has warmed up for as long, and the commands that the server has counted meanwhile, if it counts them without their names.
func (p *javaPeer) measure(ctx context.Context, s *server, letter string, d time.Duration, workers int) (figure, error) {
	before, err := s.counted(ctx)
	if err != nil {
		return figure{}, err
	}
	r, err := p.peer.Bench(letter, d, workers)
	if err != nil {
		return figure{}, err
	}
	after, err := s.counted(ctx)
	commands := float64(after.commands-before.commands) / float64(max(1, r.All))
	return figure{Commands: commands, Result: load.Result{Case: letter, Seconds: r.Seconds, Operations: r.Operations, Rate: r.Rate, P50: r.P50, P99: r.P99}}, err
}
