package natsstore

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// TestHeard: what a watch makes of what the server reports. Time is virtual.
func TestHeard(t *testing.T) {
	const known = time.Minute
	release := func(sequence int) *nats.Msg {
		return &nats.Msg{Subject: "s", Header: nats.Header{headerSequence: {strconv.Itoa(sequence)}, headerReleased: {"1"}}}
	}
	lease := func(sequence int, ttl time.Duration) *nats.Msg {
		return &nats.Msg{Subject: "s", Header: nats.Header{headerSequence: {strconv.Itoa(sequence)}, headerLease: {strconv.Itoa(int(ttl))}}}
	}
	gone := func(sequence int) *nats.Msg {
		return &nats.Msg{Subject: "s", Header: nats.Header{headerSequence: {strconv.Itoa(sequence)}, headerOperation: {"PURGE"}}}
	}
	for what, c := range map[string]struct {
		hear func(w *watch)
		want time.Duration // at most, until a value is sent; negative for none
	}{
		"a release":                                {func(w *watch) { w.heard(release(5), false) }, 2 * drawnFirst},
		"a release, and it is drawn":               {func(w *watch) { w.heard(release(5), false); w.heard(release(5), true) }, 0},
		"it is drawn, and then hears the release":  {func(w *watch) { w.heard(release(5), true); w.heard(release(5), false) }, 0},
		"a release, and somebody has it":           {func(w *watch) { w.heard(release(5), false); w.heard(lease(6, known), false) }, -1},
		"somebody has it, and the release is late": {func(w *watch) { w.heard(lease(6, known), false); w.heard(release(5), false) }, -1},
		"it was drawn, and somebody else has it":   {func(w *watch) { w.heard(lease(6, known), false); w.heard(release(5), true) }, -1},
		"somebody has it for a shorter time":       {func(w *watch) { w.heard(release(5), false); w.heard(lease(6, known-1), false) }, 0},
		"somebody has it for a shorter time, and the release is late": {func(w *watch) {
			w.heard(lease(6, known-1), false)
			w.heard(release(5), false)
		}, 0},
		"it was drawn, and somebody else has it for a shorter time": {func(w *watch) {
			w.heard(lease(6, known-1), false)
			w.heard(release(5), true)
		}, 0},
		"somebody had it for a shorter time, and the release before is late": {func(w *watch) {
			w.heard(lease(6, known-1), false)
			w.heard(gone(7), false)
			w.heard(release(5), false)
		}, -1},
		"a renewal is late": {func(w *watch) {
			w.heard(lease(6, known-1), false)
			w.heard(lease(5, known-1), false)
		}, -1},
		"a renewal": {func(w *watch) { w.heard(lease(5, 1), false) }, -1},
		"released again": {func(w *watch) {
			w.heard(release(5), false)
			w.heard(lease(6, known), false)
			w.heard(release(7), false)
		}, 2 * drawnFirst},
		"a release, and the record is forgotten": {func(w *watch) { w.heard(release(5), false); w.heard(gone(6), false) }, 2 * drawnFirst},
		"an election":                            {func(w *watch) { w.heard(&nats.Msg{Subject: "other"}, false) }, 0},
		"a report without a number":              {func(w *watch) { w.heard(&nats.Msg{Subject: "s"}, false) }, 0},
		"a release, and the watch ends":          {func(w *watch) { w.heard(release(5), false); w.end() }, -1},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &watch{wake: make(chan struct{}, 1), leave: drawnFirst, known: func(string) time.Duration { return known }, names: map[string]*watched{"s": {name: "s"}}}
				start := time.Now()
				c.hear(w)
				select {
				case <-w.wake:
					if took := time.Since(start); c.want < 0 || took > c.want {
						t.Errorf("a value after %v, want one within %v", took, c.want)
					}
					select {
					case <-w.wake:
						t.Errorf("another value after %v", time.Since(start))
					case <-time.After(time.Hour):
					}
				case <-time.After(time.Hour):
					if c.want >= 0 {
						t.Errorf("no value, want one within %v", c.want)
					}
				}
			})
		})
	}
}

// TestMessagesOfNoRecord: a message that says that a key was deleted, or that the server has removed its record, is none that something else has written.
func TestMessagesOfNoRecord(t *testing.T) {
	for _, header := range []string{headerOperation, headerMarker} {
		m := message{Sequence: 7, Header: nats.Header{header: {"x"}}}
		if item := m.item("a"); item.Err != nil || item.Version != "" {
			t.Errorf("%s: version %q, %v; want that there is no record", header, item.Version, item.Err)
		}
	}
}
