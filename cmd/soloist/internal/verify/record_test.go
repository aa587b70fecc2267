package verify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"github.com/soloist-dev/soloist/internal/proof"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// unflushed returns the events that would be known if the process were killed now.
func unflushed(t *testing.T, told *bytes.Buffer) (events []event) {
	t.Helper()
	for lines := json.NewDecoder(bytes.NewReader(told.Bytes())); lines.More(); {
		var e event
		if err := lines.Decode(&e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// A request is known before it is made, as one that nobody has answered, and has an end only if it was answered.
func TestRequestIsToldBeforeAndAfter(t *testing.T) {
	var told bytes.Buffer
	rec := newRecorder(&told)
	events := rec.begin([]event{claiming(store.Claim{Name: "a", Holder: "x"}), claiming(store.Claim{Name: "b", Holder: "x"})})
	begun := unflushed(t, &told)
	if len(begun) != 2 || begun[0].ID == 0 || begun[0].ID == begun[1].ID {
		t.Fatalf("begun, and told: %v", begun)
	}
	for i, e := range begun {
		if e.Result != proof.Unknown || e.Until != proof.Never || e.At == 0 || events[i].ID != e.ID {
			t.Errorf("begun as %+v, and told as %+v", events[i], e)
		}
	}
	if more := rec.begin([]event{{}}); more[0].ID == begun[0].ID || more[0].ID == begun[1].ID {
		t.Errorf("the ID %d is given again", more[0].ID)
	}
	told.Reset()
	events[0].Result = proof.Held
	rec.end(events)
	ended := written(t, rec, &told)
	if len(ended) != 2 || ended[0].ID != begun[0].ID || ended[0].Until < ended[0].At || ended[0].Until == proof.Never || ended[1].Until != proof.Never {
		t.Errorf("one was answered, and the other not: told as %+v", ended)
	}
}

// A request begins when it is made: telling of it takes time.
func TestRequestBeginsWhenItIsMade(t *testing.T) {
	var stops stopper
	rec := &recorder{buf: bufio.NewWriter(io.Discard), to: json.NewEncoder(&stops)}
	if e := rec.begin([]event{claiming(store.Claim{Name: "a"})})[0]; e.At <= stops.told[0].at {
		t.Errorf("it was told at %v, and begun at %v", stops.told[0].at, e.At)
	}
}

// An error is kept of what failed or has no known outcome, and not of what was refused; it is kept in short.
func TestErrorsAreKeptInShort(t *testing.T) {
	for err, want := range map[error]proof.Result{
		store.ErrHeld: proof.Held, store.ErrLost: proof.Lost,
		store.AsUnknown(errors.New("why")): proof.Unknown, errors.New("why"): proof.Failed,
	} {
		var called, claimed event
		called.answered(err)
		claimed.claimed(store.Outcome{Err: err})
		for _, e := range []event{called, claimed} {
			if kept := strings.Contains(e.Err, "why"); e.Result != want && want != proof.Lost || kept != (want == proof.Unknown || want == proof.Failed) {
				t.Errorf("%v is told as %s, with the error %q", err, e.Result, e.Err)
			}
		}
	}
	if text := brief(errors.New("x" + strings.Repeat("é", 4000))); len(text) < 900 || len(text) > 1000 || !utf8.ValidString(text) {
		t.Errorf("%d bytes are kept, valid: %v", len(text), utf8.ValidString(text))
	}
}

// What the client tells its user is trouble, but not that somebody else has the name or has done the work.
func TestTroubleIsNoRefusal(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, store.ErrHeld: false, soloist.ErrDone: false, errors.New("away"): true, soloist.ErrLost: true,
	} {
		var told bytes.Buffer
		rec := newRecorder(&told)
		rec.troubled(err)
		if all := written(t, rec, &told); (len(all) == 1) != want || want && (all[0].Kind != kindTrouble || all[0].Err == "" || all[0].At == 0) {
			t.Errorf("of %v is told %+v", err, all)
		}
	}
}

// leased is a lease that somebody has.
func leased(t *testing.T) *soloist.Lease {
	t.Helper()
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	lease, err := client.TryLock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// A run is known as soon as it begins, as one without an end, and its end is known before it is recorded in the store.
func TestRunIsToldBeforeAndAfter(t *testing.T) {
	lease := leased(t)
	for _, failed := range []error{nil, errors.New("the lease was lost in the run")} {
		var told bytes.Buffer
		rec := newRecorder(&told)
		events := rec.running(soloist.Run{Job: "job", ScheduledAt: time.UnixMilli(1500), Attempt: 3, Manual: true, Lease: lease}, 7*ms)
		want := event{ID: 1, Event: proof.Event{
			Kind: proof.Run, Name: "job", Token: lease.Token(), Mark: 1500, Attempt: 3, Manual: true,
			At: 7 * ms, Until: proof.Never, Result: proof.Unknown,
		}}
		if begun := unflushed(t, &told); len(begun) != 1 || begun[0] != want {
			t.Errorf("begun, and told: %+v, want %+v", begun, want)
		}
		told.Reset()
		before := fleet.Now()
		rec.ran(events, failed)
		if want.Result = proof.Okay; failed != nil {
			want.Result = proof.Failed
		}
		ended := unflushed(t, &told)
		if len(ended) != 1 || ended[0].Until < before || ended[0].Until > fleet.Now() {
			t.Fatalf("ended, and told: %+v", ended)
		}
		if want.Until = ended[0].Until; ended[0] != want {
			t.Errorf("ended, and told: %+v, want %+v", ended[0], want)
		}
	}
}

// A dying lease is held so often.
type dying struct{ left int }

func (d *dying) Err() error {
	if d.left--; d.left < 0 {
		return soloist.ErrLost
	}
	return nil
}

// A belief lasts from the first look to the last at which the lease was held, and is told as one, however often.
func TestBeliefLastsFromTheFirstLookToTheLast(t *testing.T) {
	var told bytes.Buffer
	rec := newRecorder(&told)
	b := rec.belief("what", 2, "holder", 5)
	lease := &dying{left: 3}
	first := fleet.Now()
	for b.look(lease) {
	}
	last := b.e.Until
	for at := fleet.Now(); fleet.Now() <= at; { // it was lost later than it was last held
	}
	if b.look(lease) || b.e.Until != last || b.e.At < first || last < b.e.At {
		t.Errorf("lost, and believed from %v to %v, not %v", b.e.At, b.e.Until, last)
	}
	b.end()
	want := event{ID: 1, Event: proof.Event{
		Kind: proof.Belief, Name: "what", Holder: "holder", Token: 5, Limit: 2, At: b.e.At, Until: last,
	}}
	all := written(t, rec, &told)
	if len(all) == 0 || all[len(all)-1] != want {
		t.Errorf("told: %+v, want %+v at last", all, want)
	}
	for _, e := range all {
		if e.ID != want.ID || e.At != want.At {
			t.Errorf("told as another belief: %+v", e)
		}
	}
}

// A belief that lasts is told every now and then, and at its end what was not told yet; one that never was is not told.
func TestBeliefIsToldNowAndThen(t *testing.T) {
	const h = time.Hour
	for name, test := range map[string]struct {
		at, told []time.Duration
	}{
		"never held":             {nil, nil},
		"held for a moment":      {[]time.Duration{h}, []time.Duration{h}},
		"held for a while":       {[]time.Duration{h, h + ms, h + 2*ms}, []time.Duration{h, h + 2*ms}},
		"held for longer":        {[]time.Duration{h, h + ms, h + 30*ms, h + 31*ms}, []time.Duration{h, h + 30*ms, h + 31*ms}},
		"told when it was ended": {[]time.Duration{h, h + 30*ms}, []time.Duration{h, h + 30*ms}},
	} {
		var told bytes.Buffer
		rec := newRecorder(&told)
		b := rec.belief("what", 1, "holder", 5)
		for _, at := range test.at {
			b.held(at)
		}
		b.end()
		var until []time.Duration
		for _, e := range written(t, rec, &told) {
			until = append(until, e.Until)
		}
		if fmt.Sprint(until) != fmt.Sprint(test.told) {
			t.Errorf("%s: told until %v, want %v", name, until, test.told)
		}
	}
}

// An element is told as that of its lease, with its attempt.
func TestElementIsTold(t *testing.T) {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	claimed, err := client.Elements("e", soloist.ElementsOptions{}).ClaimAll(t.Context(), []string{"1"})
	if err != nil || claimed[0].Err != nil {
		t.Fatal(err, claimed)
	}
	el := claimed[0].Element
	var told bytes.Buffer
	rec := newRecorder(&told)
	rec.processing("name", el, 7*ms)
	want := proof.Event{Kind: proof.Element, Name: "name", Holder: el.Holder(), Token: el.Token(), Attempt: 1, At: 7 * ms}
	if all := written(t, rec, &told); len(all) != 1 || all[0].Event != want {
		t.Errorf("told: %+v, want %+v", all, want)
	}
}
