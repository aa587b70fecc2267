package move

import (
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A copy that is to make the tokens of the new store the greater ones leaves none that is as great as the old one.
func TestEqualTokensAreRaised(t *testing.T) {
	for truth, want := range map[int64]bool{6: false, 7: false, 8: true} {
		p := twins{name: "x", inBoth: true, truth: store.Record{Token: truth}, shadow: store.Record{Token: 7}}
		if got := p.same(true); got != want {
			t.Errorf("with the tokens %d and 7 the name needs no copy: %t", truth, got)
		}
		if !p.same(false) {
			t.Errorf("with the tokens %d and 7, which do not matter, the name needs a copy", truth)
		}
	}
}

// Who is refused because the stores differ looks again when both are free.
func TestUndecidedLastsForTheLonger(t *testing.T) {
	for _, left := range []time.Duration{time.Second, time.Minute} {
		var held *store.HeldError
		if err := undecided(store.Record{Name: "x", Left: 30 * time.Second}, left); !errors.As(err, &held) || held.Record.Left != max(left, 30*time.Second) {
			t.Errorf("30 s are left in one store and %v in the other: %v", left, err)
		}
	}
}
