package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
)

// Config describes how to verify a store.
type Config struct {
	Open       func() (store.Store, error) // opens the store
	Executable string                      // starts a replica, with Args and Env, which opens the same store
	Args, Env  []string
	Namespace  string        // what is made in the store; nothing of anybody else's may begin with it
	For        time.Duration // how long the replicas work at least
	Within     time.Duration // a run that has not reached its minimum of work and faults after this shows nothing
	TTL        time.Duration // of their leases at first; longer if the store is slow to answer
	Replicas   int
	Faults     []Fault
	Seed       uint64                              // of what is drawn; the rest depends on when things happen
	Progress   func(at time.Duration, tally Tally) // is told every now and then, once the replicas are at work

	sweeper   bool // the store forgets on request
	clockless bool // the store is a store.Clockless
}

// A Tally is how far a verification has come.
type Tally struct {
	Operations int
	Grants     int
	Faults     int
}

// A director runs the replicas, makes their faults, and collects what they tell.
type director struct {
	Config
	rng      *rand.Rand // of the director's goroutine alone
	resource *guarded
	epoch    time.Time
	started  time.Duration
	launched int
	controls []*fleet.Process // the clients that are unsafe on purpose
	workers  []*fleet.Process
	pauses   sync.WaitGroup

	mu     sync.Mutex
	begun  time.Duration // when the first claim was granted: on a slow machine it takes long to start replicas
	span   proof.Span    // from then until the faults ended
	zero   time.Time     // the latest zero that was seen: the wall clock can be put back
	events []event
	told   map[eventKey]int // where in events
	count  *count
	gauge  *gauge
	done   map[string]int // by replica: the claims that were answered since it was last struck
	paused map[*fleet.Process]bool
	ended  []*fleet.EndedError // replicas that ended by themselves
	notes  []string            // why the run shows nothing
}

func newDirector(c Config) *director {
	return &director{Config: c, rng: rand.New(rand.NewPCG(c.Seed, 0)), epoch: time.Now(), started: fleet.Now(),
		count: newCount(c), gauge: newGauge(c.TTL), paused: map[*fleet.Process]bool{}, told: map[eventKey]int{}, done: map[string]int{}}
}

// collect runs the replicas and returns the director, who knows their history.
func collect(ctx context.Context, c Config) (*director, error) {
	d := newDirector(c)
	var err error
	if d.resource, err = serve(d.add); err != nil {
		return nil, err
	}
	defer d.resource.close()
	defer d.killAll()
	return d, d.direct(ctx)
}

func (d *director) add(e event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := eventKey{e.Replica, e.ID}
	i, told := d.told[key]
	if e.ID != 0 && told {
		d.events[i] = e
	} else {
		d.told[key] = len(d.events)
		d.events = append(d.events, e)
	}
	if d.count.add(e, e.ID == 0 || !told); d.begun == 0 && d.count.grants > 0 {
		d.begun = fleet.Now()
	}
	if e.Kind == proof.Acquire && told {
		d.gauge.add(e)
		d.done[e.Replica]++
	}
}

// An eventKey is that of an event that is told more than once.
type eventKey struct {
	replica string
	id      int64
}

func (d *director) launch(unsafe bool) error {
	d.launched++
	name := "r" + strconv.Itoa(d.launched)
	p, err := fleet.Launch{
		Name: name, Executable: d.Executable, Args: d.Args, Env: d.Env,
		Line: func(line []byte) {
			var e event
			if json.Unmarshal(line, &e) == nil { // a killed process may have begun a line
				e.Replica = name
				d.add(e)
			}
		},
		Failed: d.failed,
	}.Start()
	if err != nil {
		return err
	}
	if unsafe {
		d.controls = append(d.controls, p)
	} else {
		d.workers = append(d.workers, p)
	}
	order, err := json.Marshal(orders{
		Namespace: d.Namespace, Replica: name, Seed: d.Seed<<16 + uint64(d.launched), TTL: d.TTL, Faults: d.Faults, Resource: d.resource.url,
		Epoch: d.epoch, Unsafe: unsafe,
	})
	p.Tell(string(order))
	return err
}

// failed notes a replica that has ended by itself, or has crashed.
func (d *director) failed(e *fleet.EndedError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = append(d.ended, e)
}

// direct lets fleets work, each with a longer TTL than the one before, until one has come to the end of the run.
func (d *director) direct(ctx context.Context) error {
	for {
		longer, err := d.round(ctx)
		if err != nil || longer == 0 {
			return err
		}
		d.mu.Lock()
		d.TTL, d.gauge = longer, newGauge(longer)
		d.mu.Unlock()
	}
}

// round starts the replicas, makes faults, and lets the replicas end. It returns a TTL if the run is to begin again
// with that.
func (d *director) round(ctx context.Context) (longer time.Duration, err error) {
	if err := d.complete(); err != nil {
		return 0, err
	}
	longer, err = d.disturb(ctx)
	d.pauses.Wait()
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		return 0, err
	}
	return longer, d.drain(d.ending())
}

// unsafe is how many clients are unsafe on purpose.
const unsafe = 2

// complete starts what replicas there are too few of: at the beginning, and in the place of those that were killed or
// have ended.
func (d *director) complete() error {
	gone := func(p *fleet.Process) bool { return !p.Running() }
	d.controls, d.workers = slices.DeleteFunc(d.controls, gone), slices.DeleteFunc(d.workers, gone)
	for len(d.controls) < unsafe {
		if err := d.launch(true); err != nil {
			return err
		}
	}
	for len(d.workers) < d.Replicas {
		if err := d.launch(false); err != nil {
			return err
		}
	}
	return nil
}

