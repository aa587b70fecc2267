package move_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// A muteStore releases nothing: as if its user were killed between two requests.
type muteStore struct{ store.Store }

func (muteStore) Release(context.Context, []store.Release) ([]error, error) {
	return nil, errors.New("killed")
}

// TestKilledCopyIsNoCrash: what a copy that was killed has left is copied by the next one, and nobody is told of a crash.
func TestKilledCopyIsNoCrash(t *testing.T) {
	for _, test := range []struct {
		name        string
		phase, next move.Phase
		died        bool // the last holder did, in the phase behind
	}{
		{"both stores", move.OldDecides, 0, false},
		{"both stores of a crash", move.OldDecides, 0, true},
		{"the other store", move.OldDecides, move.NewDecides, false},
		{"the store that decides", move.NewDecides, move.NewOnly, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before, after := memstore.New(), memstore.New()
				out, err := before.Acquire(background, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute, Above: 1 << 55}})
				if err = errors.Join(err, out[0].Err); err != nil {
					t.Fatal(err)
				}
				leave(t, before, store.Release{Name: "x", Holder: "h", Token: out[0].Grant.Token, State: []byte("page 7"), Retain: store.Forever})
				if test.phase == move.NewDecides || test.died {
					leave(t, after, store.Release{Name: "x", Holder: "h", Token: take(t, after, "x", "h").Token, State: []byte("page 7"), Retain: store.Forever})
				}
				if test.died {
					take(t, before, "x", "died")
					time.Sleep(time.Minute)
				}
				o := move.Options{Next: test.next, Abandoned: test.died}
				if _, err := move.Copy(background, muteStore{before}, muteStore{after}, test.phase, o); err == nil {
					t.Fatal("a copy that released nothing has no error")
				}
				if report, err := move.Copy(background, before, after, test.phase, o); err != nil || report.Taken != 1 {
					t.Errorf("soon after it: %+v, %v", report, err)
				}
				time.Sleep(10 * time.Second)
				report, err := move.Copy(background, before, after, test.phase, o)
				if err != nil || !report.Complete() || report.Copied != 1 {
					t.Errorf("after it: %+v, %v", report, err)
				}
				out, err = in(t, before, after, test.phase).Acquire(background, []store.Claim{{Name: "x", Holder: "next", TTL: time.Minute}})
				if err = errors.Join(err, out[0].Err); err != nil || out[0].Grant.ExpiredAge != 0 || string(out[0].Grant.State) != "page 7" {
					t.Errorf("granted: %+v, %v", out[0].Grant, err)
				}
			})
		})
	}
}

// TestHoldersThatLookLikeACopy: the crash of a replica is counted, whatever its host is called, and even if it copies a holder of a copy of another name.
func TestHoldersThatLookLikeACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after, other := memstore.New(), memstore.New(), memstore.New()
		leave(t, other, store.Release{Name: "other", Holder: "h", Token: take(t, other, "other", "h").Token, Retain: store.Forever})
		_, _ = move.Copy(background, muteStore{other}, muteStore{memstore.New()}, move.OldDecides, move.Options{})
		holders := []string{"move", "move/", "move/1234#abcdefghijklmnopqrst-1", "move/ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOP", records(t, other)["other"].Holder}
		for i, holder := range holders {
			take(t, before, string(rune('a'+i)), holder)
		}
		time.Sleep(time.Minute)
		report, err := move.Copy(background, before, after, move.OldDecides, move.Options{})
		if err != nil || report.Abandoned != len(holders) || report.Copied != 0 {
			t.Errorf("%+v, %v", report, err)
		}
	})
}
