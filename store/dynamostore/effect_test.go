package dynamostore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// TestExclusionByEffect: processes that add one to a plain number under a lock lose no addition.
func TestExclusionByEffect(t *testing.T) {
	const processes, each = 6, 15
	server := shared(t)
	table := fresh(t, server.Endpoint)
	number, tokens := 0, []int64(nil) // guarded by the lock alone
	var wait sync.WaitGroup
	for p := range processes {
		s := open(t, server.Endpoint, table)
		wait.Go(func() {
			for i := range each {
				claim := store.Claim{Name: "number", Holder: fmt.Sprintf("%d/%d", p, i), TTL: time.Hour}
				for {
					outcomes, err := s.Acquire(background, []store.Claim{claim})
					if err != nil {
						t.Error(err)
						return
					}
					if err = outcomes[0].Err; err == nil {
						number++
						tokens = append(tokens, outcomes[0].Grant.Token)
						errs, err := s.Release(background, []store.Release{{Name: "number", Holder: claim.Holder, Token: outcomes[0].Grant.Token, Retain: store.Forever}})
						if err := errors.Join(append(errs, err)...); err != nil {
							t.Error(err)
						}
						break
					}
					if !errors.Is(err, store.ErrHeld) {
						t.Error(err)
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
