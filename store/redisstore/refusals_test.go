package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Each claim of a batch that is refused is told who has its own name, also when several are refused alike and the script says that only once.
func TestRefusalsOfABatchAreEachTheirOwn(t *testing.T) {
	s := open(t, fresh(t, shared(t).URL))
	const names = 3
	var claims []store.Claim
	for i := range names {
		take(t, s, fmt.Sprint("name", i), fmt.Sprint("holder", i))
	}
	for round := range 3 {
		for i := range names {
			claims = append(claims, store.Claim{Name: fmt.Sprint("name", i), Holder: fmt.Sprint("late", round), TTL: time.Minute, Mark: int64(round % 2)})
		}
	}
	outs, err := s.Acquire(background, claims)
	must(t, err)
	for n, out := range outs {
		var held *store.HeldError
		if !errors.As(out.Err, &held) || held.Record.Name != claims[n].Name || held.Record.Holder != fmt.Sprint("holder", n%names) || held.Record.Left <= 0 {
			t.Errorf("claim %d, of %q: %v", n, claims[n].Name, out.Err)
		}
	}
}
