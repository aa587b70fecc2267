package verify

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/internal/proof"
)

// A spread is of all durations, in whatever order they come.
func TestSpread(t *testing.T) {
	var all []time.Duration
	for i := 200; i > 0; i-- {
		all = append(all, time.Duration(i)*ms)
	}
	if got, want := spread(all), (Spread{200, 101 * ms, 199 * ms, 200 * ms}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := spread([]time.Duration{ms}), (Spread{1, ms, ms, ms}); got != want {
		t.Errorf("of one: %+v, want %+v", got, want)
	}
	if got := spread(nil); got != (Spread{}) {
		t.Errorf("of none: %+v", got)
	}
}

// The figures count replicas that worked, faults by kind, and how long grants took, not refusals.
func TestFigures(t *testing.T) {
	said := func(kind proof.Kind) event { return event{Event: proof.Event{Kind: kind}} }
	f := figuresOf([]event{
		said(kindReady), said(kindReady), said(kindBye), said(kindTrouble),
		faulted(Kill, "a", 0, ms), faulted(PauseLong, "a", 0, ms), faulted(PauseLong, "b", 0, ms),
		asked(proof.Acquire, "a", "x", 5, 10*ms, 15*ms, proof.Granted), asked(proof.Acquire, "b", "x", 5, 10*ms, 90*ms, proof.Held),
		asked(proof.Extend, "a", "x", 5, 20*ms, 80*ms, proof.Granted), asked(proof.Acquire, "c", "x", 0, 10*ms, proof.Never, proof.Unknown),
	})
	if f.Replicas != 2 || fmt.Sprint(f.Faults) != "map[kill:1 pause-long:2]" || f.Acquire != (Spread{1, 5 * ms, 5 * ms, 5 * ms}) {
		t.Errorf("%+v", f)
	}
}

// A take-over lasts from the death of a holder to the next grant of what it held then.
func TestTakeOverIsFromADeathToTheNextGrant(t *testing.T) {
	grant := func(replica, name string, at, until time.Duration) event {
		return asked(proof.Acquire, replica, name, 1, at, until, proof.Granted)
	}
	release := func(replica, name string, at time.Duration, result proof.Result) event {
		until := at + ms
		if result == proof.Unknown {
			until = proof.Never
		}
		return asked(proof.Release, replica, name, 1, at, until, result)
	}
	kill := func(replica string, at time.Duration) event { return faulted(Kill, replica, at, at+2*ms) }
	held := func(e event) event { e.Result = proof.Held; return e }
	ax, ay, bx, dead, once := grant("a", "x", 0, ms), grant("a", "y", 0, ms), grant("b", "x", 50*ms, 60*ms), kill("a", 10*ms), []time.Duration{50 * ms}
	for name, c := range map[string]struct {
		events  []event
		spans   []time.Duration
		holders int
	}{
		"taken over":           {[]event{ax, dead, bx}, once, 1},
		"taken over once":      {[]event{ax, dead, bx, grant("c", "x", 70*ms, 80*ms)}, once, 1},
		"refused at first":     {[]event{ax, dead, held(grant("b", "x", 20*ms, 30*ms)), bx}, once, 1},
		"never taken over":     {[]event{ax, dead}, nil, 1},
		"given back":           {[]event{ax, release("a", "x", 2*ms, proof.Okay), dead, bx}, nil, 0},
		"perhaps given back":   {[]event{ax, release("a", "x", 2*ms, proof.Unknown), dead, bx}, once, 1},
		"one of two":           {[]event{ax, ay, release("a", "y", 2*ms, proof.Okay), dead, bx, grant("b", "y", 50*ms, 60*ms)}, once, 1},
		"two":                  {[]event{ax, ay, dead, bx, grant("b", "y", 60*ms, 70*ms)}, []time.Duration{50 * ms, 60 * ms}, 1},
		"another was killed":   {[]event{ax, kill("c", 10*ms), release("a", "x", 20*ms, proof.Okay), bx}, nil, 0},
		"paused":               {[]event{ax, faulted(PauseLong, "a", 10*ms, 40*ms), bx}, nil, 0},
		"an element":           {[]event{grant("a", "@n/element/e/1", 0, ms), dead, grant("b", "@n/element/e/1", 50*ms, 60*ms)}, nil, 1},
		"an announcement":      {[]event{grant("a", "@n/replica/a", 0, ms), dead, grant("b", "@n/replica/a", 50*ms, 60*ms)}, nil, 0},
		"answered in the wink": {[]event{grant("a", "x", 0, 9*ms), release("b", "x", ms, proof.Lost), dead, bx}, once, 1},
		"not answered":         {[]event{asked(proof.Acquire, "a", "x", 1, 0, 20*ms, proof.Unknown), dead, bx}, nil, 0},
		"released by a slow call": {[]event{ax, asked(proof.Release, "a", "x", 1, 2*ms, 30*ms, proof.Okay), grant("a", "y", 3*ms, 4*ms),
			kill("a", 40*ms), bx}, nil, 1},
	} {
		before := slices.Clone(c.events)
		spans, holders := takeoversOf(c.events)
		slices.Sort(spans)
		if !slices.Equal(spans, c.spans) || holders != c.holders {
			t.Errorf("%s: %v, and %d kills of holders", name, spans, holders)
		}
		if !slices.Equal(before, c.events) {
			t.Errorf("%s: the order of the events has changed", name)
		}
	}
}

// Events are in the order of their ends; what has none, or none that is told, is where it began.
func TestOrderOfEnds(t *testing.T) {
	at := func(replica string, at, until time.Duration) event {
		return event{Event: proof.Event{Replica: replica, At: at, Until: until}}
	}
	var order string
	for _, e := range byEnd([]event{at("d", 0, 40*ms), at("b", 20*ms, proof.Never), at("c", 30*ms, 0), at("a", 5*ms, 10*ms)}) {
		order += e.Replica
	}
	if order != "abcd" {
		t.Errorf("in the order %s", order)
	}
}
