package memstore_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/storetest"
)

func harness() storetest.Harness {
	return storetest.Harness{
		TimedTokens: true,
		Open:        func(testing.TB) store.Store { return memstore.New() },
		Reopen:      func(_ testing.TB, s store.Store) store.Store { return s.(*memstore.Store).Share() },
	}
}

// TestLaws keeps each law in a bubble, where waiting for a lease to end costs nothing.
func TestLaws(t *testing.T) {
	for _, law := range storetest.Laws() {
		t.Run(law, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				switch err := storetest.Check(t, law, harness()); {
				case errors.Is(err, errors.ErrUnsupported):
					t.Skip(err)
				case err != nil:
					t.Error(err)
				}
			})
		})
	}
}

// TestLawsInRealTime shows that the laws hold, and can be judged, without a bubble.
func TestLawsInRealTime(t *testing.T) {
	h := harness()
	h.TTL = 20 * time.Millisecond
	storetest.Run(t, h)
}
