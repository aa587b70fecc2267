package casstore_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/storetest"
)

// A handle is a store with the backend that it is on.
type handle struct {
	*casstore.Store
	of *memory
}

func open(m *memory) handle {
	return handle{casstore.New(m, casstore.Config{CreateFirst: m.tells}), m}
}

func harness(tells bool) storetest.Harness {
	return storetest.Harness{
		Open:   func(testing.TB) store.Store { return open(newMemory(tells)) },
		Reopen: func(_ testing.TB, s store.Store) store.Store { return open(s.(handle).of) },
		Writes: func(_ testing.TB, s store.Store) int64 {
			m := s.(handle).of
			m.mu.Lock()
			defer m.mu.Unlock()
			return int64(m.writes)
		},
		Corrupt: func(_ testing.TB, s store.Store, name string, way int) string {
			m := s.(handle).of
			m.mu.Lock()
			defer m.mu.Unlock()
			if way > 0 {
				return ""
			}
			m.corrupt[name] = fmt.Errorf("the record of %q is not one", name)
			return "not a record"
		},
	}
}

// TestLaws keeps each law in a bubble, where waiting for a lease to end costs nothing.
func TestLaws(t *testing.T) {
	for _, tells := range []bool{false, true} {
		t.Run(fmt.Sprintf("tells=%t", tells), func(t *testing.T) {
			for _, law := range storetest.Laws() {
				t.Run(law, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						switch err := storetest.Check(t, law, harness(tells)); {
						case errors.Is(err, errors.ErrUnsupported):
							t.Skip(err)
						case err != nil:
							t.Error(err)
						}
					})
				})
			}
		})
	}
}
