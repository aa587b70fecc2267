package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
)

// A replica is one process of the fleet; after a crash, the one that takes its place.
type replica struct {
	world   *world
	index   int
	network *network

	life   atomic.Int64
	named  atomic.Pointer[string] // of the life
	isDead atomic.Bool
	closed atomic.Pointer[soloist.Client] // that was closed last, or is being closed
	slept  atomic.Int64                   // the sum of its suspends

	mu      sync.Mutex
	client  *soloist.Client
	end     context.CancelFunc // of this life
	again   time.Duration      // how long after the crash the next begins
	beliefs []*belief          // that have not ended
	health  health
}

// name is the replica with its life. It is asked for with each event.
func (r *replica) name() string { return *r.named.Load() }

// begins makes it the replica's life.
func (r *replica) begins(life int) {
	name := fmt.Sprintf("r%d.%d", r.index, life)
	r.named.Store(&name)
	r.life.Store(int64(life))
	r.isDead.Store(false)
	if w := r.world; w.plan.Clockless {
		r.network.own.Store(w.items.open(r.index + life))
	}
}

func (r *replica) dead() bool { return r.isDead.Load() }

// gone reports whether what a thread of a life sees is nobody's any more.
func (r *replica) gone(life int) bool { return r.dead() || int(r.life.Load()) != life }

// rate is how much time passes on the replica's clock while a second passes on the store's.
func (r *replica) rate() float64 { return 1 / (1 + r.drift()) }

func (r *replica) drift() float64 {
	p := r.world.plan
	if p.Control == FastClock {
		return 0.4
	}
	if p.Without["drift"] {
		return 0
	}
	return p.Drift[r.index]
}

// suspended is how long the replica's machine has been suspended so far.
func (r *replica) suspended() (atLeast, atMost time.Duration) {
	d := time.Duration(r.slept.Load())
	return d, d
}

// toStore returns how long, on the bubble's clock, a lease lives that the replica takes or extends now: the store's clock may run
// at another rate, and in a suspend of the replica it goes on while the bubble, and with it the replica's timers, stand still.
func (r *replica) toStore(ttl, now time.Duration) time.Duration {
	left := time.Duration(float64(ttl) * r.rate())
	at := now
	for i, s := range r.world.plan.Suspends {
		if s.Replica != r.index || s.At <= now || len(r.world.plan.Without) > 0 && r.world.plan.Without[fmt.Sprint("suspend ", i)] {
			continue
		}
		if s.At-at >= left {
			break
		}
		left -= s.At - at
		at = s.At
		if left -= s.For; left <= 0 {
			left = 0
			break
		}
	}
	return max(store.MinTTL, at+left-now)
}

// suspend lets the machine sleep. Those who are about to do what cannot be taken back ask their lease first.
func (r *replica) suspend(s Suspend, key string) {
	if !r.world.fault(key, "suspend", r.name()) {
		return
	}
	r.sleeps(s.For)
	r.slept.Add(int64(s.For))
	r.mu.Lock()
	open := slices.Clone(r.beliefs)
	r.mu.Unlock()
	for _, b := range open {
		b.wake()
	}
}

// crash ends this life between two instructions.
func (r *replica) crash(again time.Duration) {
	r.leaves()
	r.isDead.Store(true)
	r.mu.Lock()
	open := slices.Clone(r.beliefs)
	end := r.end
	r.again = again
	r.mu.Unlock()
	for _, b := range open {
		b.over()
	}
	r.world.vacate(r)
	end()
}

// stop ends this life in good order.
func (r *replica) stop(again time.Duration) {
	r.leaves()
	r.mu.Lock()
	end := r.end
	r.again = again
	r.mu.Unlock()
	end()
}

