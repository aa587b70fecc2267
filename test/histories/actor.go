package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
)

// An actor makes its own requests, and keeps to no protocol: it extends what may be over, releases twice, and asks again.
type actor struct {
	s      *troubled
	id     string
	count  int
	names  []string
	ttl    func() time.Duration
	leases []held
}

// A held is a grant that the actor was told of. It may be over.
type held struct {
	claim store.Claim
	token int64
}

// keeps reports whether the marks of a name are kept forever.
func keeps(name string) bool { return strings.HasPrefix(name, "marked/") }

// requestTimeout bounds one request. It is far above what any server here takes unless it is stopped for good.
const requestTimeout = 20 * time.Second

// ttl is short enough for leases to end while their holders use them, and now and then long enough to last.
func ttl() time.Duration {
	if rand.IntN(4) == 0 {
		return time.Duration(200+rand.IntN(800)) * time.Millisecond
	}
	return time.Duration(2+rand.IntN(60)) * time.Millisecond
}

// act makes requests until the round has had enough of them.
func (a *actor) act(ctx context.Context, left *atomic.Int64) {
	for left.Add(-1) >= 0 && ctx.Err() == nil {
		bound, cancel := context.WithTimeout(ctx, requestTimeout)
		a.step(bound)
		cancel()
		if len(a.leases) > 24 {
			a.leases = a.leases[8:]
		}
	}
}

func (a *actor) step(ctx context.Context) {
	switch n := rand.IntN(100); {
	case n < 38:
		a.acquire(ctx)
	case n < 50:
		a.extend(ctx)
	case n < 80:
		a.release(ctx)
	case n < 86:
		a.choose(ctx)
	case n < 90:
		a.queue(ctx)
	case n < 94:
		a.read(ctx)
	default:
		_, _ = a.s.Sweep(ctx, 1+rand.IntN(100))
	}
}

// state returns what is left with a name: mostly nothing new. What nobody was told makes the search for an order long.
func state() []byte {
	switch rand.IntN(12) {
	case 0:
		return []byte{}
	case 1, 2:
		return fmt.Append(nil, rand.Int64())
	}
	return nil
}

func (a *actor) newHolder() string {
	a.count++
	return fmt.Sprintf("%s-%d", a.id, a.count)
}

// some returns a few different names.
func (a *actor) some(most int) (names []string) {
	for _, i := range rand.Perm(len(a.names))[:1+rand.IntN(most)] {
		names = append(names, a.names[i])
	}
	return names
}

func (a *actor) acquire(ctx context.Context) {
	var claims []store.Claim
	for _, name := range a.some(5) {
		c := store.Claim{Name: name, Holder: a.newHolder(), TTL: a.ttl()}
		if keeps(name) && rand.IntN(3) == 0 {
			c.Mark = 1 + rand.Int64N(1000)
		}
		claims = append(claims, c)
	}
	if len(a.leases) > 0 && rand.IntN(6) == 0 { // as the same holder, be it that the answer was lost or that the lease is over
		claims = append(claims, a.leases[rand.IntN(len(a.leases))].claim)
	}
	outs, err := a.s.Acquire(ctx, claims)
	for i, c := range claims {
		switch {
		case err != nil:
			if errors.Is(err, store.ErrUnknown) && rand.IntN(2) == 0 {
				a.ask(ctx, c)
			}
		case outs[i].Err == nil:
			a.leases = append(a.leases, held{c, outs[i].Grant.Token})
		}
	}
}

// ask asks again for what it may have been granted.
func (a *actor) ask(ctx context.Context, c store.Claim) {
	if outs, err := a.s.Acquire(ctx, []store.Claim{c}); err == nil && outs[0].Err == nil {
		a.leases = append(a.leases, held{c, outs[0].Grant.Token})
	}
}

// take takes a few leases out of those that it was told of.
func (a *actor) take(most int) (some []held) {
	for range min(len(a.leases), 1+rand.IntN(most)) {
		i := rand.IntN(len(a.leases))
		some = append(some, a.leases[i])
		a.leases = append(a.leases[:i], a.leases[i+1:]...)
	}
	return some
}

