package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/internal/host"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A network is the way of one replica to the store, in all its lives. It is a store, which supports of the optional interfaces what the plan says.
type network struct {
	replica *replica
	mem     atomic.Pointer[memstore.Store]
	own     atomic.Pointer[casstore.Store] // of the life, on a store without a clock; else nil

	mu       sync.Mutex
	requests int
	streams  map[stream]int // requests about each thing
	faded    Cut
	second   time.Duration // the requests of which are counted in busy
	busy     int
}

// to returns the store, by the handle of a life if it is one without a clock.
func (n *network) to(own *casstore.Store) engine {
	if own != nil {
		return own
	}
	return n.mem.Load()
}

var (
	errOnTheWay = errors.New("lost on the way")
	errRefused  = errors.New("connection refused")
	errRecord   = errors.New("the record cannot be read")
)

// storm is how many requests of one replica within a second count as a defect. Where a clock is ahead by more than is said, all times that are due by it
// within Grace may be run one after the other, with a few requests each.
func (p *Plan) storm() int {
	n := 250
	if _, allowed := p.skew(); !allowed && p.Job.Every > 0 {
		n += 4 * int(p.Job.Grace/p.Job.Every)
	}
	return n
}

// A fate is what becomes of one request.
type fate struct {
	key   string // as in Plan.Without
	kind  string // "" when it is well
	out   time.Duration
	back  time.Duration
	later time.Duration // when it arrives again, or at all
	pick  uint64
	crash *Crash

	trouble bool // it is not answered as one that is well
}

// A stream is the requests of one kind about one thing. Fates are drawn for each stream by itself: which of two threads of a replica
// is first at one instant is nobody's to say, and must not matter.
type stream struct {
	verb rune
	name string
}

// anonymous leaves out of a name what is drawn anew in each run of a seed: the name of a replica's own record.
func anonymous(name string) string {
	for _, kind := range []string{"replica/", "replica-jobs/"} {
		if before, after, found := strings.Cut(name, kind); found && (before == "" || strings.HasSuffix(before, "/")) {
			_, part, _ := strings.Cut(after, "/")
			return before + kind + part
		}
	}
	return name
}

func (s stream) seed() uint64 {
	h := uint64(14695981039346656037) ^ uint64(s.verb)
	for i := range len(s.name) {
		h = (h ^ uint64(s.name[i])) * 1099511628211
	}
	return h
}

// next draws the fate of the next request of a stream.
func (n *network) next(of stream) fate {
	of.name = anonymous(of.name)
	w, r := n.replica.world, n.replica
	n.mu.Lock()
	n.requests++
	no := n.requests
	if n.streams == nil {
		n.streams = map[stream]int{}
	}
	n.streams[of]++
	nth := n.streams[of]
	if second := w.now() / time.Second; second != n.second {
		n.second, n.busy = second, 0
	}
	n.busy++
	stormy := n.busy == w.plan.storm()
	n.mu.Unlock()
	if stormy {
		w.violated("storm", r.name(), "%d requests within a second, at %v", w.plan.storm(), w.now())
	}
	rng := seeded(w.plan.Seed^of.seed(), uint64(100+r.index), uint64(nth))
	f := fate{out: rng.span(2 * time.Millisecond), back: rng.span(2 * time.Millisecond), pick: rng.Uint64()}
	if w.healed() {
		return f
	}
	for i := range w.plan.Crashes {
		if c := &w.plan.Crashes[i]; c.Replica == r.index && c.Request == no {
			f.crash, f.key = c, fmt.Sprint("crash ", i)
			return f
		}
	}
	f.out, f.back = f.out+w.plan.Lag/2, f.back+w.plan.Lag/2
	o, ttl := w.plan.Odds, w.plan.TTL
	f.later = min(rng.span(ttl*3/2), w.plan.Trouble-w.now()) // when all is well nothing is on its way any more
	n1000 := rng.upTo(1000)
	for _, one := range [...]struct {
		kind string
		odds int
	}{{"refused", o.Refuse}, {"request lost", o.LoseRequest}, {"reply lost", o.LoseReply}, {"late", o.Late}, {"repeated", o.Repeat}, {"part", o.Part}, {"slow", o.Slow}, {"fade", o.Fade}, {"failed", o.Fail}, {"locked", o.Lock}} {
		if n1000 -= one.odds; n1000 < 0 {
			f.kind, f.key = one.kind, fmt.Sprintf("r%d %c %s#%d", r.index, of.verb, of.name, nth)
			break
		}
	}
	if f.kind == "fade" {
		f.back = ttl/20 + rng.span(ttl/7)
	}
	if f.kind == "slow" {
		f.out, f.back = rng.span(ttl/4), rng.span(ttl)
	}
	return f
}

