package proof

import (
	"errors"
	"fmt"
	"testing"

	"github.com/soloist-dev/soloist/store"
)

// TestSeam makes events of what is asked of a store and of what it answers.
func TestSeam(t *testing.T) {
	state, other := []byte("a state"), []byte("another")
	if StateOf(state) == StateOf(other) || StateOf(state) <= cleared || StateOf(state) != StateOf([]byte("a state")) || StateOf([]byte{}) != 0 {
		t.Error("states are not told apart")
	}
	claim := store.Claim{Name: "n", Holder: "a", TTL: 10 * s, Mark: 5}
	if got, want := Claimed(claim), (Event{Kind: Acquire, Name: "n", Holder: "a", TTL: 10 * s, Mark: 5, Result: Unknown}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, wrote := range []struct {
		state []byte
		want  uint64
	}{{nil, 0}, {[]byte{}, cleared}, {state, StateOf(state)}} {
		x := store.Extension{Name: "n", Holder: "a", Token: 1, TTL: 10 * s, Mark: 5, State: wrote.state}
		if got, want := Extended(x), (Event{Kind: Extend, Name: "n", Holder: "a", Token: 1, TTL: 10 * s, Mark: 5, State: wrote.want, Result: Unknown}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		r := store.Release{Name: "n", Holder: "a", Token: 1, Linger: s, Mark: 5, State: wrote.state, Retain: 2 * s}
		if got, want := Released(r), (Event{Kind: Release, Name: "n", Holder: "a", Token: 1, Linger: s, Mark: 5, State: wrote.want, Retain: 2 * s, Result: Unknown}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}

	held := func(token int64) error {
		return &store.HeldError{Record: store.Record{Name: "n", Token: token, Mark: 3, State: other}}
	}
	done := &store.DoneError{Record: store.Record{Name: "n", Token: 4, Mark: 6, State: state}}
	asked := with(Claimed(claim), func(e *Event) { e.Seen, e.State = 1, 2 }) // it was asked before
	for _, answer := range []struct {
		out         store.Outcome
		result      Result
		token, mark int64
		state       uint64
	}{
		{store.Outcome{Grant: store.Grant{Token: 7, Mark: 3, State: state}}, Granted, 7, 3, StateOf(state)},
		{store.Outcome{Grant: store.Grant{Token: 7}}, Granted, 7, 0, 0},
		{store.Outcome{Err: held(4)}, Held, 4, 0, 0},
		{store.Outcome{Err: held(0)}, Locked, 0, 0, 0},
		{store.Outcome{Err: fmt.Errorf("wrapped: %w", done)}, Done, 0, 6, StateOf(state)},
		{store.Outcome{Err: store.ErrHeld}, Held, 0, 0, 0},
		{store.Outcome{Err: store.ErrDone}, Done, 0, unseen, 0},
		{store.Outcome{Err: store.AsUnknown(errors.New("cut"))}, Unknown, 0, 0, 0},
		{store.Outcome{Err: store.AsUnknown(store.ErrLost)}, Unknown, 0, 0, 0},
		{store.Outcome{Err: store.ErrLost}, Lost, 0, 0, 0},
		{store.Outcome{Err: errors.New("down")}, Failed, 0, 0, 0},
	} {
		e := asked
		e.Answer(answer.out)
		if want := with(asked, func(e *Event) {
			e.Result, e.Token, e.Seen, e.State = answer.result, answer.token, answer.mark, answer.state
		}); e != want {
			t.Errorf("%v: %+v, want %+v", answer.out.Err, e, want)
		}
	}
	if got := ResultOf(nil); got != Okay {
		t.Errorf("no error is %q", got)
	}
}