// live is all lives of the replica.
func (r *replica) live(ctx context.Context) {
	w := r.world
	for life := 0; ctx.Err() == nil; life++ {
		r.begins(life)
		c, err := soloist.New(r.network.asStore(), soloist.Config{
			Replica: r.name(), Drain: -1, Logger: quiet,
			TTL: w.plan.TTL, Margin: w.plan.Margin,
			RequestTimeout: w.plan.TTL / 5, Observe: func(ctx context.Context, e soloist.Event) { tellPermit(ctx, e); r.event(e, life) },
		})
		if err != nil {
			w.violated("client", r.name(), "it cannot be made: %v", err)
			return
		}
		living, end := context.WithCancel(ctx)
		r.mu.Lock()
		r.client, r.end = c, end
		r.mu.Unlock()
		var threads sync.WaitGroup
		for i, work := range r.work() {
			t := &thread{replica: r, world: w, client: c, life: life, rng: seeded(w.plan.Seed, uint64(1000+r.index), uint64(life*100+i))}
			threads.Go(func() { work(t, living) })
		}
		if seeded(w.plan.Seed, uint64(1000+r.index), uint64(life*100+99)).chance(50) { // or it is closed beside what they do still
			threads.Wait()
		}
		<-living.Done()
		r.closed.Store(c)
		_ = c.Close() // what it cannot give back ends with its TTL
		end()
		threads.Wait()
		r.mu.Lock()
		again := r.again
		r.mu.Unlock()
		rest(ctx, again)
	}
}

var quiet = slog.New(slog.DiscardHandler)

// A thread is one goroutine of a replica's user.
type thread struct {
	*replica
	world  *world
	client *soloist.Client
	life   int
	rng    *rng
}

func (t *thread) lost() bool { return t.gone(t.life) }

// A belief is that of somebody who acts under a lease.
type belief struct {
	t     *thread
	lease *soloist.Lease
	mu    sync.Mutex
	at    []int // its events
	ended bool
}

// believe begins a belief in a lease of a record; and in one of the limit many permits of a semaphore, if shared is not "".
func (t *thread) believe(lease *soloist.Lease, record, shared string, limit int) *belief {
	w := t.world
	now := w.now()
	b := &belief{t: t, lease: lease}
	if t.lost() {
		b.ended = true
		return b
	}
	e := proof.Event{Kind: proof.Belief, At: now, Until: proof.Never, Replica: t.name(), Name: record, Holder: of(lease.Holder()), Token: lease.Token()}
	b.at = append(b.at, w.add(e))
	if shared != "" {
		e.Name, e.Limit = shared, limit
		b.at = append(b.at, w.add(e))
	}
	t.replica.mu.Lock()
	t.beliefs = append(t.beliefs, b)
	t.replica.mu.Unlock()
	context.AfterFunc(lease.Context(), func() {
		if cause := context.Cause(lease.Context()); errors.Is(cause, soloist.ErrLost) && !errors.Is(cause, soloist.ErrOverran) && !t.lost() {
			w.add(proof.Event{Kind: proof.Loss, At: w.now(), Replica: t.name(), Name: record, Holder: of(lease.Holder()), Token: lease.Token()})
		}
		b.over()
	})
	return b
}

// wake is for after a suspend: timers have stood still in it, so for a while the context may be late, and its holder asks the lease.
func (b *belief) wake() {
	if b.look() {
		time.AfterFunc(b.lease.Left(), func() { b.look() })
	}
}

// look asks the lease, as its holder does before what cannot be taken back, and reports whether it is still believed in.
func (b *belief) look() bool {
	if b.lease.Err() == nil {
		return true
	}
	b.over()
	return false
}

// over ends the belief now, unless it has ended.
func (b *belief) over() {
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		return
	}
	b.ended = true
	b.mu.Unlock()
	w, r := b.t.world, b.t.replica
	for _, at := range b.at {
		w.change(at, func(e *proof.Event) { e.Until = time.Since(w.begin) })
	}
	r.mu.Lock()
	r.beliefs = slices.DeleteFunc(r.beliefs, func(o *belief) bool { return o == b })
	r.mu.Unlock()
}