// cut returns the cut that keeps the replica from the store now, if there is one.
func (n *network) cut() *Cut {
	w := n.replica.world
	now := w.now()
	n.mu.Lock()
	faded := n.faded
	n.mu.Unlock()
	if now >= faded.From && now < faded.To {
		same := faded // of which only these need the heap
		return &same
	}
	for i := range w.plan.Cuts {
		c := &w.plan.Cuts[i]
		if c.Replica == n.replica.index && c.From <= now && now < c.To && w.fault(fmt.Sprint("cut ", i), cutKind(c), n.replica.name()) {
			return c
		}
	}
	return nil
}

func cutKind(c *Cut) string {
	if c.Frozen {
		return "frozen"
	}
	return "cut"
}

// A verb is what all requests of one kind have in common.
type verb[Q, A any] struct {
	letter   rune
	name     func(*Q) string
	do       func(*network, context.Context, engine, []Q) ([]A, error)
	note     func(*proof.Event, *Q) // what was asked; leaves Kind "" for what is not recorded
	told     func(*proof.Event, *A) // what is told
	did      func(*proof.Event, *A) // what the store did
	unknown  func(error) A          // the answer of an element that has none
	locked   func(*Q) A             // the answer of an element whose record a transaction has locked; nil if it waits for that
	adjust   func(*replica, *Q)     // to the store's clock
	arrives  func(*proof.Event, *Q) // notes what the store sees of it that was not known when it was sent
	readjust func(*replica, *A)     // from the store's clock
}

// A call is one request with what is recorded of it.
type call[Q, A any] struct {
	*verb[Q, A]
	n     *network
	own   *casstore.Store // of the life that sends it, whichever is there when it arrives; what another life has seen is nothing that it knows
	at    int             // of the first of its events
	count int             // of them
	spot  []int           // of each element in them, -1 for none
	asked []Q
}

// carry carries a request to the store and its answer back, as its fate has it.
func (c *call[Q, A]) carry(ctx context.Context, asked []Q) (answers []A, err error) {
	n := c.n
	w, r := n.replica.world, n.replica
	if r.dead() {
		return nil, store.ErrClosed
	}
	if _, bounded := ctx.Deadline(); !bounded {
		w.violated("bounded requests", r.name(), "a request without a deadline, at %v", w.now())
	}
	c.asked, c.own = slices.Clone(asked), n.own.Load()
	f := n.next(stream{c.letter, c.name(&c.asked[0])})
	if f.kind == "part" && len(asked) < 2 || f.kind == "locked" && c.locked == nil {
		f.kind = ""
	}
	sent, cut := w.now(), (*Cut)(nil)
	defer func() {
		if cut != nil {
			r.unwell(sent)
		}
		if f.trouble || w.now()-sent > w.plan.promptly() {
			r.unwell(sent, c.names(asked)...)
		}
	}()
	if f.crash != nil && w.fault(f.key, "crash", r.name()) {
		f.trouble = true
		if f.crash.Effect {
			c.announce()
			_, _ = c.effect()
		}
		r.crash(f.crash.Again)
		return nil, store.ErrClosed
	}
	if cut = n.cut(); cut != nil {
		return c.through(ctx, cut, &f)
	}
	if f.kind != "" && !w.fault(f.key, f.kind, r.name()) {
		f.kind, f.out, f.back = "", time.Millisecond, time.Millisecond
	}
	f.trouble = f.kind != "" && f.kind != "repeated" && f.kind != "locked"
	switch f.kind {
	case "refused":
		return nil, errRefused
	case "failed":
		return c.except(ctx, &f, func(*Q) A { return c.unknown(errRecord) }, false)
	case "locked":
		return c.except(ctx, &f, c.locked, true)
	}
	c.announce()
	return c.fated(ctx, &f)
}

