package histories

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/move"
)

// A fleet is replicas that roll from the stores of a rig to those that it moves to, and perhaps back, while they work.
type fleet struct {
	rig   *rig
	rec   *recorder
	page  string // is part of all names of the round
	round int    // from 0
	ahead bool   // the tokens of the old store are far ahead of those of the new one, else it is the other way round
	names []string
	locks []string
	users sync.WaitGroup // of all processes
	count atomic.Int64   // of processes
}

// movedMinimum is what moves must have had at least.
var movedMinimum = []string{"granted", "held", "done", "lost", "extended", "released", "believed", "unknown", "process ended", "process died", "copied", "went back"}

// move rolls all replicas from phase to phase. Between any two restarts the fleet makes about as many operations as its share of them.
func (f *fleet) move(ctx context.Context, operations int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	orders := make([]chan move.Phase, len(f.rig.stores))
	entered := make(chan struct{})
	for i := range orders {
		orders[i] = make(chan move.Phase)
		all.Go(func() {
			if err := f.replica(ctx, i, orders[i], entered); err != nil {
				cancel(err)
			}
		})
	}
	phases := paths[f.round%len(paths)]
	share := operations / (len(phases) * len(orders))
	for n, phase := range phases {
		if n > 0 && phase < phases[n-1] {
			f.rec.fault("went back")
		}
		for _, i := range rand.Perm(len(orders)) {
			select {
			case orders[i] <- phase:
			case <-ctx.Done():
			}
			select {
			case <-entered:
			case <-ctx.Done():
			}
			f.worked(ctx, share)
		}
		if phase == move.OldDecides || phase == move.NewDecides {
			if err := f.copy(ctx, phase, nextOf(phases, n)); err != nil {
				cancel(err)
			}
		}
	}
	for _, order := range orders {
		close(order)
	}
	all.Wait()
	f.users.Wait()
	return context.Cause(ctx)
}

// paths are the phases that fleets roll through, round by round.
var paths = [][]move.Phase{
	{move.OldOnly, move.OldDecides, move.NewDecides, move.OldDecides, move.NewDecides, move.NewOnly},               // one step back
	{move.OldOnly, move.OldDecides, move.NewDecides, move.NewOnly, move.NewDecides, move.OldDecides, move.OldOnly}, // all the way back
	{move.OldOnly, move.OldDecides, move.OldOnly, move.OldDecides, move.NewDecides, move.NewOnly},                  // begun anew
	{move.OldOnly, move.OldDecides, move.NewDecides, move.NewOnly},
}

// worked waits until the fleet has made some more operations.
func (f *fleet) worked(ctx context.Context, operations int) {
	for enough := f.rec.length() + operations; f.rec.length() < enough && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
}

// mostCopies is how often a copy is tried amid faults.
const mostCopies = 2000

// copy copies until nothing is left to do before the next phase.
func (f *fleet) copy(ctx context.Context, phase, next move.Phase) error {
	before, after := paged{f.rig.stores[0], f.page}, paged{f.rig.to[0], f.page}
	var report move.Report
	var err error
	for range mostCopies {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		bound, cancel := context.WithTimeout(ctx, requestTimeout)
		report, err = move.Copy(bound, before, after, phase, move.Options{Next: next})
		cancel()
		if err == nil && report.Complete() {
			f.rec.fault("copied")
			return nil
		}
		f.worked(ctx, 10)
	}
	return errors.Join(fmt.Errorf("copying in the phase %v is never complete: %+v", phase, report), err)
}

// A paged store lists the names of one round only.
type paged struct {
	store.Store

	page string
}

// Unwrap is as store.As wants it.
func (s paged) Unwrap() store.Store { return s.Store }

// List is as in store.Store.
func (s paged) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for r, err := range s.Store.List(ctx, prefix) {
			if (err != nil || strings.Contains(r.Name, s.page)) && !yield(r, err) {
				return
			}
		}
	}
}

// replica runs one process after the other in the phases that it is ordered to, until there are no more orders.
func (f *fleet) replica(ctx context.Context, i int, orders <-chan move.Phase, entered chan<- struct{}) error {
	phase, open := <-orders
	ordered := true
	for open {
		p, err := f.start(ctx, i, phase)
		if err != nil {
			return err
		}
		if ordered {
			select {
			case entered <- struct{}{}:
			case <-ctx.Done():
			}
		}
		select {
		case phase, ordered = <-orders:
			open = ordered
			if rand.IntN(2) == 0 {
				p.die()
			}
			p.end()
			<-p.over
		case <-p.over:
			ordered = false
		}
	}
	return nil
}

