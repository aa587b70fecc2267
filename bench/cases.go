package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/load"
	"github.com/soloist-dev/soloist/store"
)

// sizes say how large the cases are.
type sizes struct {
	For        time.Duration // a case of a contender in a round
	Goroutines int           // B, D
	Waiters    int           // C
	Leases     int           // E, of ours; others have a tenth
	Replicas   int           // H
	Jobs       int           // H
	StartJobs  int           // S
	Elements   int           // M
}

// A bout is one contender on one server.
type bout struct {
	sizes
	backend backend
	server  *server
	spec    spec
	c       contender
	failed  bool // it takes no part any more
}

// measure measures one case.
func (b *bout) measure(ctx context.Context, letter string) ([]figure, error) {
	var figures []figure
	var err error
	switch letter {
	case "A":
		figures, err = b.pairs(ctx, letter, 1)
	case "B":
		figures, err = b.pairs(ctx, letter, b.Goroutines)
	case "C":
		figures, err = b.waiting(ctx)
	case "D":
		figures, err = b.refused(ctx)
	case "E":
		figures, err = b.keepAgain(ctx)
	case "H":
		figures, err = b.tick(ctx)
	case "M":
		figures, err = b.ofLoad(ctx, load.Elements)
	case "S":
		figures, err = b.ofLoad(ctx, load.Start)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, case %s, %s: %w", b.backend.name, letter, b.spec.name, err)
	}
	return figures, nil
}

// counting returns how much the server has counted since it was called.
func (b *bout) counting(ctx context.Context) (func() (counts, error), error) {
	before, err := b.counted(ctx)
	if err != nil {
		return nil, err
	}
	return func() (counts, error) {
		after, err := b.counted(ctx)
		return after.since(before, b.spec.sends), err
	}, nil
}

// counted returns what the server has counted, and what the contender's own service has used.
func (b *bout) counted(ctx context.Context) (counts, error) {
	c, err := b.server.counted(ctx)
	if s, is := b.c.(*service); is && err == nil {
		c.service, err = s.spent()
	}
	return c, err
}

// repeat repeats op, with the server's counts.
func (b *bout) repeat(ctx context.Context, letter, what, unit string, workers int, op func(context.Context, int) error) (figure, error) {
	var ended func() (counts, error)
	loop := load.Loop{Workers: workers, For: b.For, Warm: b.For / 6, Begin: func() (err error) {
		ended, err = b.counting(ctx)
		return err
	}}
	s, err := loop.Run(ctx, op)
	if err != nil {
		return figure{}, err
	}
	c, err := ended()
	return figureOf(s.Result(letter, what, unit, 0), c), err
}

func (b *bout) pairs(ctx context.Context, letter string, n int) ([]figure, error) {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("pair-", i)
	}
	what := "one caller"
	if n > 1 {
		what = fmt.Sprintf("%d goroutines, a name each", n)
	}
	f, err := b.repeat(ctx, letter, what, "pair", n, func(ctx context.Context, w int) error {
		h, err := b.c.Try(ctx, names[w])
		if err != nil {
			return err
		}
		return h.unlock()
	})
	return []figure{f}, err
}