// except is a request of which some elements have no effect, and get another answer: the store cannot read their records, or they are locked. That is recorded if
// the replica is told what became of them.
func (c *call[Q, A]) except(ctx context.Context, f *fate, other func(*Q) A, told bool) (answers []A, err error) {
	left := func(i int) bool { return len(c.asked) == 1 || f.pick>>(i%64)&1 == 0 }
	sent := c.n.replica.world.now()
	answers = make([]A, len(c.asked))
	var rest []Q
	var at []int
	var without []proof.Event
	for i, q := range c.asked {
		if answers[i] = other(&q); !left(i) {
			rest, at = append(rest, q), append(at, i)
			continue
		}
		e := proof.Event{At: sent, Replica: c.n.replica.name()}
		c.note(&e, &q)
		if c.told(&e, &answers[i]); told && e.Kind != "" {
			without = append(without, e)
		}
	}
	if c.asked = rest; len(rest) == 0 {
		time.Sleep(f.out + f.back)
	} else {
		c.announce()
		some, err := c.fated(ctx, &fate{out: f.out, back: f.back, pick: f.pick})
		if err != nil {
			return nil, err
		}
		for i, a := range some {
			answers[at[i]] = a
		}
	}
	for i := range without {
		without[i].Until = c.n.replica.world.now()
	}
	c.n.replica.world.add(without...)
	return answers, nil
}

func (c *call[Q, A]) names(asked []Q) []string {
	names := make([]string, len(asked))
	for i := range asked {
		names[i] = c.name(&asked[i])
	}
	return names
}

// through is a request in a cut. A frozen replica's arrives, and is answered when the replica goes on; otherwise it is lost.
func (c *call[Q, A]) through(ctx context.Context, cut *Cut, f *fate) ([]A, error) {
	w := c.n.replica.world
	c.announce()
	if !cut.Frozen {
		<-ctx.Done()
		return c.lost(ctx.Err())
	}
	var answers []A
	var err error
	if f.pick%2 == 0 { // it had been sent before
		answers, err = c.effect()
	}
	time.Sleep(cut.To - w.now() + f.back)
	switch {
	case c.n.replica.dead():
		return nil, store.ErrClosed
	case f.pick%2 != 0: // it is sent now
		answers, err = c.effect()
	}
	if ctx.Err() != nil && f.pick%3 != 0 {
		return c.lost(ctx.Err())
	}
	return c.answer(answers, err)
}

// fated is a request that leaves.
func (c *call[Q, A]) fated(ctx context.Context, f *fate) ([]A, error) {
	switch f.kind {
	case "request lost":
		rest(ctx, 20*f.out)
		return c.lost(errOnTheWay)
	case "reply lost":
		time.Sleep(f.out)
		_, _ = c.effect()
		rest(ctx, 20*f.back)
		return c.lost(errOnTheWay)
	case "late":
		time.AfterFunc(f.later, func() { _, _ = c.effect() })
		rest(ctx, min(f.later, 20*f.back))
		return c.lost(errOnTheWay)
	case "slow":
		return c.slow(ctx, f)
	}
	time.Sleep(f.out)
	answers, err := c.effect()
	if f.kind == "repeated" {
		again := *c
		time.AfterFunc(f.later, func() {
			again.announceAgain()
			_, _ = again.effect()
		})
	}
	if f.kind == "fade" {
		from := c.n.replica.world.now() + f.back
		c.n.mu.Lock()
		c.n.faded = Cut{From: from + 1, To: min(from+c.n.replica.world.plan.TTL*5/4, c.n.replica.world.plan.Trouble)}
		c.n.mu.Unlock()
	}
	time.Sleep(f.back)
	switch {
	case ctx.Err() != nil && f.pick%2 == 0:
		return c.lost(ctx.Err())
	case f.kind == "part" && err == nil:
		for i := int(f.pick % uint64(len(answers))); i < len(answers); i++ {
			answers[i] = c.unknown(store.AsUnknown(errOnTheWay))
		}
	}
	return c.answer(answers, err)
}

