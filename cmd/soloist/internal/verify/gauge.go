package verify

import (
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
)

// A gauge measures how long the store takes to answer claims, in one window after the other. A median over several TTLs
// is not moved by a server that is away for one.
type gauge struct {
	ttl   time.Duration
	since time.Duration
	took  []time.Duration
	last  map[string]event // by replica: the claims of one call have the same end
}

func newGauge(ttl time.Duration) *gauge {
	return &gauge{ttl: ttl, since: fleet.Now(), last: map[string]event{}}
}

// The store responds in time if at least half of its responses come within a tenth of the TTL. A client allows a third
// of the TTL for a request.
const (
	patience   = 10
	leastCalls = 40
	leastSpan  = 2 * time.Second
)

// add notes the end of a claim. One that was not answered took at least as long as the client waits.
func (g *gauge) add(e event) {
	last, some := g.last[e.Replica]
	took := e.Until - e.At
	if e.Result == proof.Unknown {
		took = g.ttl / 3
	}
	if same := e.Until == last.Until && (e.Until != proof.Never || e.At-last.At < time.Millisecond); some && same {
		return
	}
	g.last[e.Replica] = e
	g.took = append(g.took, took)
}

// tooShort reports whether the TTL is too short for the response times of the store, and which TTL would be long enough.
func (g *gauge) tooShort() (longer time.Duration, median time.Duration, is bool) {
	if fleet.Now()-g.since < max(leastSpan, 5*g.ttl) || len(g.took) < leastCalls {
		return 0, 0, false
	}
	median = spread(g.took).P50
	g.since, g.took = fleet.Now(), nil
	if median*patience <= g.ttl {
		return 0, median, false
	}
	longer = max(2*g.ttl, min(2*patience*median, 8*g.ttl)).Round(100 * time.Millisecond)
	return min(longer, longestTTL), median, g.ttl < longestTTL
}

// longestTTL is the longest that a TTL grows to by itself.
const longestTTL = 10 * time.Minute
