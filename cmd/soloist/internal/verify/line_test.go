package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
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

// What is known of the claims of a holder in a line is told when the next is answered: which of two was granted, and that one had
// no effect.
func TestClaimsInALineAreTold(t *testing.T) {
	held, unknown, refused := store.ErrHeld, store.AsUnknown(errors.New("cut")), errors.New("refused")
	type call struct {
		ago   time.Duration // since it was asked for
		err   error
		after time.Duration
	}
	for name, c := range map[string]struct {
		calls []call
		want  string // of each event that is told: its ID and its result
	}{
		"a grant":                             {[]call{{time.Hour, nil, 0}}, "1 granted"},
		"a grant that it had":                 {[]call{{time.Hour, nil, -time.Minute}}, "1 granted"},
		"a grant to the claim before":         {[]call{{time.Hour, unknown, 0}, {time.Minute, nil, -30 * time.Minute}}, "1 granted, 2 failed"},
		"a grant to the claim just before":    {[]call{{time.Hour, unknown, 0}, {time.Minute, nil, -59 * time.Minute}}, "1 granted, 2 failed"},
		"a grant after a claim without one":   {[]call{{time.Hour, unknown, 0}, {time.Minute, nil, 0}}, "2 granted"},
		"a grant from before both claims":     {[]call{{time.Hour, unknown, 0}, {time.Minute, nil, -2 * time.Hour}}, "2 granted"},
		"refusals":                            {[]call{{0, held, 0}, {0, held, 0}, {0, held, 0}}, "1 failed, 2 failed"},
		"a refusal after one without answer":  {[]call{{0, unknown, 0}, {0, held, 0}}, ""},
		"none with an answer after a refusal": {[]call{{0, held, 0}, {0, unknown, 0}, {0, held, 0}}, ""},
		"an error":                            {[]call{{0, held, 0}, {0, refused, 0}, {0, held, 0}}, "2 failed, 1 failed"},
		"a refusal in the next line":          {[]call{{0, held, 0}, {0, nil, 0}, {0, held, 0}}, "2 granted"},
	} {
		t.Run(name, func(t *testing.T) {
			var told bytes.Buffer
			rec, now := newRecorder(&told), fleet.Now()
			l := &link{Store: memstore.New(), net: newNetwork(rec, orders{TTL: time.Second})}
			for i, c := range c.calls {
				e := event{ID: int64(i + 1), Event: proof.Event{At: now - c.ago, Until: proof.Never, Result: proof.Unknown}}
				l.queued(e, store.Claim{Name: "a", Holder: "x", TTL: 24 * time.Hour}, store.Grant{Token: 7}, c.after, c.err)
			}
			var got []string
			for _, e := range written(t, rec, &told) {
				got = append(got, fmt.Sprint(e.ID, " ", e.Result))
				if (e.Token == 7) != (e.Result == proof.Granted) || e.Until == proof.Never || e.At != now-c.calls[e.ID-1].ago {
					t.Errorf("told %+v", e)
				}
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("told %q, want %q", got, c.want)
			}
		})
	}
}

// A lease that a waiter was granted began when the store says, less what its clock may be faster by, and before it was told of.
func TestGrantInALineBeginsWhenTheStoreSays(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{0: 0, 100 * time.Minute: 99 * time.Minute, 1000 * time.Minute: 500 * time.Minute} {
		var told bytes.Buffer
		rec, at := newRecorder(&told), fleet.Now()-500*time.Minute
		l := &link{Store: memstore.New(), net: newNetwork(rec, orders{TTL: time.Second})}
		l.queued(event{ID: 1, Event: proof.Event{At: at}}, store.Claim{Name: "a", Holder: "x", TTL: time.Hour}, store.Grant{Token: 7}, after, nil)
		if e := written(t, rec, &told)[0]; e.At < at+want || e.At > e.Until || after < 500*time.Minute && e.At != at+want {
			t.Errorf("after %v it began after %v, want %v", after, e.At-at, want)
		}
	}
}

// A queue answers what it is told to.
type queue struct {
	store.Store
	grant store.Grant
	after time.Duration
	left  bool
	err   error
}

func (q queue) Queue(context.Context, store.Claim) (store.Grant, time.Duration, error) {
	return q.grant, q.after, q.err
}

func (q queue) Leave(context.Context, string, string) (bool, error) { return q.left, q.err }

// The client in a line is answered what the store answers, and a store without lines says so.
func TestLinesAreAnsweredAsByTheStore(t *testing.T) {
	linked := func(s store.Store) *link {
		return &link{Store: s, net: newNetwork(newRecorder(io.Discard), orders{TTL: time.Second})}
	}
	held := &store.HeldError{Record: store.Record{Holder: "other", Token: 3}}
	for name, q := range map[string]queue{
		"granted": {grant: store.Grant{Token: 7}, after: time.Minute, left: true},
		"held":    {err: held},
		"unknown": {err: store.AsUnknown(errors.New("cut"))},
		"failed":  {err: errors.New("refused")},
		"not in":  {left: false},
	} {
		grant, after, err := linked(q).Queue(t.Context(), store.Claim{Name: "a", Holder: "x"})
		if !errors.Is(err, q.err) || grant.Token != q.grant.Token || after != q.after {
			t.Errorf("%s: queued: %v, %v, %v", name, grant, after, err)
		}
		if left, err := linked(q).Leave(t.Context(), "a", "x"); !errors.Is(err, q.err) || left != q.left {
			t.Errorf("%s: left: %v, %v", name, left, err)
		}
	}
	bare := linked(struct{ store.Store }{memstore.New()})
	if _, _, err := bare.Queue(t.Context(), store.Claim{Name: "a", Holder: "x"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("queued where there is no line: %v", err)
	}
	if _, err := bare.Leave(t.Context(), "a", "x"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("left where there is no line: %v", err)
	}
}

// A holder that has left a line was granted nothing by its last claim, if that had its answer and the holder was in the line.
func TestLeavingTellsOfTheLastClaim(t *testing.T) {
	for name, c := range map[string]struct {
		queue   queue
		claimed error // what the claim before was answered; nil for none
		want    bool
	}{
		"left":            {queue{left: true}, store.ErrHeld, true},
		"left unanswered": {queue{left: true}, store.AsUnknown(errors.New("cut")), false},
		"not in it":       {queue{left: false}, store.ErrHeld, false},
		"no answer":       {queue{err: store.AsUnknown(errors.New("cut")), left: true}, store.ErrHeld, false},
		"never asked":     {queue{left: true}, nil, false},
	} {
		var told bytes.Buffer
		rec := newRecorder(&told)
		c.queue.Store = memstore.New()
		l := &link{Store: c.queue, net: newNetwork(rec, orders{TTL: time.Second})}
		if c.claimed != nil {
			l.queued(event{ID: 1, Event: proof.Event{Result: proof.Unknown}}, store.Claim{Name: "a", Holder: "x", TTL: time.Hour}, store.Grant{}, 0, c.claimed)
		}
		_, _ = l.Leave(t.Context(), "a", "x")
		if all := written(t, rec, &told); len(all) > 1 || (len(all) == 1 && all[0].ID == 1 && all[0].Result == proof.Failed) != c.want {
			t.Errorf("%s: told %+v", name, all)
		}
		told.Reset()
		_, _ = l.Leave(t.Context(), "a", "x")
		if all := written(t, rec, &told); len(all) > 0 && c.want {
			t.Errorf("%s: told again: %+v", name, all)
		}
	}
}
