package temporalstore_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/temporalstore"
)

// acquire claims a name once.
func acquire(t testing.TB, s store.Store, name, holder string, ttl time.Duration) store.Outcome {
	t.Helper()
	outcomes, err := s.Acquire(background, []store.Claim{{Name: name, Holder: holder, TTL: ttl}})
	if err != nil {
		t.Fatal(err)
	}
	return outcomes[0]
}

// grant claims a name that must be free.
func grant(t testing.TB, s store.Store, name, holder string, ttl time.Duration) int64 {
	t.Helper()
	outcome := acquire(t, s, name, holder, ttl)
	if outcome.Err != nil {
		t.Fatalf("acquiring %q: %v", name, outcome.Err)
	}
	return outcome.Grant.Token
}

func extend(t testing.TB, s store.Store, name, holder string, token int64) error {
	t.Helper()
	errs, err := s.Extend(background, []store.Extension{{Name: name, Holder: holder, Token: token, TTL: time.Hour}})
	return errors.Join(append(errs, err)...)
}

func release(t testing.TB, s store.Store, name, holder string, token int64, retain time.Duration) {
	t.Helper()
	errs, err := s.Release(background, []store.Release{{Name: name, Holder: holder, Token: token, Retain: retain}})
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

// TestRaces: of hundreds who want one name at once, exactly one has it, whether it is new or was released.
func TestRaces(t *testing.T) { races(t, shared(t)) }

func races(t *testing.T, c peer) {
	t.Helper()
	const processes, each = 5, 40
	cfg := fresh()
	var stores []*temporalstore.Store
	for range processes {
		stores = append(stores, on(t, c, cfg))
	}
	for round := range 2 {
		var granted atomic.Int64
		var token atomic.Int64
		var wait sync.WaitGroup
		for p := range processes * each {
			wait.Go(func() {
				outcome := acquire(t, stores[p%processes], "name", fmt.Sprintf("%d/%d", round, p), time.Hour)
				switch {
				case outcome.Err == nil:
					granted.Add(1)
					token.Store(int64(p)<<32 | outcome.Grant.Token)
				case !errors.Is(outcome.Err, store.ErrHeld):
					t.Error(outcome.Err)
				}
			})
		}
		wait.Wait()
		if granted.Load() != 1 {
			t.Fatalf("round %d: %d have the name", round, granted.Load())
		}
		p := token.Load() >> 32
		release(t, stores[p%processes], "name", fmt.Sprintf("%d/%d", round, p), token.Load()&(1<<32-1), store.Forever)
	}
}

// TestExclusionByEffect: processes that add one to a plain number under a lock lose no addition, while the history is continued as new again and again.
func TestExclusionByEffect(t *testing.T) { exclusion(t, shared(t)) }

func exclusion(t *testing.T, c peer) {
	t.Helper()
	const processes, each = 5, 25
	cfg := fresh()
	number, tokens := 0, []int64(nil) // guarded by the lock alone
	var wait sync.WaitGroup
	for p := range processes {
		s := on(t, c, cfg)
		wait.Go(func() {
			for i := range each {
				claim := store.Claim{Name: "number", Holder: fmt.Sprintf("%d/%d", p, i), TTL: time.Hour}
				for {
					outcome := acquire(t, s, claim.Name, claim.Holder, claim.TTL)
					if outcome.Err == nil {
						number++
						tokens = append(tokens, outcome.Grant.Token)
						release(t, s, claim.Name, claim.Holder, outcome.Grant.Token, store.Forever)
						break
					}
					if !errors.Is(outcome.Err, store.ErrHeld) {
						t.Error(outcome.Err)
						return
					}
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	wait.Wait()
	if number != processes*each {
		t.Errorf("counted to %d, want %d", number, processes*each)
	}
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			t.Fatalf("token %d after %d", tokens[i], tokens[i-1])
		}
	}
}