// slow is a request whose caller may give up before it arrives, or before its answer does.
func (c *call[Q, A]) slow(ctx context.Context, f *fate) ([]A, error) {
	type result struct {
		answers []A
		err     error
	}
	done, back := make(chan result, 1), f.back
	time.AfterFunc(f.out, func() {
		answers, err := c.effect()
		time.Sleep(back)
		done <- result{answers, err}
	})
	select {
	case r := <-done:
		return c.answer(r.answers, r.err)
	case <-ctx.Done():
		return c.lost(ctx.Err())
	}
}

// announce records what is asked, before anything happens.
func (c *call[Q, A]) announce() {
	w := c.n.replica.world
	asked := proof.Event{At: w.now(), Until: proof.Never, Replica: c.n.replica.name(), Result: proof.Unknown}
	c.spot = make([]int, len(c.asked))
	w.mu.Lock()
	defer w.mu.Unlock()
	c.at = len(w.events)
	for i := range c.asked {
		next := len(w.events)
		w.events = append(w.events, asked)
		if c.note(&w.events[next], &c.asked[i]); w.events[next].Kind == "" {
			c.spot[i], w.events = -1, w.events[:next]
			continue
		}
		c.spot[i] = next - c.at
	}
	c.count = len(w.events) - c.at
}

// announceAgain records what the store sees once more. Nobody is told of it.
func (c *call[Q, A]) announceAgain() {
	w := c.n.replica.world
	w.mu.Lock()
	again := slices.Clone(w.events[c.at : c.at+c.count])
	w.mu.Unlock()
	for i := range again {
		e := &again[i]
		e.Until, e.Result, e.Took, e.Did, e.DidToken = proof.Never, proof.Unknown, 0, "", 0
		if e.Kind == proof.Acquire {
			e.Token, e.Seen, e.State = 0, 0, 0
		}
	}
	c.at = w.add(again...)
}

// effect lets the store do it.
func (c *call[Q, A]) effect() ([]A, error) {
	w, r := c.n.replica.world, c.n.replica
	asked := slices.Clone(c.asked)
	for i := range asked {
		c.adjust(r, &asked[i])
	}
	answers, err := c.do(c.n, context.Background(), c.n.to(c.own), asked)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range asked {
		if c.spot[i] >= 0 {
			e := &w.events[c.at+c.spot[i]]
			c.arrives(e, &asked[i])
			e.Took = time.Since(w.begin)
			c.did(e, &answers[i])
		}
	}
	for i := range answers {
		c.readjust(r, &answers[i])
	}
	return answers, nil
}

// lost is the end of a call that the replica has no answer to.
func (c *call[Q, A]) lost(err error) ([]A, error) {
	if c.n.replica.dead() {
		return nil, store.ErrClosed
	}
	return nil, store.AsUnknown(err)
}

// answer passes the results to the replica.
func (c *call[Q, A]) answer(answers []A, err error) ([]A, error) {
	w := c.n.replica.world
	if c.n.replica.dead() {
		return nil, store.ErrClosed
	}
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range answers {
		if c.spot[i] >= 0 {
			e := &w.events[c.at+c.spot[i]]
			e.Until = time.Since(w.begin)
			c.told(e, &answers[i])
		}
	}
	return answers, nil
}