// A process works in one phase until it ends, or dies: then its stores do nothing more.
type process struct {
	fleet *fleet
	left  atomic.Int64 // operations until it ends
	until atomic.Int64 // requests until it dies
	dead  atomic.Bool
	kill  context.CancelFunc
	over  chan struct{} // is closed when nothing of it is under way
}

func (f *fleet) start(ctx context.Context, i int, phase move.Phase) (*process, error) {
	ctx, kill := context.WithCancel(ctx)
	p := &process{fleet: f, kill: kill, over: make(chan struct{})}
	p.left.Store(rand.Int64N(400))
	p.until.Store(rand.Int64N(800))
	before, after := &mortal{f.rig.stores[i], p, 0}, &mortal{f.rig.to[i], p, 0}
	if f.ahead {
		before.above = farAhead
	} else {
		after.above = farAhead
	}
	both, err := move.New(before, after, phase)
	if err != nil {
		kill()
		return nil, err
	}
	id := fmt.Sprintf("r%d.%d", i, f.count.Add(1))
	var work, late sync.WaitGroup
	s := &troubled{&recorded{both, f.rec, id}, 0.06, &late}
	var repeated sync.WaitGroup
	u, err := newUser(&troubled{s.recorded, 0.06, &repeated}, id+".client", f.locks, time.Duration(400+rand.IntN(600))*time.Millisecond)
	if err != nil {
		kill()
		return nil, err
	}
	for j := range 3 {
		a := &actor{s: s, id: fmt.Sprintf("%s.%d", id, j), names: f.names, ttl: movedTTL}
		work.Go(func() { a.act(ctx, &p.left) })
	}
	used := make(chan struct{})
	f.users.Go(func() {
		defer close(used)
		u.use(ctx, &p.left)
		repeated.Wait()
	})
	go func() {
		defer close(p.over)
		work.Wait()
		late.Wait()
		select {
		case <-used:
		case <-ctx.Done(): // its client believes in its leases until they end, but can make no request
		}
		if p.dead.Load() {
			f.rec.fault("process died")
		} else {
			f.rec.fault("process ended")
		}
		kill()
	}()
	return p, nil
}

// movedTTL leaves time for the two requests of a claim, whose first lease must not be half over when the second is granted.
func movedTTL() time.Duration {
	if rand.IntN(4) == 0 {
		return time.Duration(500+rand.IntN(1000)) * time.Millisecond
	}
	return time.Duration(50+rand.IntN(200)) * time.Millisecond
}

// end lets the process end after the operations that are under way.
func (p *process) end() {
	p.left.Store(-1)
}

// die ends the process with what it holds.
func (p *process) die() {
	p.dead.Store(true)
	p.left.Store(-1)
	p.kill()
}

var errDied = errors.New("the process has died")

// A mortal store is that of a process.
type mortal struct {
	store.Store

	process *process
	above   int64 // all tokens are above it, as those of a store whose clock is ahead
}

const farAhead = 1 << 52

// Unwrap is as store.As wants it.
func (s *mortal) Unwrap() store.Store { return s.Store }

// Close is as in store.Store. The store is that of the next process, too.
func (s *mortal) Close() error { return nil }

// carry sends a request, unless the process has died. It may die while the request is under way.
func carry[Q, A any](ctx context.Context, s *mortal, asked []Q, send func(context.Context, []Q) ([]A, error)) ([]A, error) {
	p := s.process
	if p.until.Add(-1) < 0 {
		p.die()
	}
	if p.dead.Load() {
		return nil, errDied
	}
	answers, err := send(ctx, asked)
	if p.dead.Load() {
		return nil, store.AsUnknown(errDied)
	}
	return answers, err
}

// Acquire is as in store.Store.
func (s *mortal) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	raised := slices.Clone(claims)
	for i := range raised {
		if raised[i].Mark >= 0 {
			raised[i].Above = max(raised[i].Above, s.above)
		}
	}
	return carry(ctx, s, raised, s.Store.Acquire)
}

// Extend is as in store.Store.
func (s *mortal) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	return carry(ctx, s, extensions, s.Store.Extend)
}

// Release is as in store.Store.
func (s *mortal) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	return carry(ctx, s, releases, s.Store.Release)
}

// Fill is as in store.Filler. A store whose clock is ahead has none: its tokens would not be above all others.
func (s *mortal) Fill(ctx context.Context, fillings []store.Filling) ([]bool, error) {
	filler, ok := store.As[store.Filler](s.Store)
	if !ok || s.above != 0 {
		return nil, errors.ErrUnsupported
	}
	return carry(ctx, s, fillings, filler.Fill)
}

// nextOf returns the phase after the i-th, 0 if that is the last one.
func nextOf(phases []move.Phase, i int) move.Phase {
	if i+1 < len(phases) {
		return phases[i+1]
	}
	return 0
}