func (a *actor) extend(ctx context.Context) {
	some := a.take(4)
	var extensions []store.Extension
	for _, l := range some {
		e := store.Extension{Name: l.claim.Name, Holder: l.claim.Holder, Token: l.token, TTL: a.ttl(), State: state()}
		if keeps(l.claim.Name) && rand.IntN(4) == 0 {
			e.Mark = 1 + rand.Int64N(1000)
		}
		extensions = append(extensions, e)
	}
	if len(extensions) == 0 {
		return
	}
	errs, err := a.s.Extend(ctx, extensions)
	for i, l := range some {
		if err != nil || errs[i] == nil || rand.IntN(8) == 0 {
			a.leases = append(a.leases, l)
		}
	}
}

func (a *actor) release(ctx context.Context) {
	some := a.take(4)
	var releases []store.Release
	for _, l := range some {
		r := store.Release{Name: l.claim.Name, Holder: l.claim.Holder, Token: l.token, State: state()}
		if keeps(l.claim.Name) {
			r.Retain = store.Forever
			if rand.IntN(2) == 0 {
				r.Mark = 1 + rand.Int64N(1000)
			}
		}
		if rand.IntN(6) == 0 {
			r.Linger = time.Duration(1+rand.IntN(30)) * time.Millisecond
		}
		releases = append(releases, r)
	}
	if len(releases) == 0 {
		return
	}
	_, _ = a.s.Release(ctx, releases)
	if rand.IntN(8) == 0 {
		_, _ = a.s.Release(ctx, releases)
	}
}

func (a *actor) choose(ctx context.Context) {
	names := a.some(4)
	c := store.Claim{Holder: a.newHolder(), TTL: a.ttl()}
	if index, grant, err := a.s.Choose(ctx, names, c); err == nil {
		c.Name = names[index]
		a.leases = append(a.leases, held{c, grant.Token})
	}
}

// queue stands in a line for a moment.
func (a *actor) queue(ctx context.Context) {
	c := store.Claim{Name: a.some(1)[0], Holder: a.newHolder(), TTL: a.ttl()}
	bound, cancel := context.WithTimeout(ctx, time.Duration(1+rand.IntN(40))*time.Millisecond)
	defer cancel()
	grant, _, err := a.s.Queue(bound, c)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
	case err == nil:
		a.leases = append(a.leases, held{c, grant.Token})
	case rand.IntN(10) > 0: // now and then its process dies in the line
		_, _ = a.s.Leave(ctx, c.Name, c.Holder)
	}
}

// read looks at records without taking them.
func (a *actor) read(ctx context.Context) {
	var claims []store.Claim
	for _, name := range a.some(5) {
		claims = append(claims, store.Claim{Name: name, Holder: "-", TTL: store.MinTTL, Mark: -1})
	}
	_, _ = a.s.Acquire(ctx, claims)
}

// A tally says how much of each kind of work a run has had.
type tally map[string]int

// minimum is what a run must have had at least: with less it has shown nothing.
var minimum = []string{"granted", "held", "done", "lost", "extended", "released", "swept", "believed", "answer lost", "given up", "repeated"}

// add counts the events of a history.
func (t tally) add(h proof.History) {
	for _, e := range h {
		switch {
		case e.Kind == proof.Fault:
			t[e.Fault]++
		case e.Kind == proof.Swept:
			t["swept"] += int(e.Mark)
		case e.Kind == proof.Belief:
			t["believed"]++
		case e.Kind == proof.Extend && e.Result == proof.Okay:
			t["extended"]++
		case e.Kind == proof.Release && e.Result == proof.Okay:
			t["released"]++
		default:
			t[string(e.Result)]++
		}
	}
}

// lacking names what a run has not had yet.
func (t tally) lacking(wanted ...string) (lacking []string) {
	for _, what := range wanted {
		if t[what] == 0 {
			lacking = append(lacking, what)
		}
	}
	return lacking
}
