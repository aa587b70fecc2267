package soloist_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

var (
	simSeed = flag.Uint64("sim.seed", 0, "run the simulation of this seed alone")
	simRuns = flag.Uint64("sim.runs", 150, "how many seeds to simulate")
)

// TestSimulation runs replicas of the real client on a store behind a bad network, in fake time, and checks what they believed and
// did. A failure names its seed: go test -run Simulation -sim.seed N . runs it again.
func TestSimulation(t *testing.T) {
	first, last := uint64(1), *simRuns
	if *simSeed != 0 {
		first, last = *simSeed, *simSeed
	}
	for seed := first; seed <= last && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) { newWorld(t, seed).run() })
	}
}

// A world is one history.
type world struct {
	t     *testing.T
	seed  uint64
	mem   *memstore.Store
	begin time.Time

	mu     sync.Mutex
	rng    *rand.Rand
	healed bool
	holds  []hold
	runs   map[int64]*jobRun          // by token
	done   map[string][]time.Duration // elements that Process says it has recorded
}

// A hold is what a holder believed.
type hold struct {
	name     string
	token    int64
	from, to time.Duration
}

type jobRun struct {
	scheduled time.Duration
	completed bool // its function ran to its end under a lease that it believed in
	recorded  bool // the store confirmed the release
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{t: t, seed: seed, mem: memstore.New(), begin: time.Now(), rng: rand.New(rand.NewPCG(seed, 7)),
		runs: map[int64]*jobRun{}, done: map[string][]time.Duration{}}
}

func (w *world) now() time.Duration { return time.Since(w.begin) }

func (w *world) chance(percent int) bool { return w.upTo(100) < percent }

func (w *world) upTo(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) between(d time.Duration) time.Duration {
	return time.Duration(w.upTo(int(d/time.Microsecond)+1)) * time.Microsecond
}

const (
	simReplicas = 4
	simLength   = 3 * time.Minute // of bad network, before it is healed
	simTail     = 5 * time.Minute // of good network, in which all that is left is caught up with
	simTTL      = 6 * time.Second
	simEvery    = 10 * time.Second
	simElements = 12
)

func (w *world) run() {
	var replicas []*network
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(background)
	for i := range simReplicas {
		n := &network{Store: w.mem.Share(), world: w}
		replicas = append(replicas, n)
		wg.Go(func() { w.replica(ctx, n, fmt.Sprint("r", i)) })
	}
	go func() {
		for w.now() < simLength {
			time.Sleep(w.between(20 * time.Second))
			n := replicas[w.upTo(simReplicas)]
			n.cut(w.chance(60))
		}
		w.mu.Lock()
		w.healed = true
		w.mu.Unlock()
		for _, n := range replicas {
			n.cut(false)
		}
	}()
	time.Sleep(simLength + simTail)
	cancel()
	wg.Wait()
	w.check()
}

// replica is one process. It can crash: then another takes its place, and what it still does is nobody's.
func (w *world) replica(ctx context.Context, n *network, name string) {
	for life := 0; ctx.Err() == nil; life++ {
		c, err := soloist.New(n, soloist.Config{
			Replica: fmt.Sprint(name, ".", life), Drain: -1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Options: soloist.Options{TTL: simTTL}, RequestTimeout: time.Second, Observe: w.observe,
		})
		if err != nil {
			w.t.Error(err)
			return
		}
		living, end := context.WithCancel(ctx)
		if w.chance(70) {
			time.AfterFunc(10*time.Second+w.between(2*time.Minute), end)
		}
		var wg sync.WaitGroup
		wg.Go(func() { w.locker(living, c) })
		wg.Go(func() { w.processor(living, c) })
		wg.Go(func() {
			for living.Err() == nil { // a replica whose first request fails is started again
				_ = c.Run(living, w.job())
				rest(living, time.Second)
			}
		})
		wg.Wait()
		end()
		_ = c.Close()
	}
}

func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// locker takes one of two locks again and again, and notes when it believed to hold it.
func (w *world) locker(ctx context.Context, c *soloist.Client) {
	for ctx.Err() == nil {
		waiting, stop := context.WithTimeout(ctx, w.between(10*time.Second))
		l, err := c.Lock(waiting, fmt.Sprint("lock", w.upTo(2)))
		stop()
		if err != nil {
			rest(ctx, w.between(2*time.Second))
			continue
		}
		h := hold{name: l.Name(), token: l.Token(), from: w.now()}
		rest(l.Context(), w.between(15*time.Second))
		w.mu.Lock()
		h.to = w.now()
		w.holds = append(w.holds, h)
		w.mu.Unlock()
		_ = l.Release()
	}
}

// processor processes the elements, in an order of its own.
func (w *world) processor(ctx context.Context, c *soloist.Client) {
	elements := c.Elements("e")
	for ctx.Err() == nil {
		id := fmt.Sprint(w.upTo(simElements))
		err := elements.Process(ctx, id, func(ctx context.Context, l *soloist.Lease) error {
			rest(ctx, w.between(8*time.Second))
			if w.chance(20) {
				return errors.New("failed")
			}
			return ctx.Err()
		})
		if err == nil {
			w.mu.Lock()
			w.done[id] = append(w.done[id], w.now())
			w.mu.Unlock()
		}
		rest(ctx, w.between(3*time.Second))
	}
}

