package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// releaseTTL is the TTL of a lease of the shadow that was lost, and is acquired again for a release: long enough for two requests.
const releaseTTL = time.Second

// Extend implements store.Store: three requests. The lease is extended if the store that decides says so. An extension with a mark or a state is
// unknown if the shadow has not recorded them.
func (b *both) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	errs, _, err := alter(ctx, b, extensions, store.Extension.Check, alteration[store.Extension]{
		lookup: func(e store.Extension) store.Claim { return store.Claim{Name: e.Name, Holder: e.Holder, TTL: e.TTL} },
		writes: func(e store.Extension) bool { return e.Mark != 0 || e.State != nil },
		with:   func(e store.Extension, token int64) store.Extension { e.Token = token; return e },
		late:   func(e store.Extension) store.Extension { return e },
		bring: func(e store.Extension, mark int64, state []byte) store.Extension {
			e.Mark, e.State = mark, written(state)
			return e
		},
		send: func(s store.Store) func(context.Context, []store.Extension) ([]error, error) { return s.Extend },
	})
	return errs, err
}

// Release implements store.Store: three requests. The lease has ended when the store that decides says so; the shadow is released after that. A
// release with a mark or a state is unknown if the shadow has not recorded them.
func (b *both) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	before := b.sending(releases)
	errs, looks, err := alter(ctx, b, releases, store.Release.Check, alteration[store.Release]{
		lookup: releasing,
		writes: func(r store.Release) bool { return r.Mark != 0 || r.State != nil },
		with:   func(r store.Release, token int64) store.Release { r.Token = token; return r },
		late:   func(r store.Release) store.Release { r.Linger = 0; return r },
		bring: func(r store.Release, mark int64, state []byte) store.Release {
			r.Mark, r.State = mark, written(state)
			return r
		},
		send: func(s store.Store) func(context.Context, []store.Release) ([]error, error) { return s.Release },
		ends: true,
	})
	if err != nil {
		return nil, err
	}
	b.sent(ctx, releases, before, looks, errs)
	return errs, nil
}

// releasing returns the claim by which the shadow's lease is looked up for a release.
func releasing(r store.Release) store.Claim {
	return store.Claim{Name: r.Name, Holder: r.Holder, TTL: releaseTTL}
}

// An alteration is what Extend and Release differ in.
type alteration[E any] struct {
	lookup func(E) store.Claim      // the claim of the shadow's lease
	writes func(E) bool             // whether it has a mark or a state
	with   func(E, int64) E         // the same for the shadow, whose token is another one
	late   func(E) E                // the same, if the shadow's lease had ended: by this release, repeated, whose linger has begun
	bring  func(E, int64, []byte) E // the same with the mark and the state that the store that decides has now
	send   func(store.Store) func(context.Context, []E) ([]error, error)
	ends   bool // the lease is over after it
}

