package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A late store grants what is waited for, after long by its own account.
type late struct {
	store.Store
	asked *time.Duration // when, on the clock of the events
}

func (s late) Queue(context.Context, store.Claim) (store.Grant, time.Duration, error) {
	*s.asked = fleet.Now()
	return store.Grant{Token: 1}, time.Hour, nil
}

func (late) Leave(context.Context, string, string) (bool, error) { return false, errors.ErrUnsupported }

// An unsure store has heard then that the name was handed over.
type unsure struct{ late }

func (unsure) Clockless() {}

// written returns the events that a recorder has told.
func written(t *testing.T, rec *recorder, told *bytes.Buffer) (events []event) {
	t.Helper()
	if err := rec.buf.Flush(); err != nil {
		t.Fatal(err)
	}
	for lines := json.NewDecoder(told); lines.More(); {
		var e event
		if err := lines.Decode(&e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// TestWhenAWaiterWasGranted: a store with a clock knows when a waiter was granted the name. One without a clock does not, so it may have been at any time of the call.
func TestWhenAWaiterWasGranted(t *testing.T) {
	var asked time.Duration
	slow := late{memstore.New(), &asked}
	for name, test := range map[string]struct {
		store store.Store
		known bool
	}{"clock": {slow, true}, "no clock": {unsure{slow}, false}} {
		t.Run(name, func(t *testing.T) {
			var told bytes.Buffer
			rec := newRecorder(&told)
			l := &link{Store: test.store, net: newNetwork(rec, orders{TTL: time.Second})}
			if _, _, err := l.Queue(t.Context(), store.Claim{Name: "a", Holder: "x", TTL: time.Second}); err != nil {
				t.Fatal(err)
			}
			all := written(t, rec, &told)
			if last := all[len(all)-1]; last.Result != proof.Granted || (last.At > asked) != test.known {
				t.Errorf("asked at %v, %v between %v and %v; want that the begin is known: %v", asked, last.Result, last.At, last.Until, test.known)
			}
		})
	}
}

// A claim in a line is known to be without effect when the next one is refused, unless a lease that it was granted may
// have ended by then.
func TestRefusalTellsOfTheClaimBefore(t *testing.T) {
	for name, test := range map[string]struct {
		before time.Duration // since the claim before was asked for
		known  bool
	}{"at once": {0, true}, "after its lease": {2 * time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			var told bytes.Buffer
			rec, claim, now := newRecorder(&told), store.Claim{Name: "a", Holder: "x", TTL: time.Hour}, fleet.Now()
			l := &link{Store: memstore.New(), net: newNetwork(rec, orders{TTL: time.Second})}
			l.queued(event{ID: 1, Event: proof.Event{At: now - test.before}}, claim, store.Grant{}, 0, store.ErrHeld)
			l.queued(event{ID: 2, Event: proof.Event{At: now - test.before}}, claim, store.Grant{}, 0, store.ErrHeld)
			all := written(t, rec, &told)
			known := len(all) == 1 && all[0].ID == 1 && all[0].Result == proof.Failed
			if known != test.known || len(all) > 1 {
				t.Errorf("told %v; want that the claim before is known to be without effect: %v", all, test.known)
			}
		})
	}
}
