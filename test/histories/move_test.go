package histories

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

var (
	moves    = flag.Int("moves", 60, "how many random moves are judged")
	moveSeed = flag.Uint64("moves.seed", 0, "the only seed of a move to run")
)

// TestMoves: a fleet moves from one store to another one and back, one phase after the other, while replicas in neighboring phases lock names,
// requests are lost, late and unanswered, and processes die between any two requests. The history must be one that a single store could have.
func TestMoves(t *testing.T) {
	var sum proof.Verdict
	for seed := range uint64(*moves) {
		if seed++; *moveSeed != 0 && seed != *moveSeed {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			f := newMovingFleet(seed)
			f.run(t)
			v := proof.Check(proof.Moved(f.rec.history()), proof.Rules{Steps: 300_000})
			for _, found := range v.Violations {
				t.Errorf("seed %d: %v", seed, found)
			}
			sum.Add(v)
		})
		if t.Failed() {
			t.Fatalf("run it again with -moves.seed=%d", seed)
		}
	}
	t.Log(sum)
	if *moveSeed == 0 && (sum.Grants < 10**moves || sum.Unknowns < 5**moves || sum.Refusals < 5**moves || sum.Unchecked > *moves*len(movedNames)/2) {
		t.Error("too little happened, or could not be checked")
	}
}

// A movingFleet is replicas on two stores.
type movingFleet struct {
	rec      *recorder
	before   *memstore.Store
	after    *memstore.Store
	mu       sync.Mutex // of what follows
	dice     *rand.Rand
	holders  int
	late     sync.WaitGroup
	stopping chan struct{}
}

func newMovingFleet(seed uint64) *movingFleet {
	f := &movingFleet{
		rec: newRecorder(), before: memstore.New(), after: memstore.New(),
		dice: rand.New(rand.NewPCG(seed, 1)), stopping: make(chan struct{}),
	}
	if f.oneIn(2) { // the clock of one store is far ahead of the other's: its tokens are greater
		of := f.before
		if f.oneIn(2) {
			of = f.after
		}
		for _, name := range movedNames {
			out, _ := of.Acquire(context.Background(), []store.Claim{{Name: name, Holder: "ahead", TTL: time.Hour, Above: 1 << 52}})
			_, _ = of.Release(context.Background(), []store.Release{{Name: name, Holder: "ahead", Token: out[0].Grant.Token, Retain: store.Forever}})
		}
	}
	return f
}

var movedNames = []string{"a", "b", plainName}

// plainName has neither a mark nor a state, and one of the stores forgets it as soon as it is released.
const plainName = "plain"

func (f *movingFleet) n(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dice.IntN(n)
}

func (f *movingFleet) oneIn(n int) bool { return f.n(n) == 0 }

func (f *movingFleet) pause(most time.Duration) { time.Sleep(time.Duration(f.n(int(most)))) }

// travel takes some milliseconds, and now and then longer than a lease.
func (f *movingFleet) travel() {
	if f.oneIn(25) {
		f.pause(simulatedTTL * 3 / 2)
	} else {
		f.pause(4 * time.Millisecond)
	}
}

const simulatedTTL = 100 * time.Millisecond

// run moves the fleet forward, and with some seeds back.
func (f *movingFleet) run(t *testing.T) {
	const replicas = 3
	phases := []move.Phase{move.OldOnly, move.OldDecides, move.NewDecides, move.NewOnly}
	if f.oneIn(3) {
		phases = append(phases, move.NewDecides, move.OldDecides, move.OldOnly)
	}
	orders := make([]chan move.Phase, replicas)
	done := make(chan struct{}, replicas) // of each order
	var all sync.WaitGroup
	for i := range orders {
		orders[i] = make(chan move.Phase)
		all.Go(func() { f.replica(t, fmt.Sprintf("r%d", i), orders[i], done) })
	}
	var forgetting sync.WaitGroup
	forgetting.Go(f.forget)
	for i, phase := range phases {
		for _, order := range orders {
			order <- phase
			<-done
			f.pause(150 * time.Millisecond)
		}
		if i > 0 && (phase == move.OldDecides || phase == move.NewDecides) {
			f.copy(t, phase, nextOf(phases, i))
		}
		f.pause(200 * time.Millisecond)
	}
	close(f.stopping)
	forgetting.Wait()
	for _, order := range orders {
		close(order)
	}
	all.Wait()
	f.late.Wait()
}

