package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/test/servers"
)

// A row is what one contender cost in one form of a case, over all rounds.
type row struct {
	Backend   string   `json:"backend"`
	Case      string   `json:"case"`
	What      string   `json:"what"`
	Contender string   `json:"contender"`
	Floor     bool     `json:"floor,omitempty"`
	Ours      bool     `json:"ours,omitempty"`
	Foreign   bool     `json:"foreign,omitempty"` // a process that measured itself; of the server only commands were counted
	Rounds    []figure `json:"rounds"`

	Ratio   spread `json:"rate_to_floor"` // of the rates, round by round; zero without a floor
	Median  spread `json:"p50_to_floor"`  // of the medians of the times
	Typical figure `json:"typical"`       // each figure the median over the rounds
}

// A plan says what to measure.
type plan struct {
	sizes
	rounds int
	cases  string
	java   bool
	only   string // contenders whose names contain it, and the floor
	say    func(format string, args ...any)
}

// onlyOnce are the cases that are measured in one round in the short form: of most the commands count, which do not depend on the machine.
const onlyOnce = "CEHMS"

// A tally collects the figures of a backend.
type tally struct {
	backend string
	rows    []*row
}

func (t *tally) add(s spec, figures []figure) {
	for _, f := range figures {
		key := func(r *row) bool { return r.Case == f.Case && r.What == f.What && r.Contender == s.name }
		i := slices.IndexFunc(t.rows, key)
		if i < 0 {
			i = len(t.rows)
			t.rows = append(t.rows, &row{Backend: t.backend, Case: f.Case, What: f.What, Contender: s.name, Floor: s.floor, Ours: s.ours, Foreign: s.open == nil})
		}
		t.rows[i].Rounds = append(t.rows[i].Rounds, f)
	}
}

// runBackend measures all contenders of a backend in turns. Those that could not be had are named in skipped.
func (p plan) runBackend(ctx context.Context, t servers.Test, b backend) (rows []*row, about string, skipped []string, err error) {
	s, err := b.start(t)
	if err != nil {
		return nil, "", nil, fmt.Errorf("starting %s: %w", b.name, err)
	}
	p.say("%s: %s", b.name, s.version)
	var bouts []*bout
	for _, spec := range b.specs {
		if !spec.floor && !strings.Contains(spec.name, p.only) {
			continue
		}
		c, err := spec.open(ctx, s.url, lockTTL)
		if err != nil {
			return nil, "", nil, fmt.Errorf("%s: opening %s: %w", b.name, spec.name, err)
		}
		t.Cleanup(c.Close)
		bouts = append(bouts, &bout{sizes: p.sizes, backend: b, server: s, spec: spec, c: c})
	}
	peers, skipped, err := p.startJava(t, b, s)
	if err != nil {
		return nil, "", skipped, err
	}
	all := &tally{backend: b.name}
	for round := range p.rounds {
		for _, letter := range strings.Split(p.cases, "") {
			if round > 0 && strings.Contains(onlyOnce, letter) && p.rounds <= shortRounds {
				continue
			}
			begin := time.Now()
			for i := range bouts { // another begins in each round
				bout := bouts[(i+round)%len(bouts)]
				if !strings.Contains(bout.spec.cases, letter) && !(bout.spec.ours && strings.Contains("HMS", letter)) {
					continue
				}
				if bout.failed {
					continue
				}
				figures, err := bout.measure(ctx, letter)
				if err != nil && (bout.spec.ours || bout.spec.floor || ctx.Err() != nil) {
					return nil, s.version, skipped, err
				}
				if err != nil { // what others cannot do here is told, and does not keep the rest from being measured
					bout.failed = true
					skipped = append(skipped, fmt.Sprintf("%s, from round %d on: %v", bout.spec.name, round+1, err))
					continue
				}
				all.add(bout.spec, figures)
			}
			if err := p.javaRound(ctx, s, peers, letter, all); err != nil {
				return nil, s.version, skipped, err
			}
			p.say("%s: round %d of %d, case %s: %.1f s", b.name, round+1, p.rounds, letter, time.Since(begin).Seconds())
		}
	}
	finish(all.rows)
	return all.rows, s.version, skipped, nil
}

// shortRounds is up to how many rounds a run is short.
const shortRounds = 3

func (p plan) startJava(t servers.Test, b backend, s *server) (peers []*javaPeer, skipped []string, err error) {
	if !p.java || !strings.ContainsAny(p.cases, javaCases) {
		return nil, nil, nil
	}
	for _, j := range b.java {
		if !strings.Contains(j.name, p.only) {
			continue
		}
		why, err := attempt(func() error {
			peer, err := j.start(t, s.url)
			peers = append(peers, peer)
			return err
		})
		if err != nil {
			return nil, skipped, err
		}
		if why != "" {
			skipped = append(skipped, fmt.Sprintf("%s on %s: %s", j.name, b.name, why))
		}
	}
	return peers, skipped, nil
}

func (p plan) javaRound(ctx context.Context, s *server, peers []*javaPeer, letter string, all *tally) error {
	if !strings.Contains(javaCases, letter) {
		return nil
	}
	for _, peer := range peers {
		for _, workers := range map[string][]int{"A": {1}, "B": {p.Goroutines}, "D": {1, p.Goroutines}}[letter] {
			r, err := peer.measure(ctx, s, letter, p.For, workers)
			if err != nil {
				return fmt.Errorf("%s, case %s: %w", peer.name, letter, err)
			}
			switch {
			case workers == 1:
				r.What = "one caller"
			case letter == "B":
				r.What = fmt.Sprintf("%d goroutines, a name each", workers)
			default:
				r.What = fmt.Sprintf("%d goroutines", workers)
			}
			all.add(spec{name: peer.name + " (Java)"}, []figure{r})
		}
	}
	return nil
}

// finish computes what the rounds say together.
func finish(rows []*row) {
	of := func(r *row, f func(figure) float64) []float64 {
		var values []float64
		for _, one := range r.Rounds {
			values = append(values, f(one))
		}
		return values
	}
	rate := func(f figure) float64 { return f.Rate }
	p50 := func(f figure) float64 { return f.P50 }
	for _, r := range rows {
		i := slices.IndexFunc(rows, func(other *row) bool { return other.Floor && other.Case == r.Case && other.What == r.What })
		if i >= 0 {
			r.Ratio = spreadOf(ratios(of(r, rate), of(rows[i], rate)))
			r.Median = spreadOf(ratios(of(r, p50), of(rows[i], p50)))
		}
		typical := r.Rounds[len(r.Rounds)-1]
		set := func(to *float64, f func(figure) float64) { *to = spreadOf(of(r, f)).Median }
		set(&typical.Rate, rate)
		set(&typical.P50, p50)
		set(&typical.P99, func(f figure) float64 { return f.P99 })
		set(&typical.CPU, func(f figure) float64 { return f.CPU })
		set(&typical.ServerCPU, func(f figure) float64 { return f.ServerCPU })
		set(&typical.ServiceCPU, func(f figure) float64 { return f.ServiceCPU })
		set(&typical.Commands, func(f figure) float64 { return f.Commands })
		set(&typical.Pushes, func(f figure) float64 { return f.Pushes })
		set(&typical.Written, func(f figure) float64 { return f.Written })
		set(&typical.Allocs, func(f figure) float64 { return f.Allocs })
		r.Typical = typical
	}
}
