package verify

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
)

// A network is what lies between a replica's client and the store: it loses, repeats and delays.
type network struct {
	rec  *recorder
	odds map[Fault]float64 // of each kind of fault, for a call
	slow time.Duration     // the longest delay

	mu  sync.Mutex
	rng *rand.Rand

	late sync.WaitGroup // repeated requests that are still to come
}

func newNetwork(rec *recorder, o orders) *network {
	return &network{rec: rec, odds: odds(o.Faults), slow: o.TTL / 2, rng: rand.New(rand.NewPCG(o.Seed, 1))}
}

// errCut is what a client sees of a lost request or reply.
var errCut = errors.New("the connection was cut")

// strikes draws whether a fault of a kind happens now, and how long it takes if it takes any time.
func (n *network) strikes(kind Fault) (bool, time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rng.Float64() >= n.odds[kind] {
		return false, 0
	}
	return true, time.Duration(n.rng.Int64N(int64(n.slow) + 1))
}

// through makes a call with what the network does to it.
func through[Q, A any](ctx context.Context, n *network, asked []Q, do func(context.Context, []Q) ([]A, error)) ([]A, error) {
	if hit, d := n.strikes(Slow); hit {
		n.rec.fault(Slow)
		if !sleep(ctx, d) {
			return nil, store.AsUnknown(ctx.Err())
		}
	}
	if hit, _ := n.strikes(LoseRequest); hit {
		n.rec.fault(LoseRequest)
		return nil, store.AsUnknown(errCut) // the client cannot know that it was the request
	}
	if hit, d := n.strikes(Repeat); hit {
		n.rec.fault(Repeat)
		n.late.Go(func() {
			sleep(context.Background(), d)
			bound, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, _ = do(bound, asked)
		})
	}
	answers, err := do(ctx, asked)
	if hit, d := n.strikes(Slow); hit && err == nil {
		n.rec.fault(Slow)
		if !sleep(ctx, d) {
			return nil, store.AsUnknown(ctx.Err())
		}
	}
	if hit, _ := n.strikes(LoseReply); hit && err == nil {
		n.rec.fault(LoseReply)
		return nil, store.AsUnknown(errCut)
	}
	return answers, err
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A link is the store as a replica's client has it: behind the network, and with each call that reaches the store
// recorded.
type link struct {
	store.Store
	net   *network
	lines lines
}

// Unwrap is as store.As wants it: what a link does not implement, such as watching, the network does nothing to.
func (l *link) Unwrap() store.Store { return l.Store }

// recorded makes a call that reaches the store, and reports each of its elements before and after.
func recorded[Q, A any](ctx context.Context, rec *recorder, asked []Q, do func(context.Context, []Q) ([]A, error), begin func(Q) event, end func(*event, A), whole func(error) A) ([]A, error) {
	events := make([]event, len(asked))
	for i, q := range asked {
		events[i] = begin(q)
	}
	events = rec.begin(events)
	answers, err := do(ctx, asked)
	for i := range events {
		end(&events[i], at(answers, i, whole(err)))
	}
	rec.end(events)
	return answers, err
}

// Acquire is as in store.Store, behind the network.
func (l *link) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	return through(ctx, l.net, claims, func(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
		return recorded(ctx, l.net.rec, claims, l.Store.Acquire, claiming, (*event).claimed, func(err error) store.Outcome { return store.Outcome{Err: err} })
	})
}

// Extend is as in store.Store, behind the network.
func (l *link) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	return through(ctx, l.net, extensions, func(ctx context.Context, extensions []store.Extension) ([]error, error) {
		return recorded(ctx, l.net.rec, extensions, l.Store.Extend, extending, (*event).answered, same)
	})
}

// Release is as in store.Store, behind the network.
func (l *link) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	return through(ctx, l.net, releases, func(ctx context.Context, releases []store.Release) ([]error, error) {
		return recorded(ctx, l.net.rec, releases, l.Store.Release, releasing, (*event).answered, same)
	})
}

// Sweep is as in store.Sweeper. The network does nothing to it; it is recorded, as a record may be forgotten by it.
func (l *link) Sweep(ctx context.Context, limit int) (int, error) {
	sweeper, ok := store.As[store.Sweeper](l.Store)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return l.net.rec.swept(ctx, sweeper, limit)
}

func same(err error) error { return err }

// at returns the i-th answer of a batch, or what counts for all of them when the whole call failed.
func at[A any](answers []A, i int, whole A) A {
	if i < len(answers) {
		return answers[i]
	}
	return whole
}

// Choose is as in store.Chooser, behind the network.
func (l *link) Choose(ctx context.Context, names []string, claim store.Claim) (int, store.Grant, error) {
	chooser, ok := store.As[store.Chooser](l.Store)
	if !ok {
		return 0, store.Grant{}, errors.ErrUnsupported
	}
	type answer struct {
		index int
		grant store.Grant
		held  error
	}
	answers, err := through(ctx, l.net, []store.Claim{claim}, func(ctx context.Context, claims []store.Claim) ([]answer, error) {
		var events []event
		claim := claims[0] // the slice is shared with a repetition
		for _, claim.Name = range names {
			events = append(events, claiming(claim))
		}
		events = l.net.rec.begin(events)
		i, grant, err := chooser.Choose(ctx, names, claim)
		for j := range events {
			switch events[j].Result = proof.Failed; { // without effect on this one, as far as is known
			case err == nil && j == i:
				events[j].claimed(store.Outcome{Grant: grant})
			case err != nil && !errors.Is(err, store.ErrHeld):
				events[j].failed(err)
			}
		}
		l.net.rec.end(events)
		if errors.Is(err, store.ErrHeld) {
			return []answer{{i, grant, err}}, nil
		}
		return []answer{{i, grant, nil}}, err
	})
	if err != nil {
		return 0, store.Grant{}, err
	}
	return answers[0].index, answers[0].grant, answers[0].held
}