// forget lets one of the stores forget what it may, all the time, as Redis does.
func (f *movingFleet) forget() {
	s := f.before
	if f.oneIn(2) {
		s = f.after
	}
	forgetful := &recorded{s, f.rec, "forgetful"}
	for {
		select {
		case <-f.stopping:
			return
		case <-time.After(time.Duration(1 + f.n(int(20*time.Millisecond)))):
			_, _ = forgetful.Sweep(context.Background(), 100)
		}
	}
}

// A distant store is that of the copy: each request takes a while, and so does each answer.
type distant struct {
	store.Store

	fleet *movingFleet
}

// travels makes a request of a distant store.
func travels[Q, A any](ctx context.Context, s distant, asked []Q, send func(context.Context, []Q) ([]A, error)) ([]A, error) {
	s.fleet.travel()
	answers, err := send(ctx, asked)
	s.fleet.travel()
	return answers, err
}

func (s distant) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	return travels(ctx, s, claims, s.Store.Acquire)
}

func (s distant) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	return travels(ctx, s, releases, s.Store.Release)
}

func (s distant) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	s.fleet.travel()
	return s.Store.List(ctx, prefix)
}

// A distantFiller is a distant store that can make records.
type distantFiller struct{ distant }

func (s distantFiller) Fill(ctx context.Context, fillings []store.Filling) ([]bool, error) {
	return travels(ctx, s.distant, fillings, s.Store.(store.Filler).Fill)
}

// copy copies until nothing is left to do before the next phase. With some seeds it is for both neighbors, and with some the stores can make records.
func (f *movingFleet) copy(t *testing.T, phase, next move.Phase) {
	if f.oneIn(4) {
		next = 0
	}
	fills := f.oneIn(2)
	stores := func(s *memstore.Store) store.Store {
		d := distant{s.Share(), f}
		if fills {
			return distantFiller{d}
		}
		return d
	}
	var report move.Report
	for range 10_000 {
		var err error
		report, err = move.Copy(context.Background(), stores(f.before), stores(f.after), phase, move.Options{Next: next})
		if err != nil {
			t.Fatalf("copying in the phase %v: %v", phase, err)
		}
		if report.Complete() {
			return
		}
		f.pause(20 * time.Millisecond)
	}
	t.Fatalf("copying in the phase %v is never complete: %+v", phase, report)
}

// replica runs processes in the phases that it is ordered to.
func (f *movingFleet) replica(t *testing.T, name string, orders <-chan move.Phase, done chan<- struct{}) {
	phase := <-orders
	done <- struct{}{}
	for open := true; open; {
		p := &movingProcess{fleet: f, name: name, left: 5 + f.n(200)}
		s, err := move.New(p.handle(f.before), p.handle(f.after), phase)
		if err != nil {
			t.Error(err)
			return
		}
		p.Store = &recorded{s, f.rec, name}
		died := make(chan struct{})
		var workers sync.WaitGroup
		for range 2 {
			workers.Go(func() {
				for !p.dead() {
					p.work()
				}
			})
		}
		go func() {
			workers.Wait()
			close(died)
		}()
		select {
		case <-died:
		case phase, open = <-orders: // a restart, gentle or not
			p.end()
			<-died
			if open {
				done <- struct{}{}
			}
		}
		f.pause(30 * time.Millisecond)
	}
}

// A movingProcess is a replica until it dies: its stores do nothing after that.
type movingProcess struct {
	store.Store
	fleet *movingFleet
	name  string
	mu    sync.Mutex
	left  int // requests that it makes until it dies
	at    time.Duration
	ended bool
}

func (p *movingProcess) dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

func (p *movingProcess) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.ended, p.at = true, p.fleet.rec.now()
	}
}

// request counts a request, and reports whether it is sent.
func (p *movingProcess) request() bool {
	p.mu.Lock()
	if p.left--; p.left <= 0 && !p.ended {
		p.ended, p.at = true, p.fleet.rec.now()
	}
	ended := p.ended
	p.mu.Unlock()
	return !ended
}

// work locks a name once.
func (p *movingProcess) work() {
	f, ctx := p.fleet, context.Background()
	f.pause(60 * time.Millisecond)
	f.mu.Lock()
	f.holders++
	n := f.holders
	f.mu.Unlock()
	c := store.Claim{Name: movedNames[f.n(len(movedNames))], Holder: fmt.Sprintf("%s-%d", p.name, n), TTL: simulatedTTL}
	plain := c.Name == plainName
	if !plain && f.oneIn(3) {
		c.Mark = int64(1 + f.n(n))
	}
	begin := f.rec.now()
	grant, ok := p.acquire(ctx, c)
	if !ok {
		return
	}
	belief := proof.Event{Kind: proof.Belief, Replica: p.name, Name: c.Name, Holder: c.Holder, Token: grant.Token, At: f.rec.now(), Until: begin + simulatedTTL}
	state := func() []byte {
		if plain || f.oneIn(3) {
			return nil
		}
		return []byte(c.Holder + strings.Repeat("+", f.n(3)))
	}
	for range f.n(3) {
		f.pause(simulatedTTL / 3)
		e := store.Extension{Name: c.Name, Holder: c.Holder, Token: grant.Token, TTL: simulatedTTL, State: state()}
		if !plain && f.oneIn(4) {
			e.Mark = grant.Mark + int64(f.n(3))
		}
		at := f.rec.now()
		if errs, err := p.Extend(ctx, []store.Extension{e}); err == nil && errs[0] == nil {
			belief.Until = max(belief.Until, at+simulatedTTL)
		} else if err == nil && errors.Is(errs[0], store.ErrLost) {
			belief.Until = min(belief.Until, at)
		}
	}
	abandon := f.oneIn(8)
	if !abandon {
		belief.Until = min(belief.Until, f.rec.now())
	}
	p.mu.Lock()
	if p.ended {
		belief.Until = min(belief.Until, p.at)
	}
	p.mu.Unlock()
	f.rec.add(belief)
	if abandon {
		return
	}
	r := store.Release{Name: c.Name, Holder: c.Holder, Token: grant.Token, Mark: grant.Mark + int64(f.n(2)), State: state(), Retain: store.Forever}
	if plain {
		r.Mark, r.Retain = 0, 0
	}
	if f.oneIn(6) {
		r.Linger = time.Duration(1 + f.n(int(simulatedTTL)))
	}
	for range 3 {
		if errs, err := p.Release(ctx, []store.Release{r}); p.dead() || err == nil && !errors.Is(errs[0], store.ErrUnknown) {
			return
		}
	}
}

// acquire repeats a claim as long as its outcome is unknown.
func (p *movingProcess) acquire(ctx context.Context, c store.Claim) (store.Grant, bool) {
	for range 3 {
		out, err := p.Acquire(ctx, []store.Claim{c})
		if err == nil && out[0].Err == nil {
			return out[0].Grant, !p.dead()
		}
		if p.dead() || err == nil && !errors.Is(out[0].Err, store.ErrUnknown) {
			break
		}
	}
	return store.Grant{}, false
}

// handle returns the process's handle on one of the stores.
func (p *movingProcess) handle(s *memstore.Store) store.Store { return &movingHandle{s.Share(), p} }

// A movingHandle delays requests and replies, loses them, and carries some out late. It has the verbs alone, so that nobody waits in a queue.
type movingHandle struct {
	store.Store
	process *movingProcess
}

func (h *movingHandle) Acquire(_ context.Context, claims []store.Claim) ([]store.Outcome, error) {
	return deliver(h, claims, h.Store.Acquire)
}

func (h *movingHandle) Extend(_ context.Context, extensions []store.Extension) ([]error, error) {
	return deliver(h, extensions, h.Store.Extend)
}

func (h *movingHandle) Release(_ context.Context, releases []store.Release) ([]error, error) {
	return deliver(h, releases, h.Store.Release)
}

func deliver[Q, A any](h *movingHandle, asked []Q, send func(context.Context, []Q) ([]A, error)) ([]A, error) {
	f, p, ctx := h.process.fleet, h.process, context.Background()
	f.travel()
	if !p.request() {
		if f.oneIn(2) {
			_, _ = send(ctx, asked) // its last act
		}
		return nil, store.AsUnknown(errDied)
	}
	switch f.n(30) {
	case 0:
		return nil, errNoReply // it was not sent
	case 1:
		f.late.Go(func() {
			f.travel()
			_, _ = send(ctx, asked)
		})
		f.travel()
		return nil, store.AsUnknown(errNoReply)
	}
	answers, err := send(ctx, asked)
	f.travel()
	if p.dead() || f.oneIn(20) {
		return nil, store.AsUnknown(errNoReply)
	}
	return answers, err
}
