package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A claiming is a claim that is being decided.
type claiming struct {
	claim   store.Claim
	first   store.Outcome // of the shadow
	outcome *store.Outcome
}

// Acquire implements store.Store. The shadow is asked first, and then the store that decides: for what the shadow has granted, with a
// token above the shadow's, and else only to read the record. Two requests, one more if the records differ, and one or two more if a claim is refused by the
// second store.
func (b *both) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outcomes, all, granted, err := b.claim(ctx, claims)
	if err != nil {
		for _, c := range claims {
			d := b.doubtOf(c)
			d.unheard = true
			b.doubted.put(c, d)
		}
		return nil, err
	}
	b.level(ctx, granted)
	for _, c := range all {
		if errors.Is(c.outcome.Err, store.ErrUnknown) {
			b.learn(c)
		} else {
			b.doubted.remove(c.claim)
		}
	}
	return outcomes, nil
}

// claim is Acquire, but for making the records of what is granted agree. It also returns the claims that are valid, and those of them that are granted.
func (b *both) claim(ctx context.Context, claims []store.Claim) (outcomes []store.Outcome, all, granted []*claiming, err error) {
	outcomes = make([]store.Outcome, len(claims))
	asked := make([]store.Claim, 0, len(claims))
	for i, c := range claims {
		if outcomes[i].Err = c.Check(); outcomes[i].Err == nil {
			all, asked = append(all, &claiming{claim: c, outcome: &outcomes[i]}), append(asked, c)
		}
	}
	begun := time.Now()
	firsts, err := b.shadow.Acquire(ctx, asked)
	if err != nil {
		return nil, nil, nil, err
	}
	var next []*claiming
	asked = nil
	for i, c := range all {
		c.first = firsts[i]
		switch {
		case c.first.Err == nil:
			c.claim.Above = max(c.claim.Above, c.first.Grant.Token)
			asked = append(asked, c.claim)
		case errors.Is(c.first.Err, store.ErrUnknown), !errors.Is(c.first.Err, store.ErrHeld) && !errors.Is(c.first.Err, store.ErrDone):
			c.outcome.Err = c.first.Err
			continue
		default:
			read := c.claim
			read.Mark, read.Above = -1, 0
			asked = append(asked, read)
		}
		next = append(next, c)
	}
	return outcomes, all, b.decide(ctx, next, asked, begun), nil
}

// decide asks the store that decides, gives back what the shadow has granted in vain, and returns the claims that both have granted. begun is when
// the shadow was asked.
func (b *both) decide(ctx context.Context, all []*claiming, asked []store.Claim, begun time.Time) (granted []*claiming) {
	seconds, err := b.truth.Acquire(ctx, asked)
	took := time.Since(begun)
	var refused []*claiming
	for i, c := range all {
		second := store.Outcome{Err: err}
		if err == nil {
			second = seconds[i]
		}
		switch {
		case c.first.Err != nil:
			c.outcome.Err = c.refusal(second)
		case second.Err == nil && !c.linked(second.Grant, took):
			c.outcome.Err = store.AsUnknown(fmt.Errorf("move: %q was granted by one store perhaps after the lease of the other one had ended", c.claim.Name))
		case second.Err == nil:
			c.outcome.Grant = second.Grant
			granted = append(granted, c)
		case errors.Is(second.Err, store.ErrUnknown):
			c.outcome.Err = second.Err
		default:
			c.outcome.Err = second.Err
			if held := (*store.HeldError)(nil); errors.As(second.Err, &held) {
				c.outcome.Err = undecided(held.Record, 0, held.Overdue)
			}
			refused = append(refused, c)
		}
	}
	b.giveBack(ctx, refused)
	return granted
}

// linked reports whether the shadow's lease was live when the store that decides granted the name. If not, a replica in the other middle phase may
// have had the name meanwhile, with a token as great as this one. Half of the TTL is enough for clocks of any two stores. A claim that was too slow may be repeated:
// the grant is the same one then, and has to be above the shadow's lease of that time.
func (c *claiming) linked(g store.Grant, took time.Duration) bool {
	return took <= c.claim.TTL/2 && g.Token > c.first.Grant.Token
}

// refusal returns why a claim is refused that the shadow has not granted. read is what the store that decides said to a claim that only reads.
func (c *claiming) refusal(read store.Outcome) error {
	var done *store.DoneError
	if !errors.As(read.Err, &done) {
		if read.Err == nil { // the holder has the lease, and the shadow has lost it
			return c.again()
		}
		return read.Err
	}
	r := done.Record
	var held *store.HeldError
	var before *store.DoneError
	if errors.As(c.first.Err, &before) {
		r = newer(r, before.Record)
	}
	overdue := time.Duration(0)
	if errors.As(c.first.Err, &held) && held.Overdue > 0 && (r.Free() || r.Holder == held.Record.Holder) { // another holder, in the store that decides, may be alive
		overdue = max(held.Overdue, r.Left)
	}
	switch {
	case c.claim.Mark != 0 && r.Mark >= c.claim.Mark:
		return &store.DoneError{Record: r}
	case r.Holder == c.claim.Holder && !r.Free():
		return c.again()
	case held != nil && !r.Free() && held.Record.Holder == r.Holder && held.Record.Token < r.Token:
		r.State = nil
		return &store.HeldError{Record: r, Overdue: overdue}
	case held != nil:
		return undecided(r, held.Record.Left, overdue)
	}
	return c.again()
}

