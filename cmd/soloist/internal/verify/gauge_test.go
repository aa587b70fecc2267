package verify

import (
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
)

// A store that becomes slow is noticed, however long it was fast before: each window is measured alone.
func TestGaugeMeasuresEachWindowAlone(t *testing.T) {
	g := newGauge(time.Second)
	window := func(claims int, took time.Duration) (longer, median time.Duration, is bool) {
		begin := fleet.Now()
		for i := range claims {
			at := begin + time.Duration(i)*took
			g.add(event{Event: proof.Event{Kind: proof.Acquire, Replica: "a", At: at, Until: at + took, Result: proof.Granted}})
		}
		g.since -= time.Minute // as if the window had lasted so long
		return g.tooShort()
	}
	if _, median, is := window(10*leastCalls, 5*ms); is || median != 5*ms {
		t.Errorf("a fast store: a median of %v, too short: %v", median, is)
	}
	if longer, median, is := window(leastCalls, 300*ms); !is || median != 300*ms || longer != 6*time.Second {
		t.Errorf("once it is slow: a median of %v, too short: %v, longer: %v", median, is, longer)
	}
	if _, _, is := g.tooShort(); is {
		t.Error("a window without a claim says that the TTL is too short")
	}
}