// SimulatedHost is as in host.Guest.
func (n *network) SimulatedHost() *host.Host {
	h := &host.Host{Suspended: n.replica.suspended}
	if p := n.replica.world.plan; p.Job.Herd {
		h.GroupFrom = min(1+int(p.Seed%2), 1+len(p.More))
	}
	return h
}

var acquires = verb[store.Claim, store.Outcome]{
	letter: 'a',
	name:   nameOfClaim,
	do: func(_ *network, ctx context.Context, to engine, claims []store.Claim) ([]store.Outcome, error) {
		return to.Acquire(ctx, claims)
	},
	note: noteClaim, told: toldOutcome, did: didOutcome, unknown: unknownOutcome, adjust: adjustClaim, readjust: readjustOutcome,
	arrives: func(e *proof.Event, q *store.Claim) { e.TTL = q.TTL },
	locked: func(q *store.Claim) store.Outcome {
		return store.Outcome{Err: &store.HeldError{Record: store.Record{Name: q.Name, Left: lockedFor}}}
	},
}

// lockedFor is when a claim is to be tried again whose record a transaction has locked.
const lockedFor = 100 * time.Millisecond

// Acquire is as in store.Store.
func (n *network) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	c := call[store.Claim, store.Outcome]{verb: &acquires, n: n}
	clock := n.clock()
	outs, err := c.carry(ctx, clock.claims(claims))
	return clock.outcomes(claims, outs), err
}

var extends = verb[store.Extension, error]{
	letter: 'e',
	name:   func(q *store.Extension) string { return q.Name },
	do:     (*network).extend,
	note:   noteExtension, told: toldError, did: didError, unknown: asIs,
	adjust:   func(r *replica, q *store.Extension) { q.TTL = r.toStore(q.TTL, r.world.now()) },
	arrives:  func(e *proof.Event, q *store.Extension) { e.TTL = q.TTL },
	readjust: asTold,
}

// Extend is as in store.Store.
func (n *network) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	c := call[store.Extension, error]{verb: &extends, n: n}
	return c.carry(ctx, n.clock().extensions(extensions))
}

var releases = verb[store.Release, error]{
	letter: 'r',
	name:   func(q *store.Release) string { return q.Name },
	do:     (*network).release,
	note:   noteRelease, told: toldError, did: didError, unknown: asIs,
	adjust:   func(*replica, *store.Release) {},
	arrives:  func(*proof.Event, *store.Release) {},
	readjust: asTold,
}

// Release is as in store.Store.
func (n *network) Release(ctx context.Context, rs []store.Release) ([]error, error) {
	c := call[store.Release, error]{verb: &releases, n: n}
	return c.carry(ctx, n.clock().releases(rs))
}

func nameOfClaim(q *store.Claim) string { return q.Name }

func unknownOutcome(err error) store.Outcome { return store.Outcome{Err: err} }

func adjustClaim(r *replica, q *store.Claim) { q.TTL = r.toStore(q.TTL, r.world.now()) }

func asIs(err error) error { return err }

func asTold(*replica, *error) {}

// extend is that of the store, which under the control Stateless leaves every third state as it was.
func (n *network) extend(ctx context.Context, to engine, extensions []store.Extension) ([]error, error) {
	if n.replica.world.plan.Control == Stateless {
		extensions = slices.Clone(extensions)
		for i := range extensions {
			if extensions[i].Token%3 == 0 {
				extensions[i].State = nil
			}
		}
	}
	return to.Extend(ctx, extensions)
}

// release is as extend.
func (n *network) release(ctx context.Context, to engine, releases []store.Release) ([]error, error) {
	if n.replica.world.plan.Control == Stateless {
		releases = slices.Clone(releases)
		for i := range releases {
			if releases[i].Token%3 == 0 {
				releases[i].State = nil
			}
		}
	}
	return to.Release(ctx, releases)
}

// The notes make e the event of what is asked; what is known of its outcome stays.

