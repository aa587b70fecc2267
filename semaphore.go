package soloist

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/soloist-dev/soloist/internal/rand"
	"github.com/soloist-dev/soloist/store"
)

// A Semaphore admits at most n holders at a time. Each permit is a lease with its own token, so the permit of a dead holder expires. A
// Semaphore is safe for concurrent use.
type Semaphore struct {
	client *Client
	target target
	err    error
}

// maxPermits bounds a semaphore because every refused attempt reads all of its permits.
const maxPermits = 1000

// Semaphore returns the semaphore called name with n permits, 1 to 1000. Replicas should agree on n. If they do not, each one applies its
// own limit.
func (c *Client) Semaphore(name string, n int) *Semaphore {
	s := &Semaphore{client: c, target: target{kind: KindPermit, shown: name}}
	if n < 1 || n > maxPermits {
		s.err = invalid("limit", strconv.Itoa(n), "semaphore %q must have 1 to %d permits", name, maxPermits)
		return s
	}
	if s.err = store.CheckName(name); s.err != nil {
		return s
	}
	kind := partsOf(kindSemaphore, name)
	for i := range n {
		var full string
		if full, s.err = c.names.name(kind, strconv.Itoa(i)); s.err != nil {
			return s
		}
		s.target.names = append(s.target.names, full)
	}
	s.target.name = s.target.names[0]
	return s
}

// Acquire waits until it acquires a permit, ctx ends, or Options.Wait has passed. The permit outlives ctx: the caller must release it.
func (s *Semaphore) Acquire(ctx context.Context) (*Lease, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.client.acquire(ctx, s.target, true)
}

// TryAcquire acquires a permit if one is free. Otherwise it returns a *HeldError for the permit that expires first. It waits for nothing but Options.Overdue.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Lease, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.client.acquire(ctx, s.target, false)
}

// Do runs fn while it holds a permit. Otherwise it behaves like Client.Do.
func (s *Semaphore) Do(ctx context.Context, fn func(ctx context.Context, permit *Lease) error) error {
	if s.err != nil {
		return s.err
	}
	return s.client.under(ctx, s.target, fn)
}

// choose acquires any one of names and returns which one.
func (c *Client) choose(ctx context.Context, names []string, claim store.Claim) (string, store.Outcome) {
	if chooser, ok := store.As[store.Chooser](c.store); ok && !c.noChoice.Load() {
		name, out := c.chooseAtOnce(ctx, chooser, names, claim)
		if !errors.Is(out.Err, errors.ErrUnsupported) {
			return name, out
		}
		c.noChoice.Store(true)
	}
	return c.chooseByLooking(ctx, names, claim)
}

// chooseAtOnce acquires any one of names in one request and returns which one.
func (c *Client) chooseAtOnce(ctx context.Context, chooser store.Chooser, names []string, claim store.Claim) (string, store.Outcome) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	var i int
	outs, err := observed(c.core, VerbChoose, func(ctx context.Context, names []string) ([]store.Outcome, error) {
		chosen, grant, err := chooser.Choose(ctx, names, claim)
		i = chosen
		return answered(grant, err)
	})(ctx, names)
	if err != nil {
		return names[0], store.Outcome{Err: err}
	}
	i, out := credible{c.store}.chosen(names, claim, i, outs[0])
	return names[i], out
}

// chooseByLooking reads all names, tries one that looks free, and starts again if another client was faster.
func (c *Client) chooseByLooking(ctx context.Context, names []string, claim store.Claim) (string, store.Outcome) {
	for pace := (pacer{}); ; {
		begun := time.Now()
		records, errs, err := c.peekEach(ctx, names)
		if err != nil {
			return names[0], store.Outcome{Err: err}
		}
		free, soonest := openTo(claim.Holder, records, errs)
		if len(free) == 0 {
			return c.claimHeld(ctx, names, claim, soonest)
		}
		claim.Name = free[rand.N(len(free))]
		outs, err := c.acquires.ask(ctx, []store.Claim{claim})
		if err != nil {
			return claim.Name, store.Outcome{Err: err}
		}
		if !errors.Is(outs[0].Err, ErrHeld) {
			return claim.Name, outs[0]
		}
		pace.took(ctx, time.Since(begun))
	}
}

// claimHeld claims permits that others have, of whose leases soonest ends first, in one request: in a store without a clock only a claim is told that what is in the way is
// overdue. Elsewhere, and if nobody waits for that, it claims none. If somebody has released some of them meanwhile, it keeps the first that it is granted.
func (c *Client) claimHeld(ctx context.Context, names []string, claim store.Claim, soonest store.Record) (string, store.Outcome) {
	held := &store.HeldError{Record: soonest}
	if _, clockless := store.As[store.Clockless](c.store); !clockless || c.opts.Overdue == 0 {
		return soonest.Name, store.Outcome{Err: held}
	}
	claims := make([]store.Claim, len(names))
	for i := range names {
		claims[i] = claim
		claims[i].Name = names[i]
	}
	before := c.clock.earliest()
	outs, err := c.acquires.ask(ctx, claims)
	if err != nil {
		return soonest.Name, store.Outcome{Err: err}
	}
	if i := slices.IndexFunc(outs, func(out store.Outcome) bool { return out.Err == nil }); i >= 0 {
		var more []store.Claim
		for n, out := range outs {
			if n != i && !refused(out.Err) {
				more = append(more, claims[n])
			}
		}
		c.releaseOrphans(more, before)
		return names[i], outs[i]
	}
	for i, out := range outs {
		var late *store.HeldError
		switch {
		case errors.Is(out.Err, ErrUnknown):
			return names[i], out
		case errors.As(out.Err, &late) && late.Overdue > 0 && (held.Overdue == 0 || late.Overdue < held.Overdue):
			held.Overdue = late.Overdue
		}
	}
	return soonest.Name, store.Outcome{Err: held}
}

// openTo returns the permits that a holder can acquire: the one that it has, or else all that are free. soonest is the first that is held by others.
func openTo(holder string, records []store.Record, errs []error) (free []string, soonest store.Record) {
	soonest.Left = math.MaxInt64
	for i, r := range records {
		switch {
		case errs[i] != nil: // a permit that cannot be read cannot be acquired
		case r.Free():
			free = append(free, r.Name)
		case r.Holder == holder:
			return []string{r.Name}, store.Record{}
		case r.Left < soonest.Left:
			soonest = r
		}
	}
	return free, soonest
}