func (w *world) job() soloist.Job {
	return soloist.Job{
		Name: "tick", Schedule: soloist.Every(simEvery), Missed: soloist.MissedAll, MissedCap: 1000, Retry: soloist.Retry{},
		Do: func(ctx context.Context, run soloist.Run) error {
			r := &jobRun{scheduled: run.ScheduledAt.Sub(w.begin)}
			h := hold{name: "job", token: run.Token, from: w.now()}
			w.mu.Lock()
			w.runs[run.Token] = r
			w.mu.Unlock()
			rest(ctx, w.between(8*time.Second))
			w.mu.Lock()
			defer w.mu.Unlock()
			r.completed = ctx.Err() == nil
			h.to = w.now()
			w.holds = append(w.holds, h)
			if ctx.Err() != nil {
				return fmt.Errorf("%w: %w", soloist.ErrInterrupted, ctx.Err())
			}
			return nil
		},
	}
}

func (w *world) observe(e soloist.Event) {
	if e.Kind != soloist.EventReleased || e.Name != "tick" || e.Err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.runs[e.Token]; r != nil {
		r.recorded = true
	}
}

// check looks at the whole history.
func (w *world) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	fail := func(format string, args ...any) {
		w.t.Errorf("seed %d: "+format, append([]any{w.seed}, args...)...)
	}
	slices.SortFunc(w.holds, func(a, b hold) int { return int(a.from - b.from) })
	last := map[string]hold{}
	for _, h := range w.holds {
		before, ok := last[h.name]
		if ok && h.from < before.to {
			fail("two believed to hold %s: token %d from %v to %v, and token %d from %v", h.name, before.token, before.from, before.to, h.token, h.from)
		}
		if ok && h.token <= before.token {
			fail("%s: token %d after %d", h.name, h.token, before.token)
		}
		last[h.name] = h
	}
	completed, recorded := map[time.Duration]int{}, map[time.Duration]int{}
	for _, r := range w.runs {
		if r.completed {
			completed[r.scheduled]++
			if r.recorded {
				recorded[r.scheduled]++
			}
		}
	}
	for at := 2 * simEvery; at < simLength+simTail/4; at += simEvery {
		if completed[at] == 0 {
			fail("the scheduled time %v was left out", at)
		}
		if recorded[at] > 1 { // a run that could not be recorded may be run again, and says so
			fail("the scheduled time %v was completed and recorded %d times", at, recorded[at])
		}
	}
	for id, times := range w.done {
		if len(times) > 1 {
			fail("element %s was recorded as processed at %v", id, times)
		}
	}
	for r, err := range w.mem.List(background, "element/") {
		if err == nil && r.Mark < 1 && len(w.holds) > 0 {
			fail("element %s was never processed, although the network has been good for long: %+v %s", r.Name, r, r.State)
		}
	}
}

// A network is the way of one replica to the store.
type network struct {
	*memstore.Store
	world *world

	mu     sync.Mutex
	broken chan struct{} // closed when it is mended; nil while it works
}

func (n *network) cut(broken bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case broken && n.broken == nil:
		n.broken = make(chan struct{})
	case !broken && n.broken != nil:
		close(n.broken)
		n.broken = nil
	}
}

var errLostOnTheWay = errors.New("lost on the way")

// bad makes happen to a request what the seed has for it.
func bad[Q, A any](ctx context.Context, n *network, do func(context.Context, []Q) ([]A, error), asked []Q, unknown func(error) A) ([]A, error) {
	w := n.world
	w.mu.Lock()
	healed := w.healed
	w.mu.Unlock()
	n.mu.Lock()
	broken := n.broken
	n.mu.Unlock()
	if broken != nil {
		<-ctx.Done()
		return nil, store.AsUnknown(ctx.Err())
	}
	if healed {
		rest(ctx, w.between(5*time.Millisecond))
		return do(context.WithoutCancel(ctx), asked)
	}
	slow := w.between(50 * time.Millisecond)
	if w.chance(5) {
		slow = w.between(4 * time.Second)
	}
	asked = slices.Clone(asked)
	switch fate := w.upTo(100); {
	case fate < 4: // refused at once
		return nil, errors.New("connection refused")
	case fate < 8: // lost before it took effect
		rest(ctx, slow)
		return nil, store.AsUnknown(errLostOnTheWay)
	case fate < 12: // lost after it took effect
		_, _ = do(background, asked)
		rest(ctx, slow)
		return nil, store.AsUnknown(errLostOnTheWay)
	case fate < 15: // given up, and takes effect later
		time.AfterFunc(w.between(10*time.Second), func() { _, _ = do(background, asked) })
		rest(ctx, slow)
		return nil, store.AsUnknown(errLostOnTheWay)
	case fate < 18: // takes effect twice
		time.AfterFunc(w.between(10*time.Second), func() { _, _ = do(background, asked) })
	case fate < 21 && len(asked) > 1: // a part of the batch has an answer
		answers, err := do(background, asked)
		if err != nil {
			return nil, err
		}
		for i := w.upTo(len(asked)); i < len(answers); i++ {
			answers[i] = unknown(store.AsUnknown(errLostOnTheWay))
		}
		return answers, nil
	}
	rest(ctx, slow)
	if ctx.Err() != nil {
		time.AfterFunc(w.between(time.Second), func() { _, _ = do(background, asked) })
		return nil, store.AsUnknown(ctx.Err())
	}
	answers, err := do(background, asked)
	rest(ctx, w.between(50*time.Millisecond))
	if ctx.Err() != nil {
		return nil, store.AsUnknown(ctx.Err())
	}
	return answers, err
}

func (n *network) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	return bad(ctx, n, n.Store.Acquire, claims, func(err error) store.Outcome { return store.Outcome{Err: err} })
}

func (n *network) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	return bad(ctx, n, n.Store.Extend, extensions, func(err error) error { return err })
}

func (n *network) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	return bad(ctx, n, n.Store.Release, releases, func(err error) error { return err })
}

// List fails when the network is cut.
func (n *network) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	n.mu.Lock()
	broken := n.broken
	n.mu.Unlock()
	if broken != nil {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, errLostOnTheWay) }
	}
	return n.Store.List(ctx, prefix)
}
