package move_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// A claimedStore calls onClaim before the first claims that do not only read.
type claimedStore struct {
	store.Store
	once    *sync.Once
	onClaim func()
}

func (s claimedStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if claims[0].Mark >= 0 {
		s.once.Do(s.onClaim)
	}
	return s.Store.Acquire(ctx, claims)
}

// A filledStore calls onClaim before the first records are made, too.
type filledStore struct{ claimedStore }

func (s filledStore) Fill(ctx context.Context, fillings []store.Filling) ([]bool, error) {
	s.once.Do(s.onClaim)
	return s.Store.(store.Filler).Fill(ctx, fillings)
}

// A fullStore cannot make records as it is configured.
type fullStore struct{ store.Store }

func (fullStore) Fill(context.Context, []store.Filling) ([]bool, error) {
	return nil, errors.ErrUnsupported
}

// TestFillOfAStoreThatMakesNone: a store that cannot make records in one step gets them all the same.
func TestFillOfAStoreThatMakesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		leave(t, before, store.Release{Name: "x", Holder: "h", Token: take(t, before, "x", "h").Token, Mark: 7, Retain: store.Forever})
		report, err := move.Copy(background, before, fullStore{after}, move.OldDecides, move.Options{Next: move.NewDecides})
		if err != nil || report.Copied != 1 || records(t, after)["x"].Mark != 7 {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

// TestFillReadsWhatIsNewest: the shadow gets what the store that decides has while the shadow is taken, or when its record is made, not what was listed.
func TestFillReadsWhatIsNewest(t *testing.T) {
	for name, test := range map[string]struct {
		then func(t *testing.T, before store.Store) // after the lists, and before the claim of the copy
		want func(r move.Report, shadow store.Record) bool
	}{
		"released": {func(t *testing.T, before store.Store) {
			leave(t, before, store.Release{Name: "x", Holder: "y", Token: take(t, before, "x", "y").Token, Mark: 8, State: []byte("page 8"), Retain: store.Forever})
		}, func(r move.Report, shadow store.Record) bool {
			return r.Complete() && r.Copied == 1 && shadow.Mark == 8 && string(shadow.State) == "page 8"
		}},
		"held": {func(t *testing.T, before store.Store) {
			take(t, before, "x", "y")
		}, func(r move.Report, _ store.Record) bool { return r.Names == 1 && r.Taken == 1 && r.Copied == 0 }},
		"lingers": {func(t *testing.T, before store.Store) {
			leave(t, before, store.Release{Name: "x", Holder: "y", Token: take(t, before, "x", "y").Token, Linger: time.Minute, Retain: store.Forever})
		}, func(r move.Report, shadow store.Record) bool {
			return r.Names == 1 && r.Complete() && shadow.Mark == 7 && string(shadow.State) == "page 7"
		}},
		"died": {func(t *testing.T, before store.Store) {
			if out, err := before.Acquire(background, []store.Claim{{Name: "x", Holder: "y", TTL: time.Second}}); errors.Join(err, out[0].Err) != nil {
				t.Error(out, err)
			}
			time.Sleep(2 * time.Second)
		}, func(r move.Report, _ store.Record) bool { return r.Names == 1 && r.Abandoned == 1 && r.Copied == 0 }},
	} {
		for _, fills := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, fills %t", name, fills), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					before, after := memstore.New(), memstore.New()
					leave(t, before, store.Release{Name: "x", Holder: "h", Token: take(t, before, "x", "h").Token, Mark: 7, State: []byte("page 7"), Retain: store.Forever})
					claimed := claimedStore{after, new(sync.Once), func() { test.then(t, before) }}
					var to store.Store = claimed
					if fills {
						to = filledStore{claimed}
					}
					report, err := move.Copy(background, before, to, move.OldDecides, move.Options{Next: move.NewDecides})
					if shadow := records(t, after)["x"]; err != nil || !test.want(report, shadow) {
						t.Errorf("%+v, %v; the other store has %+v", report, err, shadow)
					}
					if r := records(t, after)["x"]; r.Holder != "" || !r.Free() {
						t.Errorf("the copy has left %+v", r)
					}
				})
			})
		}
	}
}