// mostEnded is how many replicas may end by themselves before a run is ended: it goes on after the first, for a history
// that shows more.
const mostEnded = 10

// over reports whether the run has shown what it can.
func (d *director) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.zero = later(d.zero, zero())
	now := fleet.Now()
	d.span = proof.Span{From: d.begun, To: now}
	return d.begun > 0 && now-d.begun >= d.For && d.count.enough(d.Faults, d.span) || now-d.started >= d.Within || len(d.ended) >= mostEnded
}

// disturb makes faults until the run is over, or the TTL turns out to be too short.
func (d *director) disturb(ctx context.Context) (longer time.Duration, err error) {
	var own []Fault
	for _, f := range d.Faults {
		if f == Kill || f == PauseShort || f == PauseLong {
			own = append(own, f)
		}
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	next := time.NewTimer(d.gap())
	defer next.Stop()
	for !d.over() {
		select {
		case <-ctx.Done():
			return 0, nil
		case <-look.C:
			if err := d.complete(); err != nil {
				return 0, err
			}
			if longer := d.looked(); longer > 0 {
				return longer, nil
			}
		case <-next.C:
			next.Reset(d.gap())
			if victim := d.victim(); victim != nil && len(own) > 0 {
				d.strike(ctx, victim, own[d.rng.IntN(len(own))])
			}
		}
	}
	return 0, nil
}

// looked reports how far the run has come, and returns a longer TTL if the store needs one.
func (d *director) looked() (longer time.Duration) {
	d.mu.Lock()
	faults := 0
	for _, n := range d.count.faults {
		faults += n
	}
	tally := Tally{d.count.operations, d.count.grants, faults}
	begun := d.begun
	longer, _, short := d.gauge.tooShort()
	d.mu.Unlock()
	if d.Progress != nil && begun > 0 {
		d.Progress(fleet.Now()-begun, tally)
	}
	if !short {
		return 0
	}
	return longer
}

// gap is how long nothing is done to a process: the fewer replicas there are, the longer.
func (d *director) gap() time.Duration {
	return time.Duration((0.2 + d.rng.Float64()) * float64(d.TTL) / float64(d.Replicas))
}

// sound is how many claims of a replica must have been answered before something is done to it: faults meet replicas at
// work, however slow the machine is at starting them.
const sound = 20

// victim is a replica that works.
func (d *director) victim() *fleet.Process {
	d.mu.Lock()
	defer d.mu.Unlock()
	var working []*fleet.Process
	for _, p := range d.workers {
		if p.Running() && !d.paused[p] && d.done[p.Name] >= sound {
			working = append(working, p)
		}
	}
	if len(working) == 0 {
		return nil
	}
	p := working[d.rng.IntN(len(working))]
	d.done[p.Name] = 0
	return p
}

func (d *director) strike(ctx context.Context, p *fleet.Process, f Fault) {
	if f == Kill {
		if p.End(fleet.Kill) == nil {
			at := fleet.Now()
			<-p.Gone
			d.add(faulted(Kill, p.Name, at, fleet.Now()))
		}
		return
	}
	d.mu.Lock()
	d.paused[p] = true
	d.mu.Unlock()
	span := pauseFor(f, d.TTL, d.rng.Float64())
	d.pauses.Go(func() { d.pause(ctx, p, f, span) })
}

// pause stops a process for a while, or until ctx ends. It counts if the process was seen to be stopped.
func (d *director) pause(ctx context.Context, p *fleet.Process, f Fault, span time.Duration) {
	if p.Signal(fleet.Stop) != nil {
		return
	}
	for end := fleet.Now() + 5*time.Second; !p.Stopped() && p.Running() && fleet.Now() < end; {
		time.Sleep(time.Millisecond)
	}
	at, stopped := fleet.Now(), p.Stopped()
	select {
	case <-time.After(span):
	case <-ctx.Done():
	}
	until := fleet.Now()
	stopped = stopped && p.Stopped()
	_ = p.Signal(fleet.Continue)
	if stopped {
		d.add(faulted(f, p.Name, at, until))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.paused, p)
}

func faulted(f Fault, replica string, at, until time.Duration) event {
	return event{Event: proof.Event{Kind: proof.Fault, Fault: string(f), Replica: replica, At: at, Until: until}}
}

// ending is how long after they were told to end replicas may go on before they are killed.
func (d *director) ending() <-chan time.Time { return time.After(5*time.Minute + 10*d.TTL) }

// drain asks the replicas to end, and waits until they have told all that they know, or a limit has come.
func (d *director) drain(limit <-chan time.Time) error {
	running := slices.DeleteFunc(slices.Concat(d.controls, d.workers), func(p *fleet.Process) bool { return !p.Running() })
	var errs []error
	for _, p := range running {
		errs = append(errs, p.End(fleet.Terminate))
	}
	for _, p := range running {
		select {
		case <-p.Gone:
		case <-limit:
			d.notes = append(d.notes, fmt.Sprintf("replica %s was told to end and did not; it said: %s", p.Name, p.Said()))
			limit = time.After(0)
			_ = p.Signal(fleet.Kill)
			<-p.Gone
		}
	}
	return errors.Join(errs...)
}

func (d *director) killAll() {
	all := slices.Concat(d.controls, d.workers)
	for _, p := range all {
		_ = p.End(fleet.Kill)
	}
	for _, p := range all {
		<-p.Gone
	}
}
