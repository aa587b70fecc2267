package move_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// A delayedStore does its first claim after a delay.
type delayedStore struct {
	store.Store
	delay time.Duration
}

func (s *delayedStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	time.Sleep(s.delay)
	s.delay = 0
	return s.Store.Acquire(ctx, claims)
}

// claimOnce claims a name for a minute, and returns the outcome.
func claimOnce(t *testing.T, s store.Store, name, holder string) store.Outcome {
	t.Helper()
	out, err := s.Acquire(background, []store.Claim{{Name: name, Holder: holder, TTL: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// TestLateClaimIsNotGranted: if the first lease of a claim has ended when the second store grants the name, a replica in the other middle phase may
// have had it meanwhile, with the same token. The claim has no grant, until one can have a greater token.
func TestLateClaimIsNotGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		ahead, err := before.Acquire(background, []store.Claim{{Name: "x", Holder: "ahead", TTL: time.Minute, Above: 1 << 55}}) // tokens count from here
		if err = errors.Join(err, ahead[0].Err); err != nil {
			t.Fatal(err)
		}
		leave(t, before, store.Release{Name: "x", Holder: "ahead", Token: ahead[0].Grant.Token, Retain: store.Forever})
		slow := in(t, before, &delayedStore{after, 2 * time.Minute}, move.NewDecides)
		outcome := make(chan store.Outcome)
		go func() { outcome <- claimOnce(t, slow, "x", "slow") }()
		time.Sleep(90 * time.Second) // its lease in the old store has ended, and the new store has not been asked
		other := in(t, before, after, move.OldDecides)
		g := take(t, other, "x", "other")
		leave(t, other, store.Release{Name: "x", Holder: "other", Token: g.Token, Retain: store.Forever})
		if out := <-outcome; !errors.Is(out.Err, store.ErrUnknown) {
			t.Errorf("granted late, after another had token %d: %+v", g.Token, out)
		}
		if out := claimOnce(t, slow, "x", "slow"); !errors.Is(out.Err, store.ErrUnknown) {
			t.Errorf("repeated, after another had token %d: %+v", g.Token, out)
		}
		time.Sleep(time.Minute)
		if out := claimOnce(t, slow, "x", "slow"); out.Err != nil || out.Grant.Token <= g.Token {
			t.Errorf("when what was granted late has ended, after token %d: %+v", g.Token, out)
		}
	})
}

// TestSlowClaimIsGrantedWhenItIsRepeated: a claim that has taken long is unknown, and its repetition has the grant if both leases are live.
func TestSlowClaimIsGrantedWhenItIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := in(t, memstore.New(), &delayedStore{memstore.New(), 40 * time.Second}, move.NewDecides)
		if out := claimOnce(t, slow, "x", "slow"); !errors.Is(out.Err, store.ErrUnknown) {
			t.Errorf("granted after 40 s of a minute: %+v", out)
		}
		if out := claimOnce(t, slow, "x", "slow"); out.Err != nil {
			t.Errorf("repeated: %+v", out)
		}
	})
}