func (b *bout) refused(ctx context.Context) ([]figure, error) {
	holder, err := b.spec.open(ctx, b.server.url, lockTTL)
	if err != nil {
		return nil, err
	}
	defer holder.Close()
	h, err := holder.Try(ctx, "held")
	if err != nil {
		return nil, err
	}
	defer func() { _ = h.unlock() }()
	var figures []figure
	for _, n := range []int{1, b.Goroutines} {
		what := "one caller"
		if n > 1 {
			what = fmt.Sprintf("%d goroutines", n)
		}
		f, err := b.repeat(ctx, "D", what, "try", n, func(ctx context.Context, _ int) error {
			if _, err := b.c.Try(ctx, "held"); !errors.Is(err, errHeld) {
				return fmt.Errorf("a name that is held answered %w", errors.Join(err, errUnexpected))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		figures = append(figures, f)
	}
	return figures, nil
}

var errUnexpected = errors.New("something else than a refusal")

// waiting is case C, with processes.
func (b *bout) waiting(ctx context.Context) ([]figure, error) {
	w := load.Waiting{Waiters: b.Waiters, For: max(b.For, 2*time.Second), Hold: time.Millisecond, Pause: 5 * time.Millisecond}
	var ended func() (counts, error)
	var start time.Time
	account, err := load.Processes(ctx, b.Waiters, b.child(), "awaited", w, func() (err error) {
		ended, err = b.counting(ctx)
		start = time.Now()
		return err
	})
	if err != nil {
		return nil, err
	}
	c, err := ended()
	h := load.Changes(account.Holds, b.Waiters)
	s := load.Sample{Took: time.Since(start), Operations: int64(h.Changes), Times: h.Gaps, CPU: account.CPU}
	r := s.Result("C", fmt.Sprintf("%d processes", b.Waiters), "owner change", 0)
	r.More = h.More()
	return []figure{figureOf(r, c)}, err
}

// keepAgain measures case E, up to five times while the machine stands still for longer than the short TTL allows: such a measurement is void.
func (b *bout) keepAgain(ctx context.Context) (figures []figure, err error) {
	for try := range 5 {
		figures, err = b.keep(ctx, fmt.Sprintf("kept-%d-", try))
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, soloist.ErrLost) {
			break
		}
	}
	return figures, err
}

// keep is case E, with names that begin with prefix. A contender that leaves renewing to its user is renewed here, each lock once in a period.
func (b *bout) keep(ctx context.Context, prefix string) ([]figure, error) {
	const period = time.Second
	n := b.Leases
	if !b.spec.ours {
		n = max(1, n/10)
	}
	c, err := b.spec.open(ctx, b.server.url, 3*period)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if h, err := c.Try(ctx, "warm"); err != nil { // connections and scripts are none of a lock's size
		return nil, err
	} else if err := h.unlock(); err != nil {
		return nil, err
	}
	before := alive()
	holds := make([]hold, n)
	if err := each(ctx, n, func(ctx context.Context, i int) (err error) {
		holds[i], err = c.Try(ctx, fmt.Sprint(prefix, i))
		return err
	}); err != nil {
		return nil, err
	}
	size := float64(alive()-before) / float64(n)
	ended, err := b.counting(ctx)
	if err != nil {
		return nil, err
	}
	const periods = 2
	cpu, start := load.CPU(), time.Now()
	for range periods {
		if holds[0].extend != nil {
			if err := each(ctx, n, func(ctx context.Context, i int) error { return holds[i].extend(ctx) }); err != nil {
				return nil, err
			}
		}
		next := start.Add(period)
		time.Sleep(time.Until(next))
		start = next
	}
	counted, err := ended()
	if err != nil {
		return nil, err
	}
	used := load.CPU() - cpu
	if err := each(ctx, n, func(_ context.Context, i int) error { return holds[i].unlock() }); err != nil {
		return nil, err
	}
	s := load.Sample{Took: periods * period, Operations: periods, CPU: used}
	r := s.Result("E", fmt.Sprintf("%d leases", n), "period", 0)
	f := figureOf(r, counted)
	// For 10,000 leases with a TTL of 30 s, whose period is 10 s. The commands of others grow with their locks; ours were counted.
	scale := 10_000 / float64(n) / 10
	f.More = []load.More{
		{Name: perSecond10k, Value: f.Commands * scale, Unit: "/s"},
		{Name: "heap a lease", Value: size, Unit: "B"},
		{Name: cpu10k, Value: f.CPU * scale / 1e6 * 100, Unit: "% of a core"},
	}
	return []figure{f}, nil
}

const (
	perSecond10k = "commands for 10,000 at a TTL of 30 s"
	cpu10k       = "client CPU for that"
)

// each calls do for 0 to n-1 from some goroutines.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := do(ctx, int(i)); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// alive is what is alive on the heap.
func alive() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// tick is case H. Ours is the real thing: clients that run jobs. What others have is a lock for each job, so each replica tries each.
func (b *bout) tick(ctx context.Context) ([]figure, error) {
	if b.spec.ours {
		return b.ofLoad(ctx, load.Tick)
	}
	names := make([]string, b.Jobs)
	for i := range names {
		names[i] = fmt.Sprint("job-", i)
	}
	ended, err := b.counting(ctx)
	if err != nil {
		return nil, err
	}
	start, cpu := time.Now(), load.CPU()
	var mu sync.Mutex
	var won []hold
	var replicas sync.WaitGroup
	errs := make([]error, b.Replicas)
	for i := range b.Replicas {
		replicas.Go(func() {
			for _, name := range names {
				h, err := b.c.Try(ctx, name)
				if err == nil {
					mu.Lock()
					won = append(won, h)
					mu.Unlock()
				} else if !errors.Is(err, errHeld) {
					errs[i] = err
					return
				}
			}
		})
	}
	replicas.Wait()
	s := load.Sample{Operations: 1, Took: time.Since(start), CPU: load.CPU() - cpu}
	c, err := ended()
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	r := s.Result("H", fmt.Sprintf("%d replicas, %d jobs", b.Replicas, b.Jobs), "tick", 0)
	r.More = []load.More{{Name: "runs a tick", Value: float64(len(won))}, {Name: perReplica, Value: float64(c.commands) / float64(b.Replicas)}}
	for _, h := range won {
		if err := h.unlock(); err != nil {
			return nil, err
		}
	}
	return []figure{figureOf(r, c)}, nil
}

const (
	perReplica       = "commands for each replica and tick"
	claimsPerReplica = "claiming requests for each replica and tick" // of package load
)

// ofLoad runs a case of package load on its own handles, with the server's counts.
func (b *bout) ofLoad(ctx context.Context, run func(context.Context, load.Config) ([]load.Result, error)) ([]figure, error) {
	var ended func() (counts, error)
	var all []counts
	var errs []error
	cfg := load.Config{
		Open:      func(ctx context.Context) (store.Store, error) { return b.backend.open(ctx, b.server.url) },
		Namespace: namespace, For: b.For, Size: load.Size{Leases: b.Leases, Replicas: b.Replicas, Jobs: b.Jobs, StartJobs: b.StartJobs, Elements: b.Elements},
		Mark: func() {
			if ended == nil {
				var err error
				ended, err = b.counting(ctx)
				errs = append(errs, err)
				return
			}
			c, err := ended()
			all, errs, ended = append(all, c), append(errs, err), nil
		},
	}
	results, err := load.Case{Run: run}.Do(ctx, cfg)
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	var figures []figure
	for i, r := range results {
		f := figureOf(r, all[i])
		if r.Case == "H" {
			f.More = append(f.More, load.More{Name: perReplica, Value: f.Commands / float64(b.Replicas)})
		}
		figures = append(figures, f)
	}
	s, err := b.backend.open(ctx, b.server.url)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	_, err = load.Clean(ctx, s, namespace)
	return figures, err
}
