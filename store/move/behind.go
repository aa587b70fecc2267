package move

import (
	"context"
	"errors"
	"sync"

	"github.com/soloist-dev/soloist/store"
)

// behind are leases whose record in the shadow may lack what their holder has written: the outcome of the write is unknown, or only the store that
// decides has recorded it. What the holder asks for next brings the shadow to the same state; otherwise a replica in the other middle phase could go on from the
// one before, although a confirmed extension or release says that the write took effect.
type behind struct {
	mu sync.Mutex
	of map[leaseKey]bool
}

type leaseKey struct{ name, holder string }

func (b *behind) add(c store.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = map[leaseKey]bool{}
	}
	b.of[leaseKey{c.Name, c.Holder}] = true
}

func (b *behind) remove(c store.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.of, leaseKey{c.Name, c.Holder})
}

func (b *behind) has(c store.Claim) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[leaseKey{c.Name, c.Holder}]
}

// bring adds to confirmed alterations what the shadow may lack, as the store that decides has it: nobody else has had the name there, since the shadow's
// lease is the holder's. of are their indexes in errs. A release for which that cannot be read is left out: the shadow's lease expires, and the
// outcome is unknown.
func bring[E any](ctx context.Context, b *both, confirmed []E, of []int, a alteration[E], errs []error) ([]E, []int) {
	var reads []store.Claim
	var at []int // their indexes in confirmed
	for n, e := range confirmed {
		if c := a.lookup(e); b.behind.has(c) {
			c.TTL, c.Mark = store.MinTTL, -1
			reads, at = append(reads, c), append(at, n)
		}
	}
	if len(reads) == 0 {
		return confirmed, of
	}
	drop := map[int]bool{}
	for i, out := range claimEach(ctx, b.truth, reads) {
		n := at[i]
		var done *store.DoneError
		switch {
		case errors.As(out.Err, &done):
			confirmed[n] = a.bring(confirmed[n], done.Record.Mark, done.Record.State)
		case out.Err == nil:
			confirmed[n] = a.bring(confirmed[n], out.Grant.Mark, out.Grant.State)
		case a.ends:
			errs[of[n]], drop[n] = unrecorded(reads[i].Name, out.Err), true
		}
	}
	var kept []E
	var keptOf []int
	for n, e := range confirmed {
		if !drop[n] {
			kept, keptOf = append(kept, e), append(keptOf, of[n])
		}
	}
	return kept, keptOf
}
