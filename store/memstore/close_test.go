package memstore_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// TestCloseEndsAWaitInTheQueue: who waits in the queue of a name by a handle that is closed does not wait for the lease of another one to end.
func TestCloseEndsAWaitInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		waiting := s.Share()
		if _, err := s.Acquire(t.Context(), []store.Claim{{Name: "a", Holder: "x", TTL: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		ended := make(chan error, 1)
		go func() {
			_, _, err := waiting.Queue(t.Context(), store.Claim{Name: "a", Holder: "y", TTL: time.Hour})
			ended <- err
		}()
		synctest.Wait()
		if err := waiting.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, store.ErrHeld) || time.Since(begun) != 0 {
			t.Errorf("got %v after %v, want that the name is held, at once", err, time.Since(begun))
		}
	})
}
