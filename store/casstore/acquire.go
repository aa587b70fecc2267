package casstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Acquire implements store.Store. A name that this process has not seen costs one request to read it and one to acquire
// it. A name that this process was the last to release costs one. With [Config].TakeFree a name that is free costs one, if the batch has no other claim of it.
func (s *Store) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	outcomes := make([]store.Outcome, len(claims))
	acquisitions := make([]*acquisition, 0, len(claims))
	for i, c := range claims {
		if outcomes[i].Err = c.Check(); outcomes[i].Err == nil {
			acquisitions = append(acquisitions, &acquisition{claim: c, outcome: &outcomes[i]})
		}
	}
	s.acquire(ctx, acquisitions)
	return outcomes, nil
}

// An acquisition is a claim that is being decided.
type acquisition struct {
	claim   store.Claim
	outcome *store.Outcome
	floored bool // it has written a record, and its next token is above a floor that was read after that
}

// acquire carries out claims. If a grant's token may be one that was forgotten, acquire reads the floor and raises the
// token above it.
func (s *Store) acquire(ctx context.Context, all []*acquisition) {
	for len(all) > 0 {
		tasks := make([]*task, len(all))
		for i, a := range all {
			tasks[i] = &task{name: a.claim.Name, guess: a.free, takes: !a.floored, below: a.claim.Mark}
			tasks[i].decide = func(seen sight) (*Record, error) { return s.grant(a, seen) }
		}
		s.run(ctx, tasks)
		var unsure []*acquisition
		var sights []sight
		for i, a := range all {
			if a.outcome.Err = tasks[i].err; a.outcome.Err != nil {
				a.outcome.Grant = store.Grant{}
				if a.floored { // it has written a record, which others may have seen: it was not refused, whatever the name is now
					a.outcome.Err = store.AsUnknown(errors.New("casstore: the token of a new record was not raised above the floor: " + tasks[i].err.Error()))
				}
				continue
			}
			r := tasks[i].seen.item.Record
			a.outcome.Grant.Token, a.outcome.Grant.Mark, a.outcome.Grant.State = r.Token, r.Mark, slices.Clone(r.State)
			if r.Unsure {
				unsure, sights = append(unsure, a), append(sights, tasks[i].seen)
			}
		}
		all = s.confirm(ctx, unsure, sights)
	}
}

// confirm reads the floor after records have been created. It returns those whose tokens may have been forgotten.
func (s *Store) confirm(ctx context.Context, unsure []*acquisition, granted []sight) (again []*acquisition) {
	if len(unsure) == 0 {
		return nil
	}
	floor, err := s.readFloor(ctx)
	for i, a := range unsure {
		switch {
		case err != nil: // the record exists: a repeated claim of the same holder settles it
			*a.outcome = store.Outcome{Err: store.AsUnknown(err)}
		case !s.sights.compare(granted[i], a.outcome.Grant.Token > floor):
			a.floored = true
			again = append(again, a)
		}
	}
	return again
}

// free reports whether a remembered item looks as if the claim could be granted. Then reading it first is not
// worthwhile: the condition of the write decides.
func (a *acquisition) free(seen sight) bool {
	return !a.floored && a.claim.Mark >= 0 && (a.claim.Mark == 0 || seen.item.Record.Mark < a.claim.Mark) && seen.left(time.Now()) == 0
}

var errLeaseEnded = errors.New("the lease ended before that")

// grant returns the record that grants the claim, nil if the holder has the lease already, or the error with which it
// is refused.
func (s *Store) grant(a *acquisition, seen sight) (*Record, error) {
	now, old, c := time.Now(), seen.item.Record, a.claim
	own := seen.liveFor(c.Holder, now)
	switch {
	case own && !(a.floored && old.Unsure && old.Token <= s.floor.Load()):
		a.outcome.Grant.ExpiredAge = 0
		return nil, nil //nolint:nilnil // nothing to write
	case own: // replace its token by one above the floor
	case a.floored: // the lease that this claim has taken is over, for its holder too: a second one would be another effect of one claim
		return nil, errLeaseEnded
	case c.Mark != 0 && old.Mark >= c.Mark:
		return nil, &store.DoneError{Record: view(seen, now, true)}
	case seen.left(now) > 0:
		return nil, &store.HeldError{Record: view(seen, now, false), Overdue: seen.overdue(now)}
	}
	record := Record{
		Holder: c.Holder, Mark: old.Mark, State: old.State, TTL: c.TTL,
		Granted: now.Round(0),
	}
	if err := s.token(&record, a, seen); err != nil {
		return nil, err
	}
	switch {
	case own:
		record.Granted = old.Granted
	case seen.item.Version != "" && !old.Released:
		a.outcome.Grant.ExpiredAge = max(1, now.Round(0).Sub(old.Granted))
	default:
		a.outcome.Grant.ExpiredAge = 0
	}
	return &record, nil
}

