package load_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/internal/load"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A shakyStore refuses so many claims, with an unknown outcome.
type shakyStore struct {
	*memstore.Store
	refusals int
}

var errShaky = store.AsUnknown(errors.New("the connection was cut"))

func (s *shakyStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if s.refusals > 0 {
		s.refusals--
		return nil, errShaky
	}
	return s.Store.Acquire(ctx, claims)
}

// TestCleanBeginsAgain: a request that fails does not end the removal, and one that fails forever does.
func TestCleanBeginsAgain(t *testing.T) {
	for refusals, want := range map[int]error{3: nil, 1000: errShaky} {
		synctest.Test(t, func(t *testing.T) {
			s := &shakyStore{memstore.New(), 0}
			outs, err := s.Acquire(t.Context(), []store.Claim{{Name: "@load-test/a", Holder: "x", TTL: time.Second}})
			if err != nil || outs[0].Err != nil {
				t.Fatal(outs, err)
			}
			s.refusals = refusals
			left, err := load.Clean(t.Context(), s, "load-test")
			if !errors.Is(err, want) || want == nil && left != 0 {
				t.Errorf("after %d refusals: %d left, %v, want %v", refusals, left, err, want)
			}
		})
	}
}
