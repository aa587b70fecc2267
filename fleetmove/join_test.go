package fleetmove_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/fleetmove"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// A stuckStore does not respond to claims of the name stuck.
type stuckStore struct{ store.Store }

func (s stuckStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if claims[0].Name != "stuck" {
		return s.Store.Acquire(ctx, claims)
	}
	<-ctx.Done()
	return nil, store.AsUnknown(ctx.Err())
}

// TestClaimEndsBeforeItsAnnouncement: a claim whose caller sets no bound is not under way any more when the announcement of its replica may have ended.
func TestClaimEndsBeforeItsAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := fleetmove.Join(stuckStore{memstore.New()}, memstore.New(), move.OldOnly, "r")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		_, err = s.Acquire(ctx, []store.Claim{{Name: "stuck", Holder: "h", TTL: time.Minute}})
		if !errors.Is(err, store.ErrUnknown) || time.Since(begun) > 10*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}
