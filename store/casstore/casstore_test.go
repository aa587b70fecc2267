package casstore_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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
	return handle{casstore.New(m, m.config()), m}
}

func harness(backend func() *memory) storetest.Harness {
	return storetest.Harness{
		Open:   func(testing.TB) store.Store { return open(backend()) },
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
	for name, backend := range map[string]func() *memory{
		"tells=false": func() *memory { return newMemory(false) },
		"tells=true":  func() *memory { return newMemory(true) },
		"takes":       newTaker,
		"sequence":    newSequence,
	} {
		t.Run(name, func(t *testing.T) {
			for _, law := range storetest.Laws() {
				t.Run(law, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						switch err := storetest.Check(t, law, harness(backend)); {
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

// TestTokensOfASequence: if tokens are versions, claims of one name in one batch know the token that the first of them got, which is that of the backend,
// and none can ask for another one.
func TestTokensOfASequence(t *testing.T) {
	m := newSequence()
	m.sequence = 41
	s := open(m)
	claims := []store.Claim{{Name: "a", Holder: "x", TTL: time.Hour}, {Name: "a", Holder: "y", TTL: time.Hour}, {Name: "a", Holder: "x", TTL: time.Hour}}
	outcomes, err := s.Acquire(background, claims)
	if err != nil {
		t.Fatal(err)
	}
	held := (*store.HeldError)(nil)
	if outcomes[0].Err != nil || outcomes[0].Grant.Token != 42 || outcomes[2].Err != nil || outcomes[2].Grant.Token != 42 ||
		!errors.As(outcomes[1].Err, &held) || held.Record.Token != 42 || held.Record.Holder != "x" {
		t.Errorf("got %+v, want the token 42 for the holder, and in the refusal", outcomes)
	}
	for r, err := range open(m).List(background, "") { // a process that has not seen the name
		if err != nil || r.Name != "a" || r.Token != 42 {
			t.Errorf("listed: %+v, %v, want the token 42", r, err)
		}
	}
	if _, err := acquire(t, s, store.Claim{Name: "b", Holder: "x", TTL: time.Hour, Above: 7}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("above another token: %v, want that it is not supported", err)
	}
}
