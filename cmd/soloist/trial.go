package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/internal/records"
	"github.com/soloist-dev/soloist/store"
)

// A trial uses a store as replicas do: over several connections, at once. Each of its stores has its own connections.
type trial struct {
	first     store.Store
	open      func() (store.Store, error) // opens the same store again; nil where that would be another
	namespace string
}

const (
	trialStores = 8  // beside the first. Of two servers behind one address each new connection finds the same one with a chance of a half
	trialLives  = 10 // of leases, in each store
	trialTTL    = time.Minute
)

// findings are those of the trial.
func (t *trial) findings(ctx context.Context) []store.Finding {
	stores := []store.Store{t.first}
	for range trialStores {
		if t.open == nil {
			break
		}
		s, err := t.open()
		if err != nil {
			return []store.Finding{unusable("trial", fmt.Errorf("connecting again: %w", err))}
		}
		defer s.Close()
		stores = append(stores, s)
	}
	found := []store.Finding{t.lives(ctx, stores)}
	if len(stores) > 1 && found[0].Level != store.LevelError {
		found = append(found, t.same(ctx, stores))
	}
	if sweeper, ok := store.As[store.Sweeper](t.first); ok { // the records of the trial with what else may go
		if _, err := sweeper.Sweep(ctx, 1000); err != nil {
			found = append(found, unusable("trial", fmt.Errorf("forgetting: %w", err)))
		}
	}
	return found
}

// claim is of a name that nobody else has.
func (t *trial) claim() store.Claim {
	return store.Claim{Name: records.In(t.namespace) + "doctor/" + rand.Text(), Holder: "doctor#" + rand.Text(), TTL: trialTTL}
}

// lives goes through the lives of some leases in all stores at once. What takes its time alone fails first when there
// is much to do: so a time-out that is too short is seen.
func (t *trial) lives(ctx context.Context, stores []store.Store) store.Finding {
	var mu sync.Mutex
	var all sync.WaitGroup
	var took [3][]time.Duration
	var failed []error
	for _, s := range stores {
		all.Go(func() {
			for range trialLives {
				one, err := t.life(ctx, s)
				mu.Lock()
				if err != nil {
					failed = append(failed, err)
				} else {
					for i := range one {
						took[i] = append(took[i], one[i])
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(failed) > 0 {
		f := unusable("trial", fmt.Errorf("%d of %d lives of a lease failed, over %d connections or more at once; the first: %w",
			len(failed), len(stores)*trialLives, len(stores), failed[0]))
		f.Fix = "if only some fail, look for time-outs that are too short and for limits on connections: of the server, of the user, in the URL"
		return f
	}
	middle := func(all []time.Duration) time.Duration {
		slices.Sort(all)
		return all[len(all)/2]
	}
	longest := max(slices.Max(took[0]), slices.Max(took[1]), slices.Max(took[2]))
	f := store.Finding{Subject: "trial", Level: store.LevelOK, Found: fmt.Sprintf("of %d leases half were taken in %s, extended in %s, given back in %s; the longest of all took %s",
		len(took[0]), brief(middle(took[0])), brief(middle(took[1])), brief(middle(took[2])), brief(longest))}
	const usual = 30 * time.Second // the default TTL
	if enough := 10 * longest; enough > usual {
		f.Level, f.Fix = store.LevelWarning, fmt.Sprintf("give leases a TTL of at least %v, ten times that: they are renewed at a third of it", enough.Round(time.Second))
	}
	return f
}

// life takes, extends and gives back a lease, and returns how long each took.
func (t *trial) life(ctx context.Context, s store.Store) (took [3]time.Duration, err error) {
	claim := t.claim()
	begin := time.Now()
	lap := func(i int) { took[i], begin = time.Since(begin), time.Now() }
	token, err := take(ctx, s, claim)
	if err != nil {
		return took, fmt.Errorf("taking a lease: %w", err)
	}
	lap(0)
	errs, err := s.Extend(ctx, []store.Extension{{Name: claim.Name, Holder: claim.Holder, Token: token, TTL: claim.TTL}})
	if err = errors.Join(append(errs, err)...); err != nil {
		_ = giveBack(ctx, s, claim, token) // it would end by itself
		return took, fmt.Errorf("extending a lease: %w", err)
	}
	lap(1)
	if err := giveBack(ctx, s, claim, token); err != nil {
		return took, err
	}
	lap(2)
	return took, nil
}

func take(ctx context.Context, s store.Store, claim store.Claim) (token int64, err error) {
	outs, err := s.Acquire(ctx, []store.Claim{claim})
	if err == nil {
		err = outs[0].Err
	}
	if err != nil {
		return 0, err
	}
	return outs[0].Grant.Token, nil
}

func giveBack(ctx context.Context, s store.Store, claim store.Claim, token int64) error {
	errs, err := s.Release(ctx, []store.Release{{Name: claim.Name, Holder: claim.Holder, Token: token}})
	if err = errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("giving back a lease: %w", err)
	}
	return nil
}

// same looks whether all connections lead to the same data: what is held over one must be held over each.
func (t *trial) same(ctx context.Context, stores []store.Store) store.Finding {
	claim := t.claim()
	begin := time.Now()
	token, err := take(ctx, stores[0], claim)
	if err != nil {
		return unusable("one server", fmt.Errorf("taking a lease: %w", err))
	}
	blind := 0
	for _, s := range stores[1:] {
		other := claim
		other.Holder = "doctor#" + rand.Text()
		granted, err := take(ctx, s, other)
		var held *store.HeldError
		switch {
		case err == nil:
			blind++
			_ = giveBack(ctx, s, other, granted) // it would end by itself
		case !errors.As(err, &held):
			return unusable("one server", fmt.Errorf("asking for a lease that is held: %w", err))
		case held.Record.Token != token && held.Record.Token != 0:
			blind++
		}
	}
	late := time.Since(begin) >= trialTTL
	released := giveBack(ctx, stores[0], claim, token)
	switch {
	case late:
		return store.Finding{Subject: "one server", Found: "the store was too slow to look", Level: store.LevelUnknown}
	case blind > 0:
		f := unusable("one server", fmt.Errorf("%d of %d new connections do not know of a lease that was taken over the first: there is more than one server behind this address, each with its own data",
			blind, len(stores)-1))
		f.Fix = "let the address lead to one primary, and never to two servers at a time"
		return f
	case released != nil:
		return unusable("one server", released)
	}
	return store.Finding{Subject: "one server", Found: fmt.Sprintf("%d new connections know of a lease that was taken over the first", len(stores)-1), Level: store.LevelOK}
}

func brief(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }
