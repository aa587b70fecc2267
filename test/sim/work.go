package sim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/fence"
	"github.com/soloist-dev/soloist/internal/proof"
)

// work are the threads of a replica.
func (r *replica) work() []func(*thread, context.Context) {
	type threads = []func(*thread, context.Context)
	switch p := r.world.plan; p.Work {
	case Locks:
		if p.Uneven && p.Replicas < 5 {
			return threads{(*thread).locks, (*thread).locks, (*thread).locks}
		}
		if r.index%2 == 1 && p.Replicas < 5 { // two that wait in one client
			return threads{(*thread).locks, (*thread).locks}
		}
		return threads{(*thread).locks}
	case Permits:
		return threads{(*thread).permits, (*thread).permits}
	case Leaders:
		return threads{(*thread).lead}
	case Elements:
		return threads{(*thread).elements}
	case Jobs, Cron:
		if r.index == 0 && p.Job.Person {
			return threads{(*thread).jobs, (*thread).person}
		}
		return threads{(*thread).jobs}
	default:
		return threads{(*thread).locks, (*thread).elements, (*thread).jobs, (*thread).permits}
	}
}

// several reports whether more than one thread of a replica asks for the same locks, so that a refusal can be due to another of them.
func (t *thread) several() bool {
	p := t.world.plan
	return (t.index%2 == 1 || p.Uneven) && p.Replicas < 5 || p.Work == Permits
}

// busy reports whether a thread has more to do before all is well.
func (t *thread) busy(ctx context.Context) bool { return ctx.Err() == nil && !t.world.healed() }

// locks takes locks in every way there is. In the end each of them must be had again.
func (t *thread) locks(ctx context.Context) {
	w := t.world
	for n := 0; n < w.plan.Ops && t.busy(ctx); n++ {
		rest(ctx, t.rng.span(w.plan.TTL*2/3))
		t.lock(ctx, fmt.Sprint("lock", t.rng.upTo(w.plan.Names)))
	}
	rest(ctx, w.plan.Trouble-w.now()+w.plan.TTL+w.plan.TTL/5+t.rng.span(time.Millisecond))
	for i := range w.plan.Names {
		name := fmt.Sprint("lock", i)
		t.lastly(ctx, "lock/"+name, func(ctx context.Context) (*soloist.Lease, error) { return t.client.Lock(ctx, name) })
	}
}

// lastly waits for a lock or a leadership when all is well. It must come within what all the others need.
func (t *thread) lastly(ctx context.Context, record string, take func(context.Context) (*soloist.Lease, error)) {
	w := t.world
	if ctx.Err() != nil {
		return
	}
	bound, stop := context.WithTimeout(ctx, w.plan.patience()+w.forsaken(record))
	defer stop()
	begin := w.now()
	lease, err := take(bound)
	if ctx.Err() != nil || t.lost() {
		return
	}
	if err != nil {
		w.violated("all is well again", record, "%s could not take it from %v on: %v", t.name(), begin, err)
		return
	}
	t.took(begin, lease, record)
	b := t.believe(lease, record, "", 1)
	rest(lease.Context(), t.rng.span(w.plan.TTL/100))
	b.over()
	if err := t.gave(record, lease, lease.Release()); err != nil {
		w.violated("all is well again", record, "%s could not release it at %v: %v", t.name(), w.now(), err)
	}
}

// took records that the client's user was given a lease, and returns where; -1 if it is not recorded.
func (t *thread) took(begin time.Duration, lease *soloist.Lease, record string) int {
	if t.lost() {
		return -1
	}
	return t.world.add(proof.Event{Kind: proof.Take, At: begin, Until: t.world.now(), Replica: t.name(), Name: record, Holder: of(lease.Holder()),
		Token: lease.Token(), State: proof.StateOf(lease.State()), Result: proof.Granted})
}

