package move_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// TestCopyWaitsForHoldersOfThePhaseBehind: a copy is not complete while a replica of the phase behind holds a name, even if the records seem to agree.
func TestCopyWaitsForHoldersOfThePhaseBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		defer before.Close()
		defer after.Close()
		oldOnly, oldDecides := in(t, before, after, move.OldOnly), in(t, before, after, move.OldDecides)
		leave(t, oldDecides, store.Release{Name: "a", Holder: "x", Token: take(t, oldDecides, "a", "x").Token, State: []byte("1"), Retain: store.Forever})
		report, err := move.Copy(background, before, after, move.OldDecides, move.Options{})
		if err != nil || !report.Complete() {
			t.Fatalf("before: %+v, %v", report, err)
		}
		take(t, oldOnly, "a", "late")
		report, err = move.Copy(background, before, after, move.OldDecides, move.Options{})
		if err != nil || report.Complete() || report.Taken != 1 {
			t.Errorf("a replica of the phase behind holds the name: %+v, %v", report, err)
		}
		time.Sleep(2 * time.Minute) // it died
		report, err = move.Copy(background, before, after, move.OldDecides, move.Options{})
		if err != nil || report.Complete() || report.Abandoned != 1 {
			t.Errorf("a replica of the phase behind died: %+v, %v", report, err)
		}
		report, err = move.Copy(background, before, after, move.OldDecides, move.Options{Abandoned: true})
		if err != nil || !report.Complete() || report.Copied != 1 {
			t.Errorf("nobody needs to know of the crash: %+v, %v", report, err)
		}
	})
}

// A listedStore calls onList before each list.
type listedStore struct {
	store.Store
	onList func()
}

func (s listedStore) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		s.onList()
		s.Store.List(ctx, prefix)(yield)
	}
}

// TestCopyOfNamesInUse: a copy is complete although replicas of the phase acquire and release names between the two lists.
func TestCopyOfNamesInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		defer before.Close()
		defer after.Close()
		s := in(t, before, after, move.OldDecides)
		first := take(t, s, "released", "x")
		take(t, s, "held", "x")
		again := take(t, s, "next", "x")
		busy := listedStore{after, func() {
			leave(t, s, store.Release{Name: "released", Holder: "x", Token: first.Token, Retain: store.Forever})
			leave(t, s, store.Release{Name: "next", Holder: "x", Token: again.Token, Retain: store.Forever})
			take(t, s, "next", "y")
		}}
		report, err := move.Copy(background, before, busy, move.OldDecides, move.Options{})
		if err != nil || !report.Complete() || report.Same != 3 {
			t.Errorf("%+v, %v", report, err)
		}
	})
}