// undecided refuses a claim of a name that different claims have in the two stores, or that only one has, or that a replica in the other middle
// phase has. Nobody can see whether there is a lease, or half of a claim that is under way, refused or given up, and what its token is. overdue is as in store.HeldError.
func undecided(r store.Record, left, overdue time.Duration) error {
	return &store.HeldError{Record: store.Record{Name: r.Name, Mark: r.Mark, Left: max(r.Left, left)}, Overdue: overdue}
}

// again is the outcome of a claim that has to be repeated before anybody can say what it has.
func (c *claiming) again() error {
	return store.AsUnknown(fmt.Errorf("move: the stores differ about %q", c.claim.Name))
}

// newer returns the record of the store that decides, with what the shadow's record has if its mark is greater.
func newer(truth, shadow store.Record) store.Record {
	if shadow.Mark > truth.Mark {
		truth.Mark, truth.State = shadow.Mark, shadow.State
	}
	return truth
}

// giveBack gives back what the shadow has granted to claims that were refused after that. A claim for which that is not confirmed is unknown.
func (b *both) giveBack(ctx context.Context, refused []*claiming) {
	halves := make([]half, len(refused))
	for i, c := range refused {
		halves[i] = b.halfOf(c.claim, c.first.Grant)
		var done *store.DoneError
		if errors.As(c.outcome.Err, &done) {
			halves[i].known, halves[i].truth = true, done.Record
		}
	}
	for i, err := range b.leave(ctx, halves) {
		if err != nil && !errors.Is(err, store.ErrLost) {
			c := refused[i]
			*c.outcome = store.Outcome{Err: store.AsUnknown(fmt.Errorf("move: %q was refused, and half of the claim not given back: %w", c.claim.Name, err))}
		}
	}
}

// level makes the two records of granted names say the same: as the store that decides has it, unless the shadow's mark is greater. A
// grant whose records could not be made to agree is unknown: the same claim, repeated, does the rest.
func (b *both) level(ctx context.Context, granted []*claiming) {
	var behind, ahead []*claiming
	for _, c := range granted {
		t, s := &c.outcome.Grant, c.first.Grant
		switch {
		case s.Mark > t.Mark:
			ahead = append(ahead, c)
		case s.Mark < t.Mark || !slices.Equal(s.State, t.State):
			behind = append(behind, c)
		}
	}
	b.write(ctx, b.shadow, behind, func(c *claiming) (int64, int64, []byte) {
		return c.first.Grant.Token, c.outcome.Grant.Mark, c.outcome.Grant.State
	})
	for _, c := range ahead {
		t, s := &c.outcome.Grant, c.first.Grant
		t.Mark, t.State, t.ExpiredAge = s.Mark, s.State, s.ExpiredAge
	}
	b.write(ctx, b.truth, ahead, func(c *claiming) (int64, int64, []byte) {
		return c.outcome.Grant.Token, c.outcome.Grant.Mark, c.outcome.Grant.State
	})
}

// write sets the mark and the state of records in one of the stores.
func (b *both) write(ctx context.Context, to store.Store, granted []*claiming, what func(*claiming) (token, mark int64, state []byte)) {
	extensions := make([]store.Extension, len(granted))
	for i, c := range granted {
		token, mark, state := what(c)
		extensions[i] = store.Extension{Name: c.claim.Name, Holder: c.claim.Holder, Token: token, TTL: store.MinTTL, Mark: mark, State: written(state)}
	}
	for i, err := range apply(ctx, extensions, to.Extend) {
		if err != nil {
			c := granted[i]
			*c.outcome = store.Outcome{Err: store.AsUnknown(fmt.Errorf("move: %q was granted, and its records could not be made to agree: %w", c.claim.Name, err))}
		}
	}
}

// written returns a state as one that replaces another.
func written(state []byte) []byte { return append([]byte{}, state...) }

// apply sends a batch, unless it is empty, and returns the error of each element.
func apply[E any](ctx context.Context, batch []E, send func(context.Context, []E) ([]error, error)) []error {
	if len(batch) == 0 {
		return nil
	}
	errs, err := send(ctx, batch)
	if err != nil {
		errs = slices.Repeat([]error{err}, len(batch))
	}
	return errs
}