// refused records that the client's user was told why there is no lease. One who had none, and was told of no error, takes it that the work was done.
func (t *thread) refused(begin time.Duration, record string, err error) {
	if t.lost() {
		return
	}
	held, ok := errors.AsType[*soloist.HeldError](err)
	e := proof.Event{Kind: proof.Take, At: begin, Until: t.world.now(), Replica: t.name(), Name: record}
	switch {
	case err == nil:
		t.world.violated("client", record, "%s was told from %v to %v of no error, and had no lease", t.name(), begin, e.Until)
		return
	case errors.Is(err, soloist.ErrDone):
		e.Result = proof.Done
	case ok && held.Holder == "" && held.Token == 0 && t.world.plan.Odds.Lock > 0: // its record is locked, and it may be free
		return
	case ok && errors.Is(err, soloist.ErrHeld) && !t.several():
		e.Result = proof.Held
	default:
		return
	}
	t.world.add(e)
}

// gave records what a release has answered.
func (t *thread) gave(record string, lease *soloist.Lease, err error) error {
	return t.given(t.world.now(), record, lease, err)
}

func (t *thread) given(begin time.Duration, record string, lease *soloist.Lease, err error) error {
	back := t.closed.Load() == t.client && errors.Is(err, soloist.ErrLost) // Close may have released it just now
	if !t.lost() && !back {
		t.world.add(proof.Event{Kind: proof.Give, At: begin, Until: t.world.now(), Replica: t.name(), Name: record, Holder: of(lease.Holder()),
			Token: lease.Token(), Result: proof.ResultOf(err)})
	}
	return err
}

// lock is one use of a lock.
func (t *thread) lock(ctx context.Context, name string) {
	w, ttl := t.world, t.world.plan.TTL
	begin, record := w.now(), "lock/"+name
	if t.rng.upTo(25) == 0 {
		t.force(ctx, name)
		return
	}
	client := t.client
	opts := soloist.Options{TTL: ttl, Margin: w.plan.Margin}
	if w.plan.Uneven {
		ttl = t.anyTTL()
		opts = soloist.Options{TTL: ttl, Margin: time.Duration(float64(w.plan.Margin) / float64(w.plan.TTL) * float64(ttl))}
		client = client.With(opts)
	}
	switch t.rng.upTo(8) {
	case 0:
		opts.AtLeast = ttl/4 + t.rng.span(ttl/2)
		client = client.With(opts)
	case 1:
		opts.AtMost = ttl + t.rng.span(2*ttl)
		client = client.With(opts)
	}
	var lease *soloist.Lease
	var err error
	switch t.rng.upTo(8) {
	case 0, 1, 2:
		lease, err = client.TryLock(ctx, name)
	case 3, 4, 5:
		bound, stop := context.WithTimeout(ctx, t.rng.span(2*ttl))
		defer stop()
		lease, err = client.Lock(bound, name)
	default:
		t.do(ctx, client, name, begin)
		return
	}
	if err != nil {
		t.refused(begin, record, err)
		return
	}
	at := t.took(begin, lease, record)
	if opts.AtLeast > 0 && len(w.plan.Suspends) == 0 && at >= 0 {
		w.change(at, func(e *proof.Event) { e.Linger = opts.AtLeast })
	}
	t.hold(ctx, lease, record, "", 1)
	begin = w.now()
	_ = t.given(begin, record, lease, lease.Release())
	if t.rng.chance(10) {
		_ = lease.Release()
	}
}

// anyTTL is one of several: a sixth of that of the others, or twice as long.
func (t *thread) anyTTL() time.Duration {
	ttl := t.world.plan.TTL
	return []time.Duration{ttl / 6, ttl, ttl, 2 * ttl}[t.rng.upTo(4)]
}

// force takes the lock away from the one that has it, as a person does.
func (t *thread) force(ctx context.Context, name string) {
	admin := t.client.Admin()
	for l, err := range admin.Locks(ctx) {
		if err != nil {
			return
		}
		if l.Name == name && l.Holder != "" && !t.lost() {
			t.world.add(proof.Event{Kind: proof.Forced, At: t.world.now(), Replica: t.name(), Name: "lock/" + name, Token: l.Token})
			_ = admin.Release(ctx, l, "a test")
		}
	}
}

var errOfTheUser = errors.New("the user's own")

