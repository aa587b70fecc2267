package sim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/internal/rand"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A world is one history while it happens.
type world struct {
	plan  *Plan
	mem   *memstore.Store
	items *items // of a store without a clock
	begin time.Time
	guard fence.Memory
	all   []*replica

	mu      sync.Mutex
	events  proof.History
	places  map[string]*standing // by the holder
	gone    map[string]bool      // holders who have left a line
	fired   map[string]bool      // faults that took effect, in the words of Plan.Without
	runs    map[runKey]int       // the last run under a token, as an index of events
	written time.Duration        // the instant of the last guarded write
	asks    map[string]*asks     // of jobs
	found   []proof.Violation
}

type pause struct{ from, to time.Duration }

type runKey struct {
	job   string
	token int64
}

// asks are what people have asked of a job.
type asks struct {
	pauses []pause
	doubts []pause         // in which something may have been asked
	asked  []time.Duration // manual runs
	manual []time.Duration // of them, those that are sure to have been
}

// A Result is what a history has come to.
type Result struct {
	History proof.History
	Rules   proof.Rules
	Found   []proof.Violation // by checks that need to be there while it happens
	Fired   []string          // faults that took effect
}

// room is for the events of a world, and for its history. The next world uses it again: it is a fifth of all that one allocates.
var room = sync.Pool{New: func() any { return new(make(proof.History, 0, 512)) }}

// Run lets a plan happen. It must be called in its own bubble.
func Run(plan Plan) Result {
	rand.Simulate(func(n int64) int64 { // what is drawn depends on when it is, not on who was first at that instant
		return int64(seeded(plan.Seed, 1, uint64(time.Now().UnixNano())).Uint64() % uint64(n))
	})
	defer rand.Simulate(nil)
	if !plan.Job.Begin.IsZero() {
		time.Sleep(time.Until(plan.Job.Begin))
	}
	w := &world{plan: &plan, mem: memstore.New(), items: &items{kept: map[string]casstore.Record{}}, begin: time.Now(), events: *room.Get().(*proof.History), fired: map[string]bool{}, places: map[string]*standing{}, gone: map[string]bool{}, runs: map[runKey]int{}, asks: map[string]*asks{}}
	for _, j := range plan.jobs() {
		w.asks[j.Name] = &asks{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var living sync.WaitGroup
	for i := range plan.Replicas {
		r := &replica{world: w, index: i, network: &network{}}
		r.network.replica = r
		r.begins(0)
		r.network.mem.Store(w.mem.Share())
		w.all = append(w.all, r)
	}
	for _, r := range w.all {
		living.Go(func() { r.live(ctx) })
	}
	w.schedule()
	time.Sleep(plan.Trouble + plan.Tail)
	cancel()
	living.Wait()
	time.Sleep(time.Minute) // for what is still on its way
	defer func() { room.Put(new(w.events[:0])) }()
	return w.result()
}

func seeded(seed uint64, a, b uint64) *rng { return newRNG(seed*0x9e3779b97f4a7c15 + a<<32 + b) }

// schedule puts on the clock what the plan has at fixed instants.
func (w *world) schedule() {
	for i, s := range w.plan.Suspends {
		time.AfterFunc(s.At, func() { w.all[s.Replica].suspend(s, fmt.Sprint("suspend ", i)) })
	}
	for i, s := range w.plan.Stops {
		time.AfterFunc(s.At, func() {
			if r := w.all[s.Replica]; !r.dead() && w.fault(fmt.Sprint("stop ", i), "stop", r.name()) {
				r.stop(s.Again)
			}
		})
	}
	if w.plan.Sweeps {
		for i := range 4 {
			time.AfterFunc(w.plan.Trouble*time.Duration(2*i+1)/8, w.sweep)
		}
	}
	if w.plan.Control == Forgets {
		time.AfterFunc(w.plan.Trouble/2, w.forget)
	}
}

// engine returns the store as somebody has it who has seen nothing so far.
func (w *world) engine() engine {
	if w.plan.Clockless {
		return w.items.open(0)
	}
	return w.mem
}

// sweep is a person's, who tells the store to forget what it may.
func (w *world) sweep() {
	w.add(proof.Event{Kind: proof.Swept, At: w.now()})
	_, _ = w.engine().Sweep(context.Background(), 100)
}

// now is the time since the history began.
func (w *world) now() time.Duration { return time.Since(w.begin) }

// write is now, for a guarded write. Several can be let in one after the other at one instant of the bubble; a nanosecond keeps
// them apart.
func (w *world) write() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = max(time.Since(w.begin), w.written+1)
	return w.written
}

// healed reports whether the adversary has finished.
func (w *world) healed() bool { return w.now() >= w.plan.Trouble }

// add adds events and returns the index of the first.
func (w *world) add(events ...proof.Event) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, events...)
	return len(w.events) - len(events)
}

// change changes an event.
func (w *world) change(at int, with func(*proof.Event)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	with(&w.events[at])
}

// violated notes what a check has found that looks while it happens.
func (w *world) violated(checker, name, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.found) < 10 {
		w.found = append(w.found, proof.Violation{Checker: checker, Name: name, Text: fmt.Sprintf(format, args...)})
	}
}

// fault reports whether a fault of the plan is to be, and notes that it was.
func (w *world) fault(key, kind, replica string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.plan.Without[key] {
		return false
	}
	w.fired[key] = true
	w.events = append(w.events, proof.Event{Kind: proof.Fault, At: time.Since(w.begin), Replica: replica, Fault: kind})
	return true
}

// of shortens a holder to what is the same in every run of a seed: the replica and the number of the attempt.
func of(holder string) string {
	name, rest, ok := strings.Cut(holder, "#")
	if !ok {
		return holder
	}
	return name + rest[strings.LastIndexByte(rest, '-'):]
}

// forget is the failover of a store that has lost what it had acknowledged: all leases are gone.
func (w *world) forget() {
	w.add(proof.Event{Kind: proof.Fault, At: w.now(), Fault: string(Forgets)})
	w.items.forget()
	fresh := memstore.New()
	for _, r := range w.all {
		r.network.mem.Store(fresh.Share())
	}
	w.mem = fresh
}

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	if d <= 0 || ctx.Err() != nil {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// event is what a client tells its observer.
func (r *replica) event(e soloist.Event, life int) {
	if e.Kind != soloist.EventReleased || e.Subject.Kind != soloist.KindJob || e.Err != nil || r.gone(life) { // a token is unique to a record only
		return
	}
	w := r.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.runs[runKey{e.Subject.Name, e.Token}]; ok && w.events[at].Until != proof.Never {
		w.events[at].Recorded = time.Since(w.begin)
	}
}
