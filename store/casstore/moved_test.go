package casstore_test

import (
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// TestMoveRaisesTheTokensOfForgottenNames: a store that counts its tokens, to which a fleet moves from one that has a
// clock and has forgotten a name, gives that name a token above those that it had.
func TestMoveRaisesTheTokensOfForgottenNames(t *testing.T) {
	before, after := memstore.New(), open(newMemory(false))
	defer after.Close()
	claim := store.Claim{Name: "a", Holder: "x", TTL: time.Hour}
	out, err := before.Acquire(background, []store.Claim{claim})
	if err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
	token := out[0].Grant.Token
	if errs, err := before.Release(background, []store.Release{{Name: "a", Holder: "x", Token: token}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	if n, err := before.Sweep(background, 1); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	report, err := move.Copy(background, before, after, move.NewDecides, move.Options{Next: move.NewOnly})
	if err != nil || !report.Complete() {
		t.Fatal(report, err)
	}
	if g, err := acquire(t, after, claim); err != nil || g.Token <= token {
		t.Errorf("the token %d after %d, %v", g.Token, token, err)
	}
}