// do is Do, with a user who sometimes gives up.
func (t *thread) do(ctx context.Context, client *soloist.Client, name string, begin time.Duration) {
	w, record := t.world, "lock/"+name
	user, cancel := context.WithCancel(ctx)
	defer cancel()
	var lease *soloist.Lease
	var ended time.Duration
	ran := 0
	err := t.heard(client.Do(user, name, func(ctx context.Context, l *soloist.Lease) error {
		ran++
		lease = l
		t.took(begin, l, record)
		if soloist.LeaseFrom(ctx) != l {
			w.violated("client", name, "the context of a function does not know its lease")
		}
		if t.rng.chance(25) {
			time.AfterFunc(t.rng.span(w.plan.TTL/2), cancel)
		}
		t.hold(ctx, l, record, "", 1)
		ended = w.now()
		if t.rng.chance(20) {
			return errOfTheUser
		}
		return nil
	}), nil)
	switch {
	case lease == nil:
		t.refused(begin, record, err)
		return
	case ran != 1:
		w.violated("client", name, "Do ran its function %d times", ran)
	case errors.Is(err, errOfTheUser) && !errors.Is(err, soloist.ErrLost) && !errors.Is(err, soloist.ErrUnknown):
		err = nil
	}
	_ = t.given(ended, record, lease, err)
}

// heard is what the user hears of a refusal. The controls make it another.
func (t *thread) heard(err, instead error) error {
	held := errors.Is(err, soloist.ErrHeld)
	if c := t.world.plan.Control; held && (c == Silent && instead == nil || c == Untrue && instead != nil) {
		return instead
	}
	return err
}

// hold acts under a lease for a while, and writes to what the lock guards.
func (t *thread) hold(ctx context.Context, lease *soloist.Lease, record, shared string, limit int) {
	w, ttl := t.world, t.world.plan.TTL
	b := t.believe(lease, record, shared, limit)
	spans := []time.Duration{ttl / 20, ttl / 20, ttl / 2, ttl, 3 * ttl}
	left := min(t.rng.span(spans[t.rng.upTo(len(spans))]), max(0, w.plan.Trouble-w.now()))
	for steps := 1 + t.rng.upTo(3); steps > 0 && ctx.Err() == nil && b.look(); steps-- {
		if shared == "" {
			t.write(ctx, lease, record)
		}
		switch t.rng.upTo(12) {
		case 0:
			_ = lease.Check(lease.Context())
		case 1, 3, 4:
			if longer := ttl/2 + t.rng.span(2*ttl); w.now()+longer < w.plan.Trouble+ttl {
				_ = lease.Extend(lease.Context(), longer)
			}
		case 2:
			t.set(lease, record, []byte(fmt.Sprint(of(lease.Holder()), " ", steps)))
		}
		wait, stop := context.WithCancel(lease.Context())
		end := context.AfterFunc(ctx, stop)
		rest(wait, left/3)
		end()
		stop()
	}
	b.look()
	b.over()
}

// set leaves a state with the name.
func (t *thread) set(lease *soloist.Lease, record string, state []byte) {
	w := t.world
	at := w.add(proof.Event{Kind: proof.Set, At: w.now(), Until: proof.Never, Replica: t.name(), Name: record, Token: lease.Token(), State: proof.StateOf(state), Result: proof.Unknown})
	err := lease.SetState(lease.Context(), state)
	if !t.lost() {
		w.change(at, func(e *proof.Event) { e.Until, e.Result = time.Since(w.begin), proof.ResultOf(err) })
	}
}

// write looks whether the lease is held and writes with its token. Between the two the process may be paused for long.
func (t *thread) write(ctx context.Context, lease *soloist.Lease, resource string) {
	w := t.world
	if t.rng.chance(8) {
		rest(ctx, min(t.rng.span(2*w.plan.TTL), max(0, w.plan.Trouble-w.now())))
	}
	if t.lost() {
		return
	}
	token := lease.Token()
	e := proof.Event{Kind: proof.Write, Replica: t.name(), Name: resource, Token: token, Result: proof.Okay}
	let := func(context.Context) error {
		e.At = w.write()
		w.add(e)
		if t.rng.chance(15) { // it takes its time, and others wait for their turn
			rest(ctx, min(t.rng.span(w.plan.TTL), max(0, w.plan.Trouble-w.now())))
		}
		return nil
	}
	var err error
	if w.plan.Control == Unfenced {
		err = let(ctx)
	} else {
		err = w.guard.Do(context.Background(), resource, token, let)
	}
	if errors.Is(err, fence.ErrStale) {
		e.At, e.Result = w.write(), proof.Stale
		w.add(e)
	}
}

