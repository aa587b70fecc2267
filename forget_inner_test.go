package soloist

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// The record of a job that was removed has no holder, no state and no time left. One that is held, or whose holder has died, is there.
func TestWhichRecordsAreForgotten(t *testing.T) {
	for name, test := range map[string]struct {
		r    store.Record
		want bool
	}{
		"removed":    {store.Record{Token: 7}, true},
		"never made": {store.Record{}, true},
		"held":       {store.Record{Token: 7, Holder: "a#1", Left: time.Second}, false},
		"abandoned":  {store.Record{Token: 7, Holder: "a#1"}, false},
		"lingers":    {store.Record{Token: 7, Left: time.Second}, false},
		"registered": {store.Record{Token: 7, State: []byte("{}")}, false},
	} {
		if got := forgotten(test.r); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// An error names some of many replicas, and says how many more there are.
func TestNamesOfReplicas(t *testing.T) {
	var all []Definition
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"} {
		all = append(all, Definition{Replica: name})
	}
	for n, want := range map[int]string{1: "a", 3: "a, b, c", 11: "a, b, c, d, e, f, g, h, i, j, k", 13: "a, b, c, d, e, f, g, h, i, j, k and 2 more"} {
		if got := names(all[:n]); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// No event has a negative time, and those that are not negative stay as they are.
func TestObservedTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []Event
		c, err := New(memstore.New(), Config{Observe: func(_ context.Context, e Event) { got = append(got, e) }})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.observe(t.Context(), Event{Waited: -1, Duration: -1, Delay: -1})
		c.observe(t.Context(), Event{Waited: 1, Duration: 2, Delay: 3})
		if len(got) != 2 || got[0] != (Event{}) || got[1] != (Event{Waited: 1, Duration: 2, Delay: 3}) {
			t.Errorf("told of %+v", got)
		}
	})
}
