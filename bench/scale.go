package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/load"
)

// A series is how one cost grows with one size.
type series struct {
	what, of string // "requests a tick", "replicas"
	sizes    []int
	values   []float64
}

// exponent returns e where the values grow as size to the power of e, by least squares of the logarithms: 0 is constant, 1 is in
// proportion. It is NaN with fewer than two values above 0.
func (s series) exponent() float64 {
	var n, sx, sy, sxx, sxy float64
	for i, v := range s.values {
		if v > 0 {
			x, y := math.Log(float64(s.sizes[i])), math.Log(v)
			n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
		}
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// scaled measures how the cost of ours grows, on each backend.
func (o options) scaled(ctx context.Context, chosen []backend) error {
	r := &report{}
	for _, b := range chosen {
		err := onServer(b, r, func(t *program) error {
			s, err := b.start(t)
			if err != nil {
				return fmt.Errorf("starting %s: %w", b.name, err)
			}
			at := &bout{sizes: o.sizes, backend: b, server: s}
			for _, spec := range b.specs {
				if spec.ours {
					at.spec = spec
				}
			}
			fmt.Printf("\n%s\n", s.version)
			all, err := at.grow(ctx, o)
			if err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
			return seriesTable(all)
		})
		if err != nil {
			return err
		}
	}
	for _, why := range r.Skipped {
		fmt.Println("left out:", why)
	}
	return nil
}

func seriesTable(all []series) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tGROWS WITH\tVALUES, EACH AT ITS SIZE\tAS SIZE TO THE POWER OF")
	for _, s := range all {
		text := ""
		for i, v := range s.values {
			if i > 0 {
				text += "  "
			}
			text += fmt.Sprintf("%d: %s", s.sizes[i], digits(v))
		}
		power := "-"
		if e := s.exponent(); !math.IsNaN(e) {
			power = strconv.FormatFloat(e, 'f', 2, 64)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.what, s.of, text, power)
	}
	return w.Flush()
}

// upTo returns the sizes of a series: shorter in the smoke form, longer where there is no server.
func (b *bout) upTo(o options, sizes, more []int) []int {
	switch {
	case o.smoke:
		return sizes[:2]
	case b.backend.name == "Memory":
		return append(sizes, more...)
	}
	return sizes
}

func (b *bout) grow(ctx context.Context, o options) ([]series, error) {
	ticks, err := b.growTicks(ctx, o)
	if err != nil {
		return nil, err
	}
	starts, err := b.growth(ctx, load.Start, "jobs", b.upTo(o, []int{100, 1000, 10_000}, []int{100_000}), func(n int) { b.StartJobs = n }, map[string]func(figure) float64{
		"ms to start, jobs known": func(f figure) float64 { return f.Seconds * 1000 },
		"requests to start":       func(f figure) float64 { return f.Requests },
	})
	if err != nil {
		return nil, err
	}
	leases, err := b.growth(ctx, load.Keep, "leases", b.upTo(o, []int{100, 1000, 10_000}, []int{100_000}), func(n int) { b.Leases = n }, map[string]func(figure) float64{
		"requests in a third of a TTL":      func(f figure) float64 { return f.Requests },
		"client CPU ms in a third of a TTL": func(f figure) float64 { return f.CPU / 1000 },
		"server CPU ms in a third of a TTL": func(f figure) float64 { return f.ServerCPU / 1000 },
	})
	if err != nil {
		return nil, err
	}
	elements, err := b.growElements(ctx, b.upTo(o, []int{1000, 10_000, 50_000}, []int{200_000}))
	return append(append(append(ticks, starts...), leases...), elements), err
}

func (b *bout) growTicks(ctx context.Context, o options) ([]series, error) {
	costs := map[string]func(figure) float64{
		"claiming requests a tick": func(f figure) float64 { v, _ := f.more(claimsPerReplica); return v * float64(b.Replicas) },
		"names asked for a tick": func(f figure) float64 {
			v, _ := f.more("names for each replica and tick")
			return v * float64(b.Replicas)
		},
		"server CPU ms a tick":  func(f figure) float64 { return f.ServerCPU / 1000 },
		"bytes of log a tick":   func(f figure) float64 { return f.Written },
		"requests a tick":       func(f figure) float64 { return f.Requests },
		"client CPU ms a tick":  func(f figure) float64 { return f.CPU / 1000 },
		"runs of a job in tick": func(f figure) float64 { v, _ := f.more("runs a tick"); return v / float64(b.Jobs) },
	}
	b.Jobs = 100
	replicas, err := b.growth(ctx, load.Tick, "replicas", b.upTo(o, []int{1, 4, 16, 64}, []int{256, 1000}), func(n int) { b.Replicas = n }, costs)
	if err != nil {
		return nil, err
	}
	b.Replicas = 4
	jobs, err := b.growth(ctx, load.Tick, "jobs", b.upTo(o, []int{10, 100, 1000}, []int{5000}), func(n int) { b.Jobs = n }, costs)
	return append(replicas, jobs...), err
}

// growth measures a case of package load at some sizes.
func (b *bout) growth(ctx context.Context, run func(context.Context, load.Config) ([]load.Result, error), of string, sizes []int, set func(int), costs map[string]func(figure) float64) ([]series, error) {
	bySize := map[string][]float64{}
	for _, n := range sizes {
		set(n)
		begin := time.Now()
		figures, err := b.ofLoad(ctx, run)
		if err != nil {
			return nil, fmt.Errorf("%d %s: %w", n, of, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %d %s: %.1f s\n", b.backend.name, n, of, time.Since(begin).Seconds())
		for what, cost := range costs {
			bySize[what] = append(bySize[what], cost(figures[len(figures)-1]))
		}
	}
	var all []series
	for _, what := range sortedKeys(costs) {
		if s := (series{what, of, sizes, bySize[what]}); !allZero(s.values) {
			all = append(all, s)
		}
	}
	return all, nil
}

// growElements processes more and more elements of one job, and returns how many a second when so many are recorded already.
func (b *bout) growElements(ctx context.Context, sizes []int) (s series, err error) {
	s = series{what: "elements a second, by batches of 1,000", of: "elements recorded", sizes: sizes}
	c, err := b.spec.open(ctx, b.server.url, lockTTL)
	if err != nil {
		return s, err
	}
	defer c.Close()
	mine := c.(ours)
	e := mine.client.Elements("scale", soloist.ElementsOptions{Retain: time.Second})
	done := 0
	for _, n := range sizes {
		var took time.Duration
		for ; done < n; done += 1000 {
			begin := time.Now()
			if err := processBatch(ctx, e, done); err != nil {
				return s, err
			}
			took = time.Since(begin)
		}
		s.values = append(s.values, 1000/took.Seconds())
	}
	_, err = load.Clean(ctx, mine.store, namespace)
	return s, err
}

func processBatch(ctx context.Context, e *soloist.Elements, first int) error {
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = strconv.Itoa(first + i)
	}
	claimed, err := e.ClaimAll(ctx, ids)
	if err != nil {
		return err
	}
	elements := make([]*soloist.Element, len(claimed))
	for i, c := range claimed {
		if elements[i] = c.Element; c.Err != nil {
			return c.Err
		}
	}
	return errors.Join(e.DoneAll(elements)...)
}
