package memstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// queuesFor waits in the queue of the name "a" at most for an hour.
func queuesFor(t *testing.T, s *memstore.Store, holder string, ttl time.Duration) (store.Grant, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	g, _, err := s.Queue(ctx, store.Claim{Name: "a", Holder: holder, TTL: ttl})
	return g, err
}

// releases releases the name "a".
func releases(t *testing.T, s *memstore.Store, holder string, token int64, linger time.Duration) {
	t.Helper()
	errs, err := s.Release(t.Context(), []store.Release{{Name: "a", Holder: holder, Token: token, Linger: linger}})
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

// TestACallOfQueueIsWokenByWhatComesAfterIt: what happened between two calls of a holder that stayed in the queue does
// not end the second.
func TestACallOfQueueIsWokenByWhatComesAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer s.Close()
		first, err := queuesFor(t, s, "first", 5*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for _, holder := range []string{"second", "third"} {
			if _, err := queuesFor(t, s, holder, time.Hour); !errors.Is(err, store.ErrHeld) {
				t.Fatalf("%s: %v", holder, err)
			}
		}
		releases(t, s, "first", first.Token, 0) // and the second has it for less than the third was answered
		begun := time.Now()
		if _, err := queuesFor(t, s, "third", time.Hour); !errors.Is(err, store.ErrHeld) || time.Since(begun) != time.Hour {
			t.Errorf("got %v after %v, want that the name is held, after an hour", err, time.Since(begun))
		}
	})
}

// TestAllCallsOfAHolderInTheQueueAreWoken: a holder that calls Queue twice at once is answered in both calls, with what
// is in the way now.
func TestAllCallsOfAHolderInTheQueueAreWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer s.Close()
		first, err := queuesFor(t, s, "first", 5*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		ended := make(chan error)
		for range 2 {
			go func() {
				_, err := queuesFor(t, s, "next", time.Hour)
				ended <- err
			}()
		}
		synctest.Wait()
		releases(t, s, "first", first.Token, time.Minute)
		for range 2 {
			var held *store.HeldError
			if err := <-ended; !errors.As(err, &held) || time.Since(begun) != 0 || held.Record.Holder != "" || held.Record.Left != time.Minute {
				t.Errorf("got %v after %v, want at once that the name lingers for a minute", err, time.Since(begun))
			}
		}
	})
}
