package move_test

import (
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// TestRepeatedReleaseWritesNothing: a release of a lease that is released, with another state, leaves both stores as they were.
func TestRepeatedReleaseWritesNothing(t *testing.T) {
	for _, phase := range []move.Phase{move.OldDecides, move.NewDecides} {
		before, after := memstore.New(), memstore.New()
		both, err := move.New(before, after, phase)
		if err != nil {
			t.Fatal(err)
		}
		outcomes, err := both.Acquire(t.Context(), []store.Claim{{Name: "n", Holder: "h", TTL: time.Minute}})
		if err != nil || outcomes[0].Err != nil {
			t.Fatal(err, outcomes[0].Err)
		}
		for _, state := range []string{"first", "second"} {
			errs, err := both.Release(t.Context(), []store.Release{{
				Name: "n", Holder: "h", Token: outcomes[0].Grant.Token, State: []byte(state), Retain: store.Forever,
			}})
			if err != nil || errs[0] != nil {
				t.Fatal(err, errs[0])
			}
		}
		for i, s := range []store.Store{before, after} {
			var done *store.DoneError
			read, err := s.Acquire(t.Context(), []store.Claim{{Name: "n", Holder: "-", TTL: store.MinTTL, Mark: -1}})
			if err != nil || !errors.As(read[0].Err, &done) || string(done.Record.State) != "first" {
				t.Errorf("%v, store %d: %v %+v", phase, i, err, read)
			}
		}
	}
}
