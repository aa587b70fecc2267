package move

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"
)

const (
	floorTTL   = time.Minute
	floorSweep = 1000 // how many records a sweep forgets at most
	floorTries = 100  // how many sweeps in turn may forget nothing
	floorPause = 100 * time.Millisecond
)

// raiseFloor makes the store that decides give names that are new to it tokens above those which the other one has
// given, also to names that the other has forgotten since: no list has these. A store gives a new name a token above
// all that it has forgotten. The one that decides gives the same name none below that, and forgets it: from then on its
// tokens for new names are above, too.
func raiseFloor(ctx context.Context, decides, other store.Store) error {
	name := Records + "lock/probe/" + rand.Text()
	above, err := passing(ctx, other, name, 0)
	if err != nil {
		return fmt.Errorf("move: what tokens the store that does not decide has given: %w", err)
	}
	if _, err := passing(ctx, decides, name, above-1); err != nil {
		return fmt.Errorf("move: raising the tokens of the store that decides: %w", err)
	}
	if err := forgotten(ctx, decides, name); err != nil {
		return fmt.Errorf("move: raising the tokens of the store that decides, by forgetting %q: %w", name, err)
	}
	return nil
}

// passing takes a name that is new to a store and releases it to be forgotten. It returns the token.
func passing(ctx context.Context, s store.Store, name string, above int64) (int64, error) {
	claim := store.Claim{Name: name, Holder: "move/" + rand.Text(), TTL: floorTTL, Above: above}
	outcomes, err := s.Acquire(ctx, []store.Claim{claim})
	if err == nil {
		err = outcomes[0].Err
	}
	if err != nil {
		return 0, err
	}
	token := outcomes[0].Grant.Token
	errs, err := s.Release(ctx, []store.Release{{Name: name, Holder: claim.Holder, Token: token}})
	if err == nil {
		err = errs[0]
	}
	return token, err
}

// forgotten sweeps until a name that was released is forgotten. A store that is no store.Sweeper forgets it by itself.
func forgotten(ctx context.Context, s store.Store, name string) error {
	sweeper, ok := store.As[store.Sweeper](s)
	if !ok {
		return nil
	}
	for idle := 0; ; {
		n, swept := sweeper.Sweep(ctx, floorSweep)
		there := false
		for r, err := range s.List(ctx, name) {
			if err != nil {
				return err
			}
			there = there || r.Name == name
		}
		switch {
		case !there:
			return nil
		case n > 0:
			idle = 0
			continue
		case swept != nil:
			return swept
		}
		if idle++; idle == floorTries {
			return fmt.Errorf("%d sweeps in turn have not forgotten it", idle)
		}
		if err := pause(ctx, floorPause); err != nil {
			return err
		}
	}
}
