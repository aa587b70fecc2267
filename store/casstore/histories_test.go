package casstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

var (
	histories = flag.Int("casstore.histories", 300, "how many random histories are judged")
	seedFlag  = flag.Uint64("casstore.seed", 0, "the only seed to run")
)

// A faulty backend delays requests and replies, loses them, and carries requests out twice, the second time late.
type faulty struct {
	*memory
	dice  *dice
	under *sync.WaitGroup // requests that nobody waits for
}

var errCut = errors.New("cut off")

func (f *faulty) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	f.dice.delay()
	if f.dice.oneIn(20) {
		return nil, errCut
	}
	items, err := f.memory.Read(ctx, names)
	f.dice.delay()
	return items, err
}

func (f *faulty) Write(_ context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	write := func() ([]casstore.Result, error) { return f.memory.Write(context.Background(), changes) } // whatever became of the caller
	later := func() {
		f.under.Go(func() {
			f.dice.delay()
			f.dice.delay()
			_, _ = write()
		})
	}
	switch {
	case f.dice.oneIn(25):
		return nil, errCut // it is never sent
	case f.dice.oneIn(15):
		later()
		f.dice.delay()
		return nil, store.AsUnknown(errCut)
	}
	f.dice.delay()
	results, err := write()
	switch {
	case f.dice.oneIn(20):
		later()
	case f.dice.oneIn(20):
		results, err = write()
	}
	f.dice.delay()
	if f.dice.oneIn(15) {
		return nil, store.AsUnknown(errCut)
	}
	return results, err
}

// dice are drawn from a seed.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

func (d *dice) oneIn(n int) bool { return d.n(n) == 0 }

// delay takes some milliseconds, and now and then longer than a TTL.
func (d *dice) delay() {
	if d.oneIn(12) {
		time.Sleep(time.Duration(d.n(130)) * time.Millisecond)
	} else {
		time.Sleep(time.Duration(d.n(4)) * time.Millisecond)
	}
}

// A belief is a lease as its holder knows it.
type belief struct {
	holder      string
	token       int64
	asked, told time.Time // when the claim was first sent, and when its answer came
	until       time.Time // it believed to have the lease until then
}

// A log is what holders believed, by name, and what happened how often.
type log struct {
	mu      sync.Mutex
	beliefs map[string][]belief
	counts  map[string]int
}

func (l *log) count(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[what]++
}

// TestHistories: stores on one backend that delays, loses and repeats requests never let two believe in a lease at the
// same instant, and never grant a token that is not above those granted before it was asked for.
func TestHistories(t *testing.T) {
	first, n := uint64(1), *histories
	if *seedFlag != 0 {
		first, n = *seedFlag, 1
	}
	total := map[string]int{}
	for seed := range uint64(n) {
		synctest.Test(t, func(t *testing.T) {
			l := history(first + seed)
			for what, n := range l.counts {
				total[what] += n
			}
			for name, beliefs := range l.beliefs {
				if problem := judge(beliefs); problem != "" {
					t.Fatalf("seed %d, name %q: %s", first+seed, name, problem)
				}
			}
		})
	}
	t.Log(total)
	for _, what := range []string{"granted", "expired", "held", "done", "unknown", "extended", "released", "forgotten", "crashed"} {
		if n >= 100 && total[what] == 0 {
			t.Errorf("nothing was %s, so the histories show little", what)
		}
	}
}

const ttl = 100 * time.Millisecond

// history lets four processes work on two names for some seconds.
func history(seed uint64) *log {
	m := newMemory(seed%2 == 0)
	if m.takes = seed%5 < 2; seed%3 == 0 {
		m = newSequence()
	}
	l := &log{beliefs: map[string][]belief{}, counts: map[string]int{}}
	var under, workers sync.WaitGroup
	for i := range 4 {
		d := &dice{r: rand.New(rand.NewPCG(seed, uint64(i)))}
		workers.Go(func() {
			p := &process{number: i, log: l, dice: d}
			for range 40 {
				if p.Store == nil || d.oneIn(10) { // it dies, and another takes its place
					p.Store = casstore.New(&faulty{memory: m, dice: d, under: &under}, m.config())
					l.count("crashed")
				}
				p.step()
			}
		})
	}
	workers.Wait()
	under.Wait()
	return l
}

// A process takes and keeps leases.
type process struct {
	*casstore.Store
	number, attempt int
	log             *log
	dice            *dice
}

// step sweeps, or tries to take a name.
func (p *process) step() {
	ctx := context.Background()
	if p.dice.oneIn(5) {
		if n, err := p.Sweep(ctx, 10); err == nil && n > 0 {
			p.log.count("forgotten")
		}
		return
	}
	p.attempt++
	claim := store.Claim{Name: []string{"a", "b"}[p.dice.n(2)], Holder: fmt.Sprintf("%d/%d", p.number, p.attempt), TTL: ttl}
	if p.dice.oneIn(8) {
		claim.Mark = int64(p.dice.n(20)) + 1
	}
	b := belief{holder: claim.Holder, asked: time.Now()}
	for range 3 {
		outcomes, err := p.Acquire(ctx, []store.Claim{claim})
		if err == nil {
			err = outcomes[0].Err
		}
		switch {
		case err == nil:
			b.token, b.told, b.until = outcomes[0].Grant.Token, time.Now(), b.asked.Add(ttl)
			p.log.count("granted")
			if outcomes[0].Grant.ExpiredAge > 0 {
				p.log.count("expired")
			}
			p.keep(ctx, claim, &b)
			return
		case errors.Is(err, store.ErrHeld):
			p.log.count("held")
			time.Sleep(time.Duration(p.dice.n(60)) * time.Millisecond)
			return
		case errors.Is(err, store.ErrDone):
			p.log.count("done")
			return
		case errors.Is(err, store.ErrUnknown):
			p.log.count("unknown")
		}
	}
}

// keep extends the lease some times, and then releases it or leaves it to expire.
func (p *process) keep(ctx context.Context, c store.Claim, b *belief) {
	defer func() {
		p.log.mu.Lock()
		defer p.log.mu.Unlock()
		p.log.beliefs[c.Name] = append(p.log.beliefs[c.Name], *b)
	}()
	for range p.dice.n(4) {
		time.Sleep(ttl / 4)
		asked := time.Now()
		if !asked.Before(b.until) {
			return
		}
		errs, err := p.Extend(ctx, []store.Extension{{Name: c.Name, Holder: c.Holder, Token: b.token, TTL: ttl}})
		if err == nil && errs[0] == nil && time.Now().Before(b.until) {
			b.until = asked.Add(ttl)
			p.log.count("extended")
		}
	}
	if p.dice.oneIn(3) {
		return
	}
	if now := time.Now(); now.Before(b.until) {
		b.until = now
	}
	release := store.Release{Name: c.Name, Holder: c.Holder, Token: b.token, Mark: c.Mark, Retain: time.Duration(p.dice.n(2)) * ttl}
	errs, err := p.Release(ctx, []store.Release{release})
	if err == nil && errs[0] == nil {
		p.log.count("released")
	}
}

// judge returns what is wrong with what the holders of a name believed.
func judge(all []belief) string {
	for i, a := range all {
		for _, b := range all[i+1:] {
			switch {
			case a.told.Before(b.until) && b.told.Before(a.until):
				return fmt.Sprintf("two believe at once:\n%+v\n%+v", a, b)
			case a.token == b.token, a.told.Before(b.asked) && a.token > b.token, b.told.Before(a.asked) && b.token > a.token:
				return fmt.Sprintf("tokens do not grow:\n%+v\n%+v", a, b)
			}
		}
	}
	return ""
}