var errSequenced = fmt.Errorf("casstore: tokens are versions of the backend, so a claim cannot ask for one above another: %w", errors.ErrUnsupported)

// token gives a grant its token: 0 for the version that the write will have.
func (s *Store) token(r *Record, a *acquisition, seen sight) (err error) {
	old := seen.item.Record
	if s.cfg.Sequenced {
		if a.claim.Above != 0 {
			return errSequenced
		}
		return nil
	}
	r.Unsure = !a.floored && (seen.item.Version == "" || old.Unsure)
	r.Token, err = nextToken(old.Token, s.floor.Load(), a.claim.Above)
	return err
}

// view returns the record of an item for errors and lists.
func view(seen sight, now time.Time, state bool) store.Record {
	r := seen.item.Record
	rec := store.Record{Name: seen.item.Name, Token: r.Token, Mark: r.Mark, Left: seen.left(now)}
	if !r.Granted.IsZero() {
		rec.Age = max(0, now.Round(0).Sub(r.Granted))
	}
	if !r.Released {
		rec.Holder = r.Holder
	}
	if state {
		rec.State = slices.Clone(r.State)
	}
	return rec
}

// Choose implements store.Chooser: one request reads all the names, and one acquires the first that is free.
func (s *Store) Choose(ctx context.Context, names []string, c store.Claim) (int, store.Grant, error) {
	if err := s.ready(ctx); err != nil {
		return 0, store.Grant{}, err
	}
	if err := store.CheckChoice(names, c); err != nil {
		return 0, store.Grant{}, err
	}
	for range attempts {
		items, err := s.read(ctx, distinct(names))
		if err != nil {
			return 0, store.Grant{}, err
		}
		name, free, overdue, broken := s.choose(items, c.Holder)
		if broken != nil {
			return 0, store.Grant{}, broken
		}
		c.Name = name
		var outcome store.Outcome
		s.acquire(ctx, []*acquisition{{claim: c, outcome: &outcome}})
		if held, ok := outcome.Err.(*store.HeldError); ok { //nolint:errorlint // of this store itself
			if free {
				continue // another client acquired it meanwhile
			}
			held.Overdue = overdue
		}
		return slices.Index(names, name), outcome.Grant, outcome.Err
	}
	return 0, store.Grant{}, &store.HeldError{Record: store.Record{Name: names[0], Left: retryAfter}}
}

// choose returns the name that the holder has, or the first that is free, or the one that will be free first. It skips
// an item that cannot be read, and one that has no tokens left, unless there is no other. overdue is that of the first
// name that this process can find over.
func (s *Store) choose(items []Item, holder string) (name string, free bool, overdue time.Duration, broken error) {
	now, soonest, found := time.Now(), time.Duration(0), false
	for _, item := range items {
		if item.Err != nil {
			broken = item.Err
			continue
		}
		seen := s.sights.see(item)
		if seen.liveFor(holder, now) {
			return item.Name, true, 0, nil
		}
		left := seen.left(now)
		if late := seen.overdue(now); late > 0 && (overdue == 0 || late < overdue) {
			overdue = late
		}
		switch {
		case left == 0 && !s.cfg.Sequenced && item.Record.Token == math.MaxInt64:
			broken = store.ErrTokens
		case !found || left < soonest:
			name, soonest, found = item.Name, left, true
		}
	}
	if !found {
		return "", false, 0, broken
	}
	return name, soonest == 0, overdue, nil
}

// distinct returns names without repetitions.
func distinct(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	})
}
