package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist"
)

// Waiting is the work of waiters for one lock: each waits for it, holds it, releases it, and waits again after a pause.
// Without the pause the releasing waiter would mostly acquire the lock again, and nothing would be handed over.
type Waiting struct {
	Waiters     int           `json:"waiters"`
	For         time.Duration `json:"for"`
	Hold, Pause time.Duration
}

// The times of case C. The pause is short compared with the time that a waiter waits, so nearly all waiters are always
// waiting.
const (
	holdFor  = time.Millisecond
	pauseFor = 5 * time.Millisecond
)

// A Hold is one time that a waiter had the lock. Instants are of the wall clock of the host, in ns since 1970: waiters may be processes.
type Hold struct {
	Waiter   int   `json:"w"`
	Granted  int64 `json:"g"` // after the lock was acquired
	Released int64 `json:"r"` // before it was released
}

// Run runs the waiters. lock waits for the lock and returns a function that releases it; its ctx ends with the time.
func (w Waiting) Run(ctx context.Context, lock func(ctx context.Context, waiter int) (unlock func() error, err error)) ([]Hold, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timed, stop := context.WithTimeout(ctx, w.For)
	defer stop()
	holds := make([][]Hold, w.Waiters)
	var waiters sync.WaitGroup
	for i := range w.Waiters {
		waiters.Go(func() {
			for {
				unlock, err := lock(timed, i)
				if timed.Err() != nil && err != nil {
					return
				}
				if err == nil {
					h := Hold{Waiter: i, Granted: time.Now().UnixNano()}
					nap(w.Hold)
					h.Released = time.Now().UnixNano()
					holds[i] = append(holds[i], h)
					err = unlock()
				}
				if err != nil {
					cancel(err)
					return
				}
				if timed.Err() != nil {
					return
				}
				nap(w.Pause)
			}
		})
	}
	waiters.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return slices.Concat(holds...), nil
}

func nap(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}

// HandOvers has the figures about the holds of all waiters.
type HandOvers struct {
	Holds   int
	Changes int   // of the owner: a hold by another waiter than the one before
	Gaps    Times // from the release of the lock until another waiter has it
	Most    int   // holds of the waiter with the most
	Fewest  int
	Overlap int // holds that began before the previous one was released: there must be none
}

// Changes finds the hand-overs in the holds of so many waiters.
func Changes(holds []Hold, waiters int) HandOvers {
	slices.SortFunc(holds, func(a, b Hold) int { return cmp.Compare(a.Granted, b.Granted) })
	h := HandOvers{Holds: len(holds)}
	count := make([]int, waiters)
	for i, hold := range holds {
		count[hold.Waiter]++
		if i == 0 {
			continue
		}
		before := holds[i-1]
		if hold.Granted < before.Released {
			h.Overlap++
		}
		if hold.Waiter != before.Waiter {
			h.Changes++
			h.Gaps.Add(time.Duration(hold.Granted - before.Released))
		}
	}
	h.Most, h.Fewest = slices.Max(count), slices.Min(count)
	return h
}

// Wait is case C: goroutines of one client wait for one lock and, if cfg has a command for them, processes.
func Wait(ctx context.Context, cfg Config) ([]Result, error) {
	n := cfg.Size.Waiters
	parts := 1
	if cfg.Processes != nil {
		parts = 2
	}
	within, err := cfg.part(0, parts).waitWithin(ctx, n)
	if err != nil || cfg.Processes == nil {
		return within, err
	}
	across, err := cfg.part(1, parts).waitAcross(ctx, n)
	return append(within, across...), err
}

func (cfg Config) waiting(n int) Waiting {
	return Waiting{Waiters: n, For: cfg.For, Hold: holdFor, Pause: pauseFor}
}

func (cfg Config) waitWithin(ctx context.Context, n int) ([]Result, error) {
	what := fmt.Sprintf("%d goroutines of one process", n)
	var result Result
	err := cfg.on(ctx, soloist.Options{}, func(r *replica) error {
		defer tell(cfg.For, func(done float64) { cfg.Progress(done, what) })()
		before, requests := used(), r.counter.Requests.Load()
		holds, err := cfg.waiting(n).Run(ctx, r.waiter("awaited"))
		if err != nil {
			return err
		}
		s := &Sample{}
		s.since(before)
		result = s.handOvers(what, Changes(holds, n), r.counter.Requests.Load()-requests)
		return nil
	})
	return []Result{result}, err
}

// waiter is how a client waits for a lock.
func (r *replica) waiter(name string) func(context.Context, int) (func() error, error) {
	return func(ctx context.Context, _ int) (func() error, error) {
		l, err := r.Lock(ctx, name)
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	}
}

func (s *Sample) handOvers(what string, h HandOvers, requests int64) Result {
	s.Operations, s.Times = int64(h.Changes), h.Gaps
	r := s.Result("C", what, "owner change", requests)
	r.More = h.More()
	return r
}

// More are the figures that only hand-overs have.
func (h HandOvers) More() []More {
	more := []More{
		{Name: "most holds of a waiter", Value: float64(h.Most)}, {Name: "fewest", Value: float64(h.Fewest)},
		{Name: "holds for each owner change", Value: float64(h.Holds) / float64(max(1, h.Changes))},
	}
	if h.Overlap > 0 {
		more = append(more, More{Name: "HOLDS THAT OVERLAP", Value: float64(h.Overlap)})
	}
	return more
}
