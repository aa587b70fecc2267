package verify

import (
	"slices"
	"time"
)

// Figures are what a verification has done.
type Figures struct {
	Seconds    float64       `json:"seconds"`
	Replicas   int           `json:"replicas"` // that have worked, with those that took the place of killed ones
	Operations int           `json:"operations"`
	Grants     int           `json:"grants"`
	Refusals   int           `json:"refusals"`
	Unknowns   int           `json:"unknowns"` // outcomes that the store did not tell
	Errors     int           `json:"errors"`   // that surely had no effect
	Elements   int           `json:"elements"` // recorded as processed
	Runs       int           `json:"runs"`     // of the job
	Writes     int           `json:"writes"`   // to the guarded resource
	Stale      int           `json:"stale"`    // of them refused
	Beliefs    int           `json:"beliefs"`
	Faults     map[Fault]int `json:"faults"` // that were seen to take effect
	OfHolders  int           `json:"kills_of_holders"`
	Acquire    Spread        `json:"acquire"`   // from asking the store to its grant
	Takeover   Spread        `json:"take_over"` // from the death of a holder to the next grant
	Left       int           `json:"records_left"`
}

// A Spread tells of durations.
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

// figuresOf counts. Events are in the order of their beginnings.
func figuresOf(events []event) Figures {
	f := Figures{Faults: map[Fault]int{}}
	var acquires []time.Duration
	replicas := map[string]bool{}
	for _, e := range events {
		switch e.Kind {
		case kindReady:
			replicas[e.Replica] = true
		case kindAcquire, kindExtend, kindRelease:
			f.Operations++
			switch e.Result {
			case granted:
				f.Grants++
				acquires = append(acquires, e.Until-e.At)
			case refused:
				f.Refusals++
			case unknown:
				f.Unknowns++
			case failed:
				f.Errors++
			}
		case kindDone:
			if e.Result == okay {
				f.Elements++
			}
		case kindEnd:
			f.Runs++
		case kindWrite:
			f.Writes++
			if e.Result == refused {
				f.Stale++
			}
		case kindFault:
			f.Faults[e.Fault]++
		}
	}
	f.Replicas, f.Acquire = len(replicas), spread(acquires)
	takeovers, killed := takeoversOf(events)
	f.Takeover, f.OfHolders = spread(takeovers), killed
	return f
}

// takeoversOf answers how long each name that a killed replica held stayed without a holder, and how many kills met a holder.
func takeoversOf(events []event) (spans []time.Duration, holders int) {
	type hold struct {
		name, holder string
	}
	held := map[string]map[hold]bool{} // by replica
	open := map[string]time.Duration{} // names whose holder was killed, and when
	for _, e := range byEnd(events) {
		switch {
		case e.Kind == kindAcquire && e.Result == granted:
			if since, ok := open[e.Name]; ok && e.Until > since {
				spans = append(spans, e.Until-since)
				delete(open, e.Name)
			}
			if held[e.Replica] == nil {
				held[e.Replica] = map[hold]bool{}
			}
			held[e.Replica][hold{e.Name, e.Holder}] = true
		case e.Kind == kindRelease && (e.Result == okay || e.Result == lost):
			delete(held[e.Replica], hold{e.Name, e.Holder})
		case e.Kind == kindFault && e.Fault == Kill:
			contended := false
			for h := range held[e.Replica] {
				open[h.name], contended = e.At, true
			}
			if contended {
				holders++
			}
			delete(held, e.Replica)
		}
	}
	return spans, holders
}

// byEnd orders events by when they had ended.
func byEnd(events []event) []event {
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b event) int { return int(max(a.At, a.Until) - max(b.At, b.Until)) })
	return sorted
}
