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
	"github.com/soloist-dev/soloist/proof"
	"github.com/soloist-dev/soloist/store"
)

// Config says how to verify a store.
type Config struct {
	Open       func() (store.Store, error) // opens the store
	Executable string                      // starts a replica, with Args and Env, which opens the same store
	Args, Env  []string
	Namespace  string        // what is made in the store; nothing of anybody else's may begin with it
	For        time.Duration // how long the replicas work
	TTL        time.Duration // of their leases
	Replicas   int
	Faults     []Fault
	Seed       uint64                              // of what is drawn; the rest depends on when things happen
	Progress   func(at time.Duration, tally Tally) // is told every now and then
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
	begun    time.Duration
	launched int
	replicas []*fleet.Process
	pauses   sync.WaitGroup

	mu      sync.Mutex
	events  []event
	told    map[eventKey]int // where in events
	tally   Tally
	paused  map[*fleet.Process]bool
	failure error // a replica that ended by itself
}

// collect runs the replicas and answers their history.
func collect(ctx context.Context, c Config) ([]event, error) {
	d := &director{Config: c, rng: rand.New(rand.NewPCG(c.Seed, 0)), epoch: time.Now(), begun: fleet.Now(), paused: map[*fleet.Process]bool{}, told: map[eventKey]int{}}
	var err error
	if d.resource, err = serve(d.add); err != nil {
		return nil, err
	}
	defer d.resource.close()
	defer d.killAll()
	if err := d.direct(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.events, d.failure
}

func (d *director) add(e event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.ID != 0 {
		key := eventKey{e.Replica, e.ID}
		if i, told := d.told[key]; told {
			d.events[i] = e
			d.count(e)
			return
		}
		d.told[key] = len(d.events)
	}
	d.events = append(d.events, e)
	d.count(e)
}

// An eventKey is that of an event that is told more than once.
type eventKey struct {
	replica string
	id      int64
}

func (d *director) count(e event) {
	switch e.Kind {
	case proof.Acquire, proof.Extend, proof.Release:
		if e.Result != proof.Unknown {
			d.tally.Operations++
		}
		if e.Result == proof.Granted {
			d.tally.Grants++
		}
	case proof.Fault:
		d.tally.Faults++
	}
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
		Failed: func(err error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.failure = errors.Join(d.failure, err)
		},
	}.Start()
	if err != nil {
		return err
	}
	d.replicas = append(d.replicas, p)
	order, err := json.Marshal(orders{
		Namespace: d.Namespace, Replica: name, Seed: d.Seed<<16 + uint64(d.launched), TTL: d.TTL, Faults: d.Faults, Resource: d.resource.url,
		Epoch: d.epoch, Unsafe: unsafe,
	})
	p.Tell(string(order))
	return err
}

// direct starts the replicas, makes faults until the time is over, and lets the replicas end.
func (d *director) direct(ctx context.Context) error {
	for i := range d.Replicas + 2 {
		if err := d.launch(i < 2); err != nil {
			return err
		}
	}
	over, stop := context.WithTimeout(ctx, d.For)
	defer stop()
	d.disturb(over)
	d.pauses.Wait()
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return d.drain()
}

// disturb makes faults until ctx ends.
func (d *director) disturb(ctx context.Context) {
	var own []Fault
	for _, f := range d.Faults {
		if f == Kill || f == PauseShort || f == PauseLong {
			own = append(own, f)
		}
	}
	tell := time.NewTicker(100 * time.Millisecond)
	defer tell.Stop()
	next := time.NewTimer(d.gap())
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tell.C:
			if d.Progress != nil {
				d.mu.Lock()
				tally := d.tally
				d.mu.Unlock()
				d.Progress(fleet.Now()-d.begun, tally)
			}
		case <-next.C:
			next.Reset(d.gap())
			if victim := d.victim(); victim != nil && len(own) > 0 {
				d.strike(victim, own[d.rng.IntN(len(own))])
			}
		}
	}
}

// gap is how long nothing is done to a process: the fewer replicas there are, the longer.
func (d *director) gap() time.Duration {
	return time.Duration((0.2 + d.rng.Float64()) * float64(d.TTL) / float64(d.Replicas))
}

// victim is a replica that works.
func (d *director) victim() *fleet.Process {
	d.mu.Lock()
	defer d.mu.Unlock()
	var working []*fleet.Process
	for _, p := range d.replicas[2:] {
		if p.Running() && !d.paused[p] {
			working = append(working, p)
		}
	}
	if len(working) == 0 {
		return nil
	}
	return working[d.rng.IntN(len(working))]
}

func (d *director) strike(p *fleet.Process, f Fault) {
	if f == Kill {
		if p.End(fleet.Kill) == nil {
			at := fleet.Now()
			<-p.Gone
			d.add(faulted(Kill, p.Name, at, fleet.Now()))
		}
		if err := d.launch(false); err != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.failure = errors.Join(d.failure, err)
		}
		return
	}
	d.mu.Lock()
	d.paused[p] = true
	d.mu.Unlock()
	span := pauseFor(f, d.TTL, d.rng.Float64())
	d.pauses.Go(func() { d.pause(p, f, span) })
}

// pause stops a process for a while. It counts if the process was seen to be stopped.
func (d *director) pause(p *fleet.Process, f Fault, span time.Duration) {
	if p.Signal(fleet.Stop) != nil {
		return
	}
	for end := time.Now().Add(time.Second); !p.Stopped() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	at, stopped := fleet.Now(), p.Stopped()
	time.Sleep(span)
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

// drain tells the replicas to end, and waits until they have told all that they know.
func (d *director) drain() error {
	running := slices.DeleteFunc(slices.Clone(d.replicas), func(p *fleet.Process) bool { return !p.Running() })
	var errs []error
	for _, p := range running {
		errs = append(errs, p.End(fleet.Terminate))
	}
	limit := time.After(20*time.Second + 4*d.TTL)
	for _, p := range running {
		select {
		case <-p.Gone:
		case <-limit:
			errs = append(errs, fmt.Errorf("replica %s has not ended in time; it said: %s", p.Name, p.Said()))
		}
	}
	return errors.Join(errs...)
}

func (d *director) killAll() {
	for _, p := range d.replicas {
		_ = p.End(fleet.Kill)
	}
	for _, p := range d.replicas {
		<-p.Gone
	}
}
