package move

import (
	"context"
	"errors"
	"fmt"

	"github.com/soloist-dev/soloist/store"
)

// both is the store of a middle phase. Whether a name is held, and by whom, is what truth says: every replica in this phase or a neighbouring one
// asks it. A claim is granted by shadow first, which links the tokens of the two and keeps refused claims away from truth; what a holder writes
// goes to truth first, so that the shadow never knows more than truth, unless a replica in the other middle phase wrote it and died.
type both struct {
	truth, shadow store.Store
	phase         Phase
	behind        behind
	doubted       *memory[doubt]  // claims whose outcome is unknown
	released      *memory[ending] // leases whose release has been sent
}

// clockless is the store of a middle phase if one of the two has no clock.
type clockless struct{ *both }

// Clockless implements store.Clockless.
func (clockless) Clockless() {}

// Close closes both stores.
func (b *both) Close() error { return errors.Join(b.truth.Close(), b.shadow.Close()) }

// Ping implements store.Pinger: both stores must respond.
func (b *both) Ping(ctx context.Context) error {
	pinged := false
	for _, s := range []store.Store{b.truth, b.shadow} {
		p, ok := store.As[store.Pinger](s)
		if !ok {
			continue
		}
		switch err := p.Ping(ctx); {
		case err == nil:
			pinged = true
		case !errors.Is(err, errors.ErrUnsupported):
			return err
		}
	}
	if !pinged {
		return errors.ErrUnsupported
	}
	return nil
}

// Sweep implements store.Sweeper. It sweeps both stores, and returns how many records the store that decides has forgotten.
func (b *both) Sweep(ctx context.Context, limit int) (int, error) {
	n, swept, err := sweep(ctx, b.truth, limit)
	_, too, more := sweep(ctx, b.shadow, limit)
	if !swept && !too {
		return 0, errors.ErrUnsupported
	}
	return n, errors.Join(err, more)
}

// sweep reports false if the store cannot be swept.
func sweep(ctx context.Context, s store.Store, limit int) (n int, swept bool, err error) {
	sweeper, ok := store.As[store.Sweeper](s)
	if !ok {
		return 0, false, nil
	}
	if n, err = sweeper.Sweep(ctx, limit); errors.Is(err, errors.ErrUnsupported) {
		return 0, false, nil
	}
	return n, true, err
}

// Capabilities implements store.Prober: of each promise the weaker one.
func (b *both) Capabilities(ctx context.Context) (store.Capabilities, error) {
	t, err := store.CapabilitiesOf(ctx, b.truth)
	if err != nil {
		return store.Capabilities{}, err
	}
	s, err := store.CapabilitiesOf(ctx, b.shadow)
	if err != nil {
		return store.Capabilities{}, err
	}
	return store.Capabilities{
		Backend: fmt.Sprintf("a move in the phase %v: %s decides, beside %s", b.phase, t.Backend, s.Backend),
		Scope:   narrower(t.Scope, s.Scope),
		Fencing: weaker(t.Fencing, s.Fencing),
		Durable: weaker(t.Durable, s.Durable),
		Waiting: weaker(t.Waiting, s.Waiting),
	}, nil
}

// weaker returns the promise that is no, else the one that is unknown, else the first.
func weaker(a, b store.Promise) store.Promise {
	for _, answer := range []store.Answer{store.No, store.Unknown} {
		for _, p := range []store.Promise{a, b} {
			if p.Answer == answer {
				return p
			}
		}
	}
	return a
}

func narrower(a, b store.Scope) store.Scope {
	for _, scope := range []store.Scope{store.ScopeProcess, store.ScopeHost} {
		if a == scope || b == scope {
			return scope
		}
	}
	if a == "" {
		return b
	}
	return a
}
