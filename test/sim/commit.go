package sim

import (
	"context"
	"errors"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
)

// commits reports whether what a thread does now is recorded in a transaction.
func (t *thread) commits() bool { return t.rng.chance(t.world.plan.Commits) }

// commit is a transaction of the user's that records that a run or an element is done, with effects that must be made once. It takes effect at one
// instant, or not at all; its answer may be lost.
func (t *thread) commit(lease *soloist.Lease, done proof.Event, rng *rng) error {
	w, c := t.world, lease.Completion()
	if err := c.Check(); err != nil {
		w.violated("client", done.Name, "a completion that breaks a rule: %v", err)
		return err
	}
	lost := rng.chance(15) && !w.healed()
	if lost && rng.chance(50) {
		return store.AsUnknown(errOnTheWay)
	}
	clock := t.clock(t.life)
	extension := clock.extensions([]store.Extension{{Name: c.Name, Holder: c.Holder, Token: c.Token, TTL: store.MinTTL, Mark: c.Mark, State: c.State}})[0]
	mem := t.network.mem.Load()
	outs, err := mem.Acquire(context.Background(), []store.Claim{{Name: c.Name, Holder: "-", TTL: time.Second, Mark: -1}})
	if err != nil {
		return err
	}
	var was *store.DoneError
	if errors.As(outs[0].Err, &was) && extension.Mark != 0 && was.Record.Mark >= extension.Mark {
		return was
	}
	if w.plan.Control == Unmarked {
		extension.Mark, extension.State = 0, nil
	}
	errs, err := mem.Extend(context.Background(), []store.Extension{extension})
	if err = errors.Join(err, errs[0]); err != nil {
		return err
	}
	e := proof.Event{At: w.now(), Until: w.now(), Replica: t.name(), Result: proof.Okay}
	noteExtension(&e, &extension)
	e.Took, e.Did, e.DidToken = e.At, proof.Okay, e.Token
	done.At, done.Until, done.Replica, done.Token = e.At, e.At, e.Replica, e.Token
	w.add(e, done)
	if lost {
		return store.AsUnknown(errOnTheWay)
	}
	return nil
}
