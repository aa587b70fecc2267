package move_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// TestTokensGrowThoughTheNameWasForgotten: a name that the old store has forgotten, as Redis forgets a lock when it is
// released, has tokens in the new store that are above those that it had.
func TestTokensGrowThoughTheNameWasForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		out, err := before.Acquire(background, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute, Above: 1 << 52}}) // its clock is ahead of that of the new store
		if err != nil || out[0].Err != nil {
			t.Fatal(out, err)
		}
		leave(t, before, store.Release{Name: "x", Holder: "h", Token: out[0].Grant.Token})
		time.Sleep(time.Second)
		if n, err := before.Sweep(background, 10); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		for phase := move.OldDecides; phase <= move.NewDecides; phase++ {
			if report, err := move.Copy(background, before, after, phase, move.Options{Next: phase + 1}); err != nil || !report.Complete() {
				t.Fatal(report, err)
			}
		}
		if g := take(t, after, "x", "i"); g.Token <= out[0].Grant.Token {
			t.Errorf("the token %d comes after %d", g.Token, out[0].Grant.Token)
		}
	})
}
