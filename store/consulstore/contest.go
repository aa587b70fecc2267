package consulstore

import (
	"context"

	"github.com/soloist-dev/soloist/store"
)

// Acquire implements store.Store. Those who wait for a name learn from it whether they have won it.
func (s *Store) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outcomes, err := s.Store.Acquire(ctx, claims)
	s.watches.contests.Acquired(claims, outcomes)
	return outcomes, err
}

// Choose implements store.Chooser.
func (s *Store) Choose(ctx context.Context, names []string, c store.Claim) (int, store.Grant, error) {
	i, grant, err := s.Store.Choose(ctx, names, c)
	s.watches.contests.Chosen(names, i, err)
	return i, grant, err
}
