package move

import (
	"context"
	"errors"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// behind are leases whose record in the shadow may lack what their holder has written: the outcome of the write is unknown, or only the store that
// decides has recorded it. What the holder asks for next brings the shadow to the same state; otherwise a replica in the other middle phase could go on from the
// one before, although a confirmed extension or release says that the write took effect. What another process has written is not known.
type behind struct {
	turn chan struct{} // of the one that brings the shadow what it may lack: has a value while that goes on
	*memory[struct{}]
}

// lagTime is how long a lease is remembered at least. A holder that is gone for so long, and for its TTL, has lost the lease.
const lagTime = 24 * time.Hour

func newBehind() behind {
	return behind{turn: make(chan struct{}, 1), memory: newMemory[struct{}](lagTime)}
}

func (b behind) add(c store.Claim) { b.put(c, struct{}{}) }

// A confirmed alteration is one that the store that decides has carried out.
type confirmed[E any] struct {
	what E
	of   int                   // its index in the batch
	lag  *remembered[struct{}] // of its lease, nil if that is not behind
}

// record writes confirmed alterations to the shadow. Leases that are behind come last, and one batch of them at a time: what was read for one could
// else get to the shadow after what was written later. Where the time is over before that, the outcome is unknown.
func record[E any](ctx context.Context, b *both, all []confirmed[E], a alteration[E], errs []error) {
	var plain, late []confirmed[E]
	for _, c := range all {
		if c.lag = b.behind.get(a.lookup(c.what)); c.lag == nil {
			plain = append(plain, c)
		} else {
			late = append(late, c)
		}
	}
	write(ctx, b, plain, a, errs)
	if len(late) == 0 {
		return
	}
	select {
	case b.behind.turn <- struct{}{}:
		defer func() { <-b.behind.turn }()
	case <-ctx.Done():
		for _, c := range late {
			errs[c.of] = unrecorded(a.lookup(c.what).Name, ctx.Err())
		}
		return
	}
	write(ctx, b, bring(ctx, b, late, a, errs), a, errs)
}

// bring adds to alterations of leases that are behind what the shadow may lack, as the store that decides has it: nobody else has had the name there, since
// the shadow's lease is the holder's. If that cannot be read, the outcome is unknown: then an alteration without a mark and a state is returned, so that
// the shadow's lease lives on, and another one is left out.
func bring[E any](ctx context.Context, b *both, late []confirmed[E], a alteration[E], errs []error) (all []confirmed[E]) {
	reads := make([]store.Claim, len(late))
	for i := range late {
		reads[i] = a.lookup(late[i].what)
		late[i].lag = b.behind.get(reads[i])
		reads[i].TTL, reads[i].Mark = store.MinTTL, -1
	}
	for i, out := range claimEach(ctx, b.truth, reads) {
		c := late[i]
		var done *store.DoneError
		switch {
		case errors.As(out.Err, &done):
			c.what = a.bring(c.what, done.Record.Mark, done.Record.State)
		case out.Err == nil:
			c.what = a.bring(c.what, out.Grant.Mark, out.Grant.State)
		default:
			errs[c.of] = unrecorded(reads[i].Name, out.Err)
			if a.ends || a.writes(c.what) {
				continue
			}
		}
		all = append(all, c)
	}
	return all
}

// write writes alterations to the shadow. What it may not have recorded is unknown.
func write[E any](ctx context.Context, b *both, all []confirmed[E], a alteration[E], errs []error) {
	batch := make([]E, len(all))
	for i, c := range all {
		batch[i] = c.what
	}
	for i, err := range apply(ctx, batch, a.send(b.shadow)) {
		switch c := all[i]; {
		case err != nil && a.writes(c.what):
			errs[c.of] = unrecorded(a.lookup(c.what).Name, err)
		case a.writes(c.what) && c.lag != nil:
			b.behind.settle(a.lookup(c.what), c.lag)
		}
	}
}