// TestFillWithANewerShadow: what only the shadow has, as a replica of the other middle phase left it, is not lost.
func TestFillWithANewerShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		for s, mark := range map[store.Store]int64{before: 6, after: 7} {
			leave(t, s, store.Release{Name: "x", Holder: "h", Token: take(t, s, "x", "h").Token, Mark: mark, State: fmt.Append(nil, "page ", mark), Retain: store.Forever})
		}
		report, err := move.Copy(background, before, after, move.OldDecides, move.Options{Next: move.NewDecides})
		if err != nil || !report.Complete() {
			t.Errorf("%+v, %v", report, err)
		}
		for _, s := range []store.Store{before, after} {
			if r := records(t, s)["x"]; r.Mark != 7 || string(r.State) != "page 7" {
				t.Errorf("%+v", r)
			}
		}
	})
}

// TestNextIsANeighbor: a copy for a phase that replicas do not roll to next is refused.
func TestNextIsANeighbor(t *testing.T) {
	for _, next := range []move.Phase{move.OldDecides, move.NewOnly, -1} {
		if _, err := move.Copy(background, memstore.New(), memstore.New(), move.OldDecides, move.Options{Next: next}); err == nil {
			t.Errorf("%v: no error", next)
		}
	}
}

// TestFillOfWhatOthersHaveMade: a name that gets a record of the shadow while the copy begins is copied all the same, and what it has is not written over.
func TestFillOfWhatOthersHaveMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		for _, name := range []string{"x", "y", "z"} {
			leave(t, before, store.Release{Name: name, Holder: "h", Token: take(t, before, name, "h").Token, Mark: 7, State: []byte("page 7"), Retain: store.Forever})
		}
		to := filledStore{claimedStore{after, new(sync.Once), func() {
			leave(t, after, store.Release{Name: "y", Holder: "h", Token: take(t, after, "y", "h").Token, Mark: 8, State: []byte("page 8"), Retain: store.Forever})
		}}}
		report, err := move.Copy(background, before, to, move.OldDecides, move.Options{Next: move.NewDecides})
		if err != nil || !report.Complete() || report.Names != 3 || report.Copied != 3 {
			t.Errorf("%+v, %v", report, err)
		}
		for name, mark := range map[string]int64{"x": 7, "y": 8, "z": 7} {
			for _, s := range []store.Store{before, after} {
				if r := records(t, s)[name]; r.Mark != mark || string(r.State) != fmt.Sprint("page ", mark) {
					t.Errorf("%+v; want mark %d in both stores", r, mark)
				}
			}
		}
	})
}

// A slowStore takes a while for each name.
type slowStore struct{ store.Store }

func (s slowStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	out, err := s.Store.Acquire(ctx, claims)
	time.Sleep(time.Duration(len(claims)) * 50 * time.Millisecond)
	return out, errors.Join(err, ctx.Err())
}

func (s slowStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	time.Sleep(time.Duration(len(releases)) * 50 * time.Millisecond)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s.Store.Release(ctx, releases)
}

// TestCopyOfSlowStores: batches are so small that a store which takes long has done one before its leases end.
func TestCopyOfSlowStores(t *testing.T) {
	for _, next := range []move.Phase{0, move.NewDecides} {
		synctest.Test(t, func(t *testing.T) {
			before, after := memstore.New(), memstore.New()
			for i := range 3000 {
				name := fmt.Sprint("x", i)
				leave(t, before, store.Release{Name: name, Holder: "h", Token: take(t, before, name, "h").Token, State: []byte("s"), Retain: store.Forever})
			}
			report, err := move.Copy(background, slowStore{before}, slowStore{after}, move.OldDecides, move.Options{Next: next})
			if err != nil || !report.Complete() || report.Copied != 3000 {
				t.Errorf("%+v, %v", report, err)
			}
		})
	}
}
