package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

func TestRefusals(t *testing.T) {
	held := &store.HeldError{Record: store.Record{Name: "n", Holder: "h", Left: 1500 * time.Millisecond}}
	lingers := &store.HeldError{Record: store.Record{Name: "n", Token: 1, Left: time.Second}}
	locked := &store.HeldError{Record: store.Record{Name: "n", Left: 100 * time.Millisecond}}
	done := &store.DoneError{Record: store.Record{Name: "n", Mark: 7}}
	invalid := &store.InvalidError{What: "TTL", Value: "0s", Rule: "must be between 1ms and 1h"}
	for _, c := range []struct {
		err  error
		is   error
		says string
	}{
		{held, store.ErrHeld, `"n" is held by h for another 1.5s`},
		{lingers, store.ErrHeld, `"n" stays taken for another 1s after its release`},
		{locked, store.ErrHeld, `"n" is locked by a transaction; retry in 100ms`},
		{done, store.ErrDone, `"n" is already done (mark 7)`},
		{invalid, store.ErrInvalid, "TTL 0s: must be between 1ms and 1h"},
	} {
		for _, sentinel := range []error{store.ErrHeld, store.ErrDone, store.ErrLost, store.ErrUnknown, store.ErrClosed, store.ErrInvalid} {
			if got, want := errors.Is(c.err, sentinel), sentinel == c.is; got != want {
				t.Errorf("%v is %v: %t; want %t", c.err, sentinel, got, want)
			}
		}
		if c.err.Error() != c.says {
			t.Errorf("%q; want %q", c.err, c.says)
		}
	}
}

func TestAsUnknown(t *testing.T) {
	if err := store.AsUnknown(nil); err != nil {
		t.Errorf("of nil: %v; want nil", err)
	}
	err := store.AsUnknown(context.DeadlineExceeded)
	if !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v; want it to be both ErrUnknown and what it was", err)
	}
	if again := store.AsUnknown(err); strings.Count(again.Error(), store.ErrUnknown.Error()) != 1 {
		t.Errorf("%v; want it to say once that the outcome is unknown", again)
	}
}

func TestAnswers(t *testing.T) {
	for answer, want := range map[store.Answer]string{store.Unknown: "unknown", store.No: "no", store.Yes: "yes", 9: "unknown"} {
		text, err := answer.MarshalText()
		if err != nil || string(text) != want || answer.String() != want {
			t.Errorf("%d: %q, %q, %v; want %q", int(answer), answer, text, err, want)
		}
	}
}

// mute is a store that says nothing of itself.
type mute struct{ store.Store }

func TestCapabilitiesOfTheMute(t *testing.T) {
	c, err := store.CapabilitiesOf(t.Context(), mute{})
	if err != nil {
		t.Fatal(err)
	}
	for what, p := range map[string]store.Promise{"fencing": c.Fencing, "durable": c.Durable, "waiting": c.Waiting} {
		if p.Answer != store.Unknown || p.Why == "" {
			t.Errorf("%s: %+v; want unknown, and why", what, p)
		}
	}
}