// permitCount is how many permits the semaphore has. Where replicas disagree, every other one has a permit more.
const permitCount = 2

// limit is how many permits the semaphore has for a replica, and most how many it has for any.
func (r *replica) limit() (own, most int) {
	switch own = permitCount; {
	case !r.world.plan.Limits:
		return own, own
	case r.index%2 == 1:
		own++
	}
	return own, permitCount + 1
}

// permits takes permits of a semaphore.
func (t *thread) permits(ctx context.Context) {
	w := t.world
	own, _ := t.limit()
	s := t.client.Semaphore("pool", own)
	for n := 0; n < w.plan.Ops && t.busy(ctx); n++ {
		rest(ctx, t.rng.span(w.plan.TTL/2))
		t.permit(ctx, s)
	}
	rest(ctx, w.plan.Trouble-w.now()+w.plan.TTL+w.plan.TTL/5+t.rng.span(time.Millisecond))
	if ctx.Err() != nil {
		return
	}
	bound, stop := context.WithTimeout(ctx, w.plan.patience())
	defer stop()
	permit, err := s.Acquire(bound)
	if ctx.Err() != nil || t.lost() {
		return
	}
	if err != nil {
		w.violated("all is well again", "pool", "%s could not take a permit: %v", t.name(), err)
		return
	}
	_ = permit.Release()
}

func (t *thread) permit(ctx context.Context, s *soloist.Semaphore) {
	begin := t.world.now()
	var permit *soloist.Lease
	var err error
	var record string
	ctx = context.WithValue(ctx, permitKey{}, &record)
	if t.rng.chance(50) {
		permit, err = s.TryAcquire(ctx)
	} else {
		bound, stop := context.WithTimeout(ctx, t.rng.span(2*t.world.plan.TTL))
		defer stop()
		permit, err = s.Acquire(bound)
	}
	if err != nil {
		return
	}
	own, most := t.limit()
	if i, err := strconv.Atoi(record[strings.LastIndexByte(record, '/')+1:]); !t.lost() && (err != nil || i >= own) {
		t.world.violated("client", record, "%s has it as one of %d permits", t.name(), own)
	}
	t.took(begin, permit, record)
	t.hold(ctx, permit, record, "pool", most)
	begin = t.world.now()
	_ = t.given(begin, record, permit, permit.Release())
}

// permitKey is the key, in the context of a call, of the name of the record that the call is granted.
type permitKey struct{}

// tellPermit writes to the context of a call which permit it was granted, as the client says. The holder is not enough: it may have been granted others by the same request,
// which the client gives back.
func tellPermit(ctx context.Context, e soloist.Event) {
	if record, ok := ctx.Value(permitKey{}).(*string); ok && e.Kind == soloist.EventGranted {
		*record = "semaphore/" + e.Subject.Parent + "/" + e.Subject.Name
	}
}

// lead stands for leader, and again. In the end each replica must lead once more.
func (t *thread) lead(ctx context.Context) {
	const name, record = "boss", "leader/boss"
	w := t.world
	for n := 0; n < w.plan.Ops && t.busy(ctx); n++ {
		bound, stop := context.WithTimeout(ctx, t.rng.span(3*w.plan.TTL))
		begin, led := w.now(), false
		lead := t.client.Lead
		if w.plan.Control == Unled {
			lead = func(context.Context, string, func(context.Context, *soloist.Lease) error) error { return nil }
		}
		err := lead(bound, name, func(ctx context.Context, lease *soloist.Lease) error {
			t.took(begin, lease, record)
			t.hold(ctx, lease, record, "", 1)
			begin, led = w.now(), true // if it was lost, it is waited for again
			return nil
		})
		if err == nil && !led && bound.Err() == nil && !t.lost() {
			w.violated("client", record, "%s was told from %v to %v of no error, and has not led", t.name(), begin, w.now())
		}
		stop()
	}
	rest(ctx, w.plan.Trouble-w.now()+w.plan.TTL+w.plan.TTL/5+t.rng.span(time.Millisecond))
	t.lastly(ctx, record, func(ctx context.Context) (*soloist.Lease, error) { return t.client.Campaign(ctx, name) })
}
