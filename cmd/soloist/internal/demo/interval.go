package demo

import (
	"cmp"
	"slices"
	"time"
)

// An interval is how long somebody believed to hold something: from is in it, to is not.
type interval struct{ from, to time.Duration }

// mostAtOnce is how many of the intervals overlap at most.
func mostAtOnce(intervals []interval) int {
	type edge struct {
		at   time.Duration
		step int
	}
	var edges []edge
	for _, i := range intervals {
		if i.from < i.to {
			edges = append(edges, edge{i.from, 1}, edge{i.to, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step)) })
	now, most := 0, 0
	for _, e := range edges {
		now += e.step
		most = max(most, now)
	}
	return most
}

// held returns the intervals between events of two kinds with the same replica and token. One that has no end lasted
// until its replica was killed, or else until the end of the history.
func held(events []event, begin, end kind) []interval {
	var intervals []interval
	open := map[grant]int{}
	for _, e := range events {
		g := grant{e.Replica, e.Token}
		switch i, is := open[g]; {
		case e.Kind == begin:
			open[g] = len(intervals)
			intervals = append(intervals, interval{e.At, endOf(events)})
		case e.Kind == end && is:
			intervals[i].to = e.Held
			delete(open, g)
		case e.Kind == killed:
			for g, i := range open {
				if g.replica == e.Replica {
					intervals[i].to = e.At
					delete(open, g)
				}
			}
		}
	}
	return intervals
}

// endOf is when the last event happened.
func endOf(events []event) time.Duration {
	var last time.Duration
	for _, e := range events {
		last = max(last, e.At)
	}
	return last
}
