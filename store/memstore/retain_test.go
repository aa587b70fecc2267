package memstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// TestLastReleaseSaysHowLongToRemember: a record that was to be forgotten, and whose next holder leaves it forever, stays.
func TestLastReleaseSaysHowLongToRemember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		for _, retain := range []time.Duration{time.Minute, store.Forever} {
			out, err := s.Acquire(t.Context(), []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}})
			if err != nil || out[0].Err != nil {
				t.Fatal(out, err)
			}
			errs, err := s.Release(t.Context(), []store.Release{{Name: "x", Holder: "h", Token: out[0].Grant.Token, Retain: retain}})
			if err != nil || errs[0] != nil {
				t.Fatal(errs, err)
			}
		}
		time.Sleep(time.Hour)
		if n, err := s.Sweep(t.Context(), 10); n != 0 || err != nil {
			t.Errorf("%d forgotten, %v; want none", n, err)
		}
	})
}
