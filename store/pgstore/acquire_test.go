package pgstore

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A claim that is done, or that is repeated, tells the whole record, also after one of the same name that is only
// held, for which no state was read.
func TestDoneAfterHeldInABatch(t *testing.T) {
	s := fresh(t, server(t).URL)
	lease := take(t, s, "name", "a", time.Hour)
	lease.Mark, lease.State = 5, []byte("state")
	release(t, s, lease)
	held := take(t, s, "name", "b", time.Hour)
	done := claim("name", "c", time.Hour)
	done.Mark = 5
	outs, err := s.Acquire(background, []store.Claim{claim("name", "d", time.Hour), done})
	var told *store.DoneError
	if err != nil || !errors.Is(outs[0].Err, store.ErrHeld) || !errors.As(outs[1].Err, &told) {
		t.Fatalf("%+v, %v", outs, err)
	}
	if r := told.Record; string(r.State) != "state" || r.Mark != 5 || r.Holder != "b" {
		t.Errorf("%+v", r)
	}
	again := claim("name", "b", time.Hour)
	outs, err = s.Acquire(background, []store.Claim{
		claim("name", "d", time.Hour), again, again, claim("name", "e", time.Hour),
	})
	if err != nil || !errors.Is(outs[0].Err, store.ErrHeld) || !errors.Is(outs[3].Err, store.ErrHeld) {
		t.Fatalf("%+v, %v", outs, err)
	}
	for _, o := range outs[1:3] {
		if g := o.Grant; o.Err != nil || g.Token != held.Token || g.Mark != 5 || string(g.State) != "state" ||
			g.ExpiredAge != 0 {
			t.Errorf("what its holder asks for again: %+v; want token %d, mark 5 and the state", o, held.Token)
		}
	}
}

// A name whose token cannot grow is refused to each claim of a batch that needs a greater one, and taken by the first
// that does not.
func TestTokensEndInABatch(t *testing.T) {
	s := fresh(t, server(t).URL)
	old := take(t, s, "old", "a", time.Hour)
	release(t, s, old)
	above := func(name, holder string) store.Claim {
		return store.Claim{Name: name, Holder: holder, TTL: time.Hour, Above: math.MaxInt64}
	}
	outs, err := s.Acquire(background, []store.Claim{above("old", "a"), above("new", "a"), above("old", "b"),
		claim("old", "c", time.Hour), above("new", "b"),
		above("old", "d"), above("last", "a"), above("last", "b"), claim("new", "c", time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{store.ErrTokens, store.ErrTokens, store.ErrTokens, nil, store.ErrTokens, store.ErrHeld,
		store.ErrTokens, store.ErrTokens, nil} {
		if o := outs[i]; !errors.Is(o.Err, want) || (o.Grant.Token > 0) != (want == nil) {
			t.Errorf("claim %d: %+v; want %v", i, o, want)
		}
	}
	if r := recordOf(t, s, "old"); r.Holder != "c" || r.Token != outs[3].Grant.Token || r.Token <= old.Token {
		t.Errorf("%+v; want it c's, with token %d", r, outs[3].Grant.Token)
	}
	for r, err := range s.List(background, "last") {
		t.Errorf("nobody has taken it: %+v, %v", r, err)
	}
}
