package verify

import (
	"slices"
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

// The claims of one call are one answer, and so are those of one call that had none; each replica calls for itself.
func TestCallIsOneAnswer(t *testing.T) {
	g := newGauge(900 * ms)
	claim := func(replica string, at, until time.Duration, result proof.Result) {
		g.add(event{Event: proof.Event{Kind: proof.Acquire, Replica: replica, At: at, Until: until, Result: result}})
	}
	claim("a", 0, proof.Never, proof.Unknown) // which had no answer for as long as a client waits
	claim("a", ms/2, proof.Never, proof.Unknown)
	claim("a", 300*ms, proof.Never, proof.Unknown) // another call
	for _, replica := range []string{"a", "b"} {
		for i := range 3 {
			claim(replica, 400*ms+time.Duration(i), 420*ms, proof.Granted)
		}
	}
	claim("a", 430*ms, 440*ms, proof.Granted)
	if want := []time.Duration{300 * ms, 300 * ms, 20 * ms, 20 * ms, 10 * ms}; !slices.Equal(g.took, want) {
		t.Errorf("answers took %v, want %v", g.took, want)
	}
}

// A TTL is too short if half of the answers in a window take more than a tenth of it; the next is at least twice as long, at most
// eight times, and no longer than the longest.
func TestLongerTTL(t *testing.T) {
	for name, c := range map[string]struct {
		ttl, took time.Duration
		calls     int           // of which half took that long, and the others no time
		more      int           // that took no time
		window    time.Duration // before now
		longer    time.Duration // 0 if the TTL is long enough
	}{
		"a tenth":                {time.Second, 100 * ms, leastCalls, 0, time.Minute, 0},
		"more than a tenth":      {time.Second, 106 * ms, leastCalls, 0, time.Minute, 2100 * ms},
		"a fifth":                {time.Second, 200 * ms, leastCalls, 0, time.Minute, 4 * time.Second},
		"less than half":         {time.Second, time.Second, leastCalls, 10, time.Minute, 0},
		"very long":              {time.Second, 10 * time.Second, leastCalls, 0, time.Minute, 8 * time.Second},
		"few calls":              {time.Second, 10 * time.Second, leastCalls - 1, 0, time.Minute, 0},
		"a short window":         {500 * ms, 10 * time.Second, leastCalls, 0, 0, 0},
		"a window of a few TTLs": {5 * time.Minute, time.Hour, leastCalls, 0, 20 * time.Minute, 0},
		"the longest":            {9 * time.Minute, time.Hour, leastCalls, 0, time.Hour, longestTTL},
		"the longest already":    {longestTTL, time.Hour, leastCalls, 0, time.Hour, 0},
	} {
		g := newGauge(c.ttl)
		g.since -= c.window
		if c.window == 0 {
			g.since = fleet.Now() + time.Hour // so that no machine is so slow
		}
		for i := range c.calls + c.more {
			at, took := time.Duration(i)*24*time.Hour, c.took
			if i < c.calls/2+c.more {
				took = 0
			}
			g.add(event{Event: proof.Event{Kind: proof.Acquire, Replica: "a", At: at, Until: at + took, Result: proof.Granted}})
		}
		longer, _, is := g.tooShort()
		if is != (c.longer > 0) || is && longer != c.longer {
			t.Errorf("%s: too short: %v, and %v is long enough", name, is, longer)
		}
	}
	g := newGauge(time.Second)
	before := fleet.Now() + time.Hour // so that no machine is so slow
	g.took, g.since = make([]time.Duration, leastCalls), before
	if _, _, _ = g.tooShort(); g.since != before || len(g.took) != leastCalls {
		t.Errorf("a window that is not over is measured")
	}
	before = fleet.Now()
	g.since = before - time.Minute
	if _, _, _ = g.tooShort(); g.since < before || len(g.took) != 0 {
		t.Errorf("the next window begins at %v with %d answers, where it was %v", g.since, len(g.took), before)
	}
}
