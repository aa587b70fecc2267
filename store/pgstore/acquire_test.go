package pgstore

import (
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A claim that is done tells the whole record, also after one of the same name that is only held, for which no state was read.
func TestDoneAfterHeldInABatch(t *testing.T) {
	s := fresh(t, server(t).URL)
	lease := take(t, s, "name", "a", time.Hour)
	lease.Mark, lease.State = 5, []byte("state")
	release(t, s, lease)
	take(t, s, "name", "b", time.Hour)
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
}
