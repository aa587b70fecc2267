package move_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// A deaf store does not hear the next extensions.
type deaf struct {
	store.Store
	next int
}

func (d *deaf) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if d.next > 0 {
		d.next--
		<-ctx.Done()
		return nil, store.AsUnknown(ctx.Err())
	}
	return d.Store.Extend(ctx, extensions)
}

// TestWriteOfOneStoreIsBroughtToTheOther: an extension with a state reached only the store that decides. A release that is confirmed after that, because
// the extension prolonged the lease, leaves the state to a replica in the other middle phase.
func TestWriteOfOneStoreIsBroughtToTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		shadow := &deaf{Store: after, next: 1}
		s := in(t, before, shadow, move.OldDecides)
		g := take(t, s, "x", "h")
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		e := store.Extension{Name: "x", Holder: "h", Token: g.Token, TTL: time.Hour, State: []byte("page 7")}
		if errs, err := s.Extend(ctx, []store.Extension{e}); err == nil && errs[0] == nil {
			t.Error("an extension that only one store has was confirmed")
		}
		leave(t, s, store.Release{Name: "x", Holder: "h", Token: g.Token, Mark: 3, Retain: store.Forever})
		next := take(t, in(t, before, after, move.NewDecides), "x", "next")
		if string(next.State) != "page 7" || next.Mark != 3 {
			t.Errorf("the next has %q with mark %d", next.State, next.Mark)
		}
	})
}
