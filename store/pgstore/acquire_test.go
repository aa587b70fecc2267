package pgstore

import (
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A claim that is done, or that is repeated, tells the whole record, also after one of the same name that is only held, for which no state was read.
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
	outs, err = s.Acquire(background, []store.Claim{claim("name", "d", time.Hour), again, again, claim("name", "e", time.Hour)})
	if err != nil || !errors.Is(outs[0].Err, store.ErrHeld) || !errors.Is(outs[3].Err, store.ErrHeld) {
		t.Fatalf("%+v, %v", outs, err)
	}
	for _, o := range outs[1:3] {
		if g := o.Grant; o.Err != nil || g.Token != held.Token || g.Mark != 5 || string(g.State) != "state" || g.ExpiredAge != 0 {
			t.Errorf("what its holder asks for again: %+v; want token %d, mark 5 and the state", o, held.Token)
		}
	}
}
