package etcdstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Choose implements store.Chooser: one request reads all the names, and one acquires the first that is free.
func (s *Store) Choose(ctx context.Context, names []string, c store.Claim) (i int, grant store.Grant, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, store.Grant{}, err
	}
	if err := store.CheckChoice(names, c); err != nil {
		return 0, store.Grant{}, err
	}
	for range attempts {
		distinct := slices.Compact(slices.Sorted(slices.Values(names)))
		pairs, err := s.read(ctx, distinct)
		if err != nil {
			return 0, store.Grant{}, err
		}
		found := make(map[string]pair, len(pairs))
		for i, name := range distinct {
			found[name] = pairs[i]
		}
		index, free, err := s.choose(names, found, c.Holder)
		if err != nil {
			return 0, store.Grant{}, err
		}
		c.Name = names[index]
		outcomes, err := s.Acquire(ctx, []store.Claim{c})
		if err != nil {
			return 0, store.Grant{}, err
		}
		if free && errors.Is(outcomes[0].Err, store.ErrHeld) {
			continue // another client acquired it meanwhile
		}
		return index, outcomes[0].Grant, outcomes[0].Err
	}
	return 0, store.Grant{}, &store.HeldError{Record: store.Record{Name: names[0], Left: retryAfter}}
}

// choose returns the name that the holder has, or the first that is free, or the one that will be free first. It skips a name that cannot be read,
// unless there is no other.
func (s *Store) choose(names []string, found map[string]pair, holder string) (index int, free bool, broken error) {
	now, soonest, index := time.Now(), time.Duration(0), -1
	for i, name := range names {
		p := found[name]
		if p.err != nil {
			broken = p.err
			continue
		}
		left := s.left(name, p, now)
		switch {
		case left > 0 && !p.record.Released && p.record.Holder == holder:
			return i, false, nil
		case left == 0 && !free:
			index, free = i, true
		case !free && (index < 0 || left < soonest):
			index, soonest = i, left
		}
	}
	if index >= 0 {
		return index, free, nil
	}
	return 0, false, broken
}