func noteClaim(e *proof.Event, q *store.Claim) {
	if q.Mark >= 0 { // else it only looks
		e.Claims(*q)
		e.Holder = of(q.Holder)
	}
}

func noteExtension(e *proof.Event, q *store.Extension) {
	e.Extends(*q)
	e.Holder = of(q.Holder)
}

func noteRelease(e *proof.Event, q *store.Release) {
	e.Releases(*q)
	e.Holder = of(q.Holder)
}

func toldOutcome(e *proof.Event, out *store.Outcome) { e.Answer(*out) }

func didOutcome(e *proof.Event, out *store.Outcome) {
	e.Did, e.DidToken = proof.DecisionOf(*out)
}

func toldError(e *proof.Event, err *error) { e.Result = proof.ResultOf(*err) }

func didError(e *proof.Event, err *error) { e.Did, e.DidToken = proof.ResultOf(*err), e.Token }

// readjustOutcome turns what a store's clock has measured into what the replica's clock would have.
func readjustOutcome(r *replica, out *store.Outcome) {
	if held, ok := errors.AsType[*store.HeldError](out.Err); ok {
		held.Record.Left = time.Duration(float64(held.Record.Left) * r.rate())
	}
	out.Grant.ExpiredAge = time.Duration(float64(out.Grant.ExpiredAge) * r.rate())
}

// List is as in store.Store; it fails while the replica is cut off.
func (n *network) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	if n.replica.dead() || n.cut() != nil {
		n.replica.unwell(n.replica.world.now())
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, errOnTheWay) }
	}
	return n.to(n.own.Load()).List(ctx, prefix)
}

// Close is as in store.Store. The world closes the store.
func (n *network) Close() error { return nil }

// Watch is as in store.Watcher. Subscriptions get lost like requests.
func (n *network) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if !n.replica.world.plan.Waiter {
		return nil, errors.ErrUnsupported
	}
	if n.replica.dead() || n.cut() != nil {
		return nil, errOnTheWay
	}
	f := n.next(stream{'w', names[0]})
	if f.kind != "" && f.kind != "slow" && n.replica.world.fault(f.key, "subscription lost", n.replica.name()) {
		if f.pick%2 == 0 {
			return nil, errOnTheWay
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.later)
		time.AfterFunc(f.later, cancel)
	}
	return n.mem.Load().Watch(ctx, names)
}

// Choose is as in store.Chooser.
func (n *network) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	if !n.replica.world.plan.Chooser {
		return 0, store.Grant{}, errors.ErrUnsupported
	}
	chosen := 0
	choice := verb[store.Claim, store.Outcome]{
		letter: 'c',
		name:   func(*store.Claim) string { return names[0] },
		do: func(_ *network, ctx context.Context, to engine, claims []store.Claim) ([]store.Outcome, error) {
			i, grant, err := to.Choose(ctx, names, claims[0])
			chosen = i
			if err != nil && !errors.Is(err, store.ErrHeld) {
				return nil, err
			}
			return []store.Outcome{{Grant: grant, Err: err}}, nil
		},
		note: func(e *proof.Event, q *store.Claim) {
			noteClaim(e, q)
			e.Name = names[0]
		},
		arrives: func(e *proof.Event, q *store.Claim) { // all of it: it may have been refused before, and arrive once more
			noteClaim(e, q)
			e.Name = names[chosen]
		},
		// A choice that was refused tells nothing of one name alone, so only one that was granted is an event of its name.
		did: func(e *proof.Event, out *store.Outcome) {
			if didOutcome(e, out); e.Did != proof.Granted {
				e.Kind, e.Did = "", ""
			}
		},
		told: toldOutcome, unknown: unknownOutcome, adjust: adjustClaim, readjust: readjustOutcome,
	}
	c := call[store.Claim, store.Outcome]{verb: &choice, n: n}
	outs, err := c.carry(ctx, []store.Claim{claim})
	if err != nil {
		return 0, store.Grant{}, err
	}
	return chosen, outs[0].Grant, outs[0].Err
}