// alter changes leases in three steps. First the holder claims the shadow's lease again: it gets the one that it has, or if that was lost a new one.
// Then the store that decides is asked. What it confirms is then written to the shadow. In this order nothing old can get into the shadow: what was
// confirmed after the shadow's lease was acquired is the newest there is for as long as that lasts, since nobody else is granted the name without it.
//
// It also returns what it has seen of the shadow for each element.
func alter[E any](ctx context.Context, b *both, batch []E, check func(E) error, a alteration[E]) ([]error, []seen, error) {
	errs, looks := make([]error, len(batch)), make([]seen, len(batch))
	var valid []int
	var asked []E
	var claims []store.Claim
	for i, e := range batch {
		if errs[i] = check(e); errs[i] == nil {
			valid, asked, claims = append(valid, i), append(asked, e), append(claims, a.lookup(e))
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	shadows, ended := b.lookup(ctx, claims)
	decided, err := a.send(b.truth)(ctx, asked)
	if err != nil {
		for n, e := range asked {
			if a.writes(e) {
				b.behind.add(claims[n])
			}
		}
		return nil, nil, err
	}
	var done []confirmed[E]
	var halves []half
	var given []int // their indexes in asked
	for n, i := range valid {
		errs[i] = decided[n]
		shadow := shadows[n]
		looks[i] = seen{ended[n].token, shadow.Grant.Token}
		if !ended[n].is {
			looks[i].before = shadow.Grant.Token
		}
		switch {
		case decided[n] == nil && shadow.Err == nil:
			e := a.with(asked[n], shadow.Grant.Token)
			if a.ends && ended[n].is {
				e = a.late(e)
				b.behind.add(claims[n]) // this release may be a repeated one, of which the store that decides wrote nothing
			}
			done = append(done, confirmed[E]{what: e, of: i})
		case decided[n] == nil && a.writes(asked[n]) && !(a.ends && lingers(shadow.Err)):
			errs[i] = unrecorded(claims[n].Name, shadow.Err)
		case shadow.Err == nil && errors.Is(decided[n], store.ErrLost) && !errors.Is(decided[n], store.ErrUnknown):
			h := b.halfOf(claims[n], shadow.Grant)
			if b.doubted.get(claims[n]) == nil { // the holder has had the lease
				h.unreleased = h.unreleased || !ended[n].is
			}
			halves, given = append(halves, h), append(given, n)
		case a.ends && errors.Is(decided[n], store.ErrLost) && a.writes(asked[n]) && errors.Is(shadow.Err, store.ErrUnknown):
			errs[i] = unrecorded(claims[n].Name, shadow.Err) // an earlier request may have written it to the store that decides alone
		}
	}
	record(ctx, b, done, a, errs)
	for n, err := range b.leave(ctx, halves) { // else they expire
		if err != nil && !errors.Is(err, errWhole) && a.ends && a.writes(asked[given[n]]) {
			errs[valid[given[n]]] = unrecorded(halves[n].name, err)
		}
	}
	for n, i := range valid {
		switch {
		case errors.Is(errs[i], store.ErrUnknown) && a.writes(asked[n]):
			b.behind.add(claims[n])
		case errors.Is(errs[i], store.ErrLost), errs[i] == nil && a.ends:
			b.behind.remove(claims[n])
		}
	}
	return errs, looks, nil
}

// An end is what was found out of a lease of the shadow that had ended before its holder claimed it again.
type end struct {
	is    bool
	token int64 // of the last grant before that
}

// lookup claims leases of the shadow for their holders, and returns which of them had ended before. It has half of the time that is left, so
// that a shadow which does not respond does not keep leases from being renewed.
func (b *both) lookup(ctx context.Context, claims []store.Claim) (outcomes []store.Outcome, ended []end) {
	if deadline, ok := ctx.Deadline(); ok {
		half, cancel := context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
		ctx = half
	}
	ended = make([]end, len(claims))
	reads := slices.Clone(claims)
	for i := range reads {
		reads[i].Mark = -1
	}
	outcomes = claimEach(ctx, b.shadow, reads)
	var again []store.Claim
	for i, out := range outcomes {
		if done := (*store.DoneError)(nil); errors.As(out.Err, &done) {
			ended[i] = end{true, done.Record.Token}
			again = append(again, claims[i])
		}
	}
	if len(again) == 0 {
		return outcomes, ended
	}
	claimed := claimEach(ctx, b.shadow, again)
	for i := range outcomes {
		if ended[i].is {
			outcomes[i], claimed = claimed[0], claimed[1:]
		}
	}
	return outcomes, ended
}

// claimEach claims, and makes the error of the whole batch one of each claim.
func claimEach(ctx context.Context, s store.Store, claims []store.Claim) []store.Outcome {
	outcomes, err := s.Acquire(ctx, claims)
	if err != nil {
		outcomes = slices.Repeat([]store.Outcome{{Err: err}}, len(claims))
	}
	return outcomes
}

// lingers reports whether a claim of the shadow was refused because the name was released and lingers: then it was this release, repeated.
func lingers(err error) bool {
	var held *store.HeldError
	return errors.As(err, &held) && held.Record.Holder == "" && held.Record.Token != 0
}

// unrecorded is the error of what the store that decides has recorded, and the shadow perhaps not.
func unrecorded(name string, err error) error {
	if errors.Is(err, store.ErrUnknown) {
		return fmt.Errorf("move: only one store has recorded what was written to %q: %w", name, err)
	}
	return fmt.Errorf("%w: move: only one store has recorded what was written to %q: %v", store.ErrUnknown, name, err) //nolint:errorlint // not ErrLost or ErrHeld
}
