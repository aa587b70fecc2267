package verify

import (
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
)

// Figures are what a verification has done, beside what the checkers count.
type Figures struct {
	Seconds    float64       `json:"seconds"`
	Replicas   int           `json:"replicas"`    // that have worked, with those that took the place of killed ones
	Errors     int           `json:"errors"`      // requests that the store has refused, surely without effect
	ErrorShare float64       `json:"error_share"` // of the operations whose outcome is known
	Faults     map[Fault]int `json:"faults"`      // that were seen to take effect
	OfHolders  int           `json:"kills_of_holders"`
	Acquire    Spread        `json:"acquire"`   // from asking the store to its grant
	Takeover   Spread        `json:"take_over"` // from the death of a holder to the next grant
	Left       int           `json:"records_left"`
}

// A Spread reports durations.
type Spread struct {
	Count int           `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
}

func spread(all []time.Duration) Spread {
	if len(all) == 0 {
		return Spread{}
	}
	slices.Sort(all)
	at := func(p int) time.Duration { return all[min(len(all)-1, len(all)*p/100)] }
	return Spread{len(all), at(50), at(99), all[len(all)-1]}
}

func figuresOf(events []event) Figures {
	f := Figures{Faults: map[Fault]int{}}
	var acquires []time.Duration
	for _, e := range events {
		switch {
		case e.Kind == kindReady:
			f.Replicas++
		case e.Kind == proof.Fault:
			f.Faults[Fault(e.Fault)]++
		case e.Kind == proof.Acquire && e.Result == proof.Granted:
			acquires = append(acquires, e.Until-e.At)
		}
	}
	f.Acquire = spread(acquires)
	takeovers, killed := takeoversOf(events)
	f.Takeover, f.OfHolders = spread(takeovers), killed
	return f
}

// takeoversOf returns how long each name that a killed replica held stayed without a holder, and how many kills met a
// holder. Elements are left out of the spans: nobody waits for them, they are asked for again at any time. What a replica announces of itself
// does not count at all: it always has that, and nobody waits for it.
func takeoversOf(events []event) (spans []time.Duration, holders int) {
	type hold struct{ name, holder string }
	held := map[string]map[hold]bool{} // by replica
	open := map[string]time.Duration{} // names whose holder was killed, and when
	for _, e := range byEnd(events) {
		switch {
		case strings.Contains(e.Name, "/replica/"):
		case e.Kind == proof.Acquire && e.Result == proof.Granted:
			if since, ok := open[e.Name]; ok && e.Until > since {
				spans = append(spans, e.Until-since)
				delete(open, e.Name)
			}
			if held[e.Replica] == nil {
				held[e.Replica] = map[hold]bool{}
			}
			held[e.Replica][hold{e.Name, e.Holder}] = true
		case e.Kind == proof.Release && (e.Result == proof.Okay || e.Result == proof.Lost):
			delete(held[e.Replica], hold{e.Name, e.Holder})
		case e.Kind == proof.Fault && Fault(e.Fault) == Kill:
			for h := range held[e.Replica] {
				if !strings.Contains(h.name, "/element/") {
					open[h.name] = e.At
				}
			}
			if len(held[e.Replica]) > 0 {
				holders++
			}
			delete(held, e.Replica)
		}
	}
	return spans, holders
}

// byEnd orders events by when they had ended; what has not ended, by when it began.
func byEnd(events []event) []event {
	end := func(e event) time.Duration {
		if e.Until == proof.Never {
			return e.At
		}
		return max(e.At, e.Until)
	}
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b event) int { return int(end(a) - end(b)) })
	return sorted
}
