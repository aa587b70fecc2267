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

// TestHalfOfAReleaseIsNotLost: a release reached the store that decides alone, and a replica in the other middle phase took the name there. The one
// who repeats the release is told that the lease is lost, and what it had written is what the other one is granted.
func TestHalfOfAReleaseIsNotLost(t *testing.T) {
	for _, silent := range []bool{false, true} { // the store that decides did not answer the claim at first
		synctest.Test(t, func(t *testing.T) {
			before, after := memstore.New(), memstore.New()
			decides := &silentStore{Store: before, silent: silent}
			s := in(t, decides, after, move.OldDecides)
			if silent {
				claimOnce(t, s, "x", "h")
				decides.silent = false
			}
			g := take(t, s, "x", "h")
			r := store.Release{Name: "x", Holder: "h", Token: g.Token, State: []byte("page 7"), Retain: store.Forever}
			leave(t, before, r)
			take(t, before, "x", "next")
			if errs, err := s.Release(background, []store.Release{r}); err != nil || !errors.Is(errs[0], store.ErrLost) {
				t.Errorf("repeated: %v, %v", errs, err)
			}
			if g := take(t, in(t, before, after, move.NewDecides), "x", "next"); string(g.State) != "page 7" {
				t.Errorf("the next holder is told %q", g.State)
			}
		})
	}
}

// TestHalfOfAReleaseIsUnknown: the same, while the other store does not respond: the next grant may be of what was there before.
func TestHalfOfAReleaseIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		g := take(t, in(t, before, after, move.OldDecides), "x", "h")
		r := store.Release{Name: "x", Holder: "h", Token: g.Token, State: []byte("page 7"), Retain: store.Forever}
		leave(t, before, r)
		take(t, before, "x", "next")
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		cut := in(t, before, silent{after}, move.OldDecides)
		if errs, err := cut.Release(ctx, []store.Release{r}); err != nil || !errors.Is(errs[0], store.ErrUnknown) {
			t.Errorf("repeated: %v, %v", errs, err)
		}
	})
}

// TestHalfOfAClaimIsNotALoss: a holder wrote to the store that decides alone and died. A claim that takes over its other lease, and is refused, does not
// free that without what was written.
func TestHalfOfAClaimIsNotALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		s := in(t, before, after, move.OldDecides)
		g := take(t, s, "x", "h")
		leave(t, before, store.Release{Name: "x", Holder: "h", Token: g.Token, State: []byte("page 7"), Retain: store.Forever})
		time.Sleep(2 * time.Minute)
		take(t, before, "x", "next") // half of a claim of a replica in the other middle phase
		if out := claimOnce(t, s, "x", "other"); !errors.Is(out.Err, store.ErrHeld) {
			t.Errorf("not refused: %+v", out)
		}
		if g := take(t, in(t, before, after, move.NewDecides), "x", "next"); string(g.State) != "page 7" {
			t.Errorf("the next holder is told %q", g.State)
		}
	})
}

// TestHalfOfARepeatedClaimIsNotALoss: as before, but the store that decides did not respond to the claim at first. A claim that is repeated is not told that the
// lease before was abandoned.
func TestHalfOfARepeatedClaimIsNotALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		decides := &silentStore{Store: before}
		s := in(t, decides, after, move.OldDecides)
		g := take(t, s, "x", "h")
		leave(t, before, store.Release{Name: "x", Holder: "h", Token: g.Token, State: []byte("page 7"), Retain: store.Forever})
		time.Sleep(2 * time.Minute)
		take(t, before, "x", "next") // half of a claim of a replica in the other middle phase
		decides.silent = true
		out := claimOnce(t, s, "x", "other")
		decides.silent = false
		if !errors.Is(out.Err, store.ErrUnknown) {
			t.Errorf("without a response: %+v", out)
		}
		if out := claimOnce(t, s, "x", "other"); !errors.Is(out.Err, store.ErrHeld) {
			t.Errorf("not refused: %+v", out)
		}
		if g := take(t, in(t, before, after, move.NewDecides), "x", "next"); string(g.State) != "page 7" {
			t.Errorf("the next holder is told %q", g.State)
		}
	})
}

// A silentStore can be silent when it is asked for claims.
type silentStore struct {
	store.Store
	silent bool
}

func (s *silentStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if s.silent {
		return nil, store.AsUnknown(context.DeadlineExceeded)
	}
	return s.Store.Acquire(ctx, claims)
}

// TestHalfOfAReleaseOutlivesARefusedClaim: a release reached the store that decides alone. A replica in the other middle phase is granted the name there, refused by
// the other store, and gives it back twice, for the first time it heard of that too late. What was released stays as it is.
func TestHalfOfAReleaseOutlivesARefusedClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		s := in(t, before, after, move.OldDecides)
		g := take(t, s, "x", "h")
		e := store.Extension{Name: "x", Holder: "h", Token: g.Token, TTL: time.Minute, State: []byte("page 6")}
		if errs, err := s.Extend(background, []store.Extension{e}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		r := store.Release{Name: "x", Holder: "h", Token: g.Token, State: []byte("page 7"), Retain: store.Forever}
		leave(t, before, r)
		deaf := &deafStore{Store: before, deaf: true}
		other := in(t, deaf, after, move.NewDecides)
		if out := claimOnce(t, other, "x", "other"); !errors.Is(out.Err, store.ErrUnknown) {
			t.Errorf("it gave back half of the claim, and did not hear of that: %+v", out)
		}
		deaf.deaf = false
		if out := claimOnce(t, other, "x", "other"); !errors.Is(out.Err, store.ErrHeld) {
			t.Errorf("not refused: %+v", out)
		}
		if errs, err := s.Release(background, []store.Release{r}); err != nil || !errors.Is(errs[0], store.ErrLost) && !errors.Is(errs[0], store.ErrUnknown) {
			t.Errorf("repeated: %v, %v", errs, err)
		}
		if g := take(t, s, "x", "next"); string(g.State) != "page 7" {
			t.Errorf("the next holder is told %q", g.State)
		}
	})
}

// TestHalfThatNobodyKnowsIsNotGivenBack: as before, but the first store did not answer the claim at first, so nobody knows what it has told of the lease before. The
// stores have different states, so the half expires.
func TestHalfThatNobodyKnowsIsNotGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		s := in(t, before, after, move.OldDecides)
		g := take(t, s, "x", "h")
		r := store.Release{Name: "x", Holder: "h", Token: g.Token, State: []byte("page 7"), Retain: store.Forever}
		leave(t, before, r)
		first := &silentStore{Store: before, silent: true}
		other := in(t, first, after, move.NewDecides)
		claim := store.Claim{Name: "x", Holder: "other", TTL: time.Minute}
		claims := []store.Claim{{Name: "another", Holder: "other", TTL: time.Minute}, claim}
		if _, err := other.Acquire(background, claims); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("without a response: %v", err)
		}
		first.silent = false
		if out := claimOnce(t, other, "x", "other"); !errors.Is(out.Err, store.ErrUnknown) {
			t.Errorf("half of the claim may have been given back: %+v", out)
		}
		if errs, err := s.Release(background, []store.Release{r}); err != nil || !errors.Is(errs[0], store.ErrLost) && !errors.Is(errs[0], store.ErrUnknown) {
			t.Errorf("repeated: %v, %v", errs, err)
		}
		time.Sleep(2 * time.Minute)
		if g := take(t, s, "x", "next"); string(g.State) != "page 7" {
			t.Errorf("the next holder is told %q", g.State)
		}
	})
}

// A deafStore can be one whose answers to releases are lost.
type deafStore struct {
	store.Store
	deaf bool
}

func (s *deafStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	errs, err := s.Store.Release(ctx, releases)
	if s.deaf {
		return nil, store.AsUnknown(context.DeadlineExceeded)
	}
	return errs, err
}

// TestHalfOfANameThatOneStoreHasNot: a half is given back as it is if the store that decides has no record of the name.
func TestHalfOfANameThatOneStoreHasNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		g := take(t, after, "x", "h")
		e := store.Extension{Name: "x", Holder: "h", Token: g.Token, TTL: time.Second, State: []byte("page 7")}
		if errs, err := after.Extend(background, []store.Extension{e}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		r := store.Release{Name: "x", Holder: "h", Token: g.Token, Retain: store.Forever}
		if errs, err := in(t, before, after, move.OldDecides).Release(background, []store.Release{r}); err != nil || !errors.Is(errs[0], store.ErrLost) {
			t.Errorf("released: %v, %v", errs, err)
		}
		if next := take(t, after, "x", "next"); string(next.State) != "page 7" {
			t.Errorf("the next holder is told %q", next.State)
		}
	})
}

// TestCrashOfANewerRecordIsTold: whoever is granted a name with the mark that the other store alone has is told too how its last holder ended.
func TestCrashOfANewerRecordIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		g := take(t, after, "x", "h")
		e := store.Extension{Name: "x", Holder: "h", Token: g.Token, TTL: time.Second, Mark: 5}
		if errs, err := after.Extend(background, []store.Extension{e}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		time.Sleep(2 * time.Minute)
		if next := take(t, in(t, before, after, move.OldDecides), "x", "next"); next.Mark != 5 || next.ExpiredAge != 2*time.Minute {
			t.Errorf("the next holder is told %+v", next)
		}
	})
}

// TestReleaseOfAClaimThatWasNeverGranted: a replica in the other middle phase has released the name in the other store, and is about to write the same to the one that
// decides. Who gives up a claim whose outcome is unknown does not put the older state there once more.
func TestReleaseOfAClaimThatWasNeverGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		s := in(t, before, after, move.OldDecides)
		g := take(t, s, "x", "h")
		leave(t, s, store.Release{Name: "x", Holder: "h", Token: g.Token, State: []byte("page 6"), Retain: store.Forever})
		o := take(t, after, "x", "other")
		leave(t, after, store.Release{Name: "x", Holder: "other", Token: o.Token, State: []byte("page 7"), Retain: store.Forever})
		truth := &silentStore{Store: before, silent: true}
		doubted := in(t, truth, after, move.OldDecides)
		if out := claimOnce(t, doubted, "x", "doubted"); !errors.Is(out.Err, store.ErrUnknown) {
			t.Fatal(out)
		}
		truth.silent = false
		errs, err := doubted.Release(background, []store.Release{{Name: "x", Holder: "doubted", Token: o.Token + 1, Retain: store.Forever}})
		if err != nil || errs[0] == nil {
			t.Errorf("released: %v, %v", errs, err)
		}
		if r := records(t, after)["x"]; string(r.State) != "page 7" || !r.Free() {
			t.Errorf("the other store has %q, free %t", r.State, r.Free())
		}
	})
}

// TestHalfThatWasGivenBackIsRemembered: a claim that got half of a name leaves the record there that was there before, for as long as it was to be kept.
func TestHalfThatWasGivenBackIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		s := in(t, before, after, move.OldDecides)
		g := take(t, s, "x", "h")
		leave(t, s, store.Release{Name: "x", Holder: "h", Token: g.Token, Mark: 7, State: []byte("page 7"), Retain: store.Forever})
		take(t, before, "x", "behind") // a replica in the phase behind
		if out := claimOnce(t, s, "x", "half"); !errors.Is(out.Err, store.ErrHeld) {
			t.Fatal(out)
		}
		time.Sleep(time.Hour)
		if n, err := after.Sweep(background, 10); n != 0 || err != nil {
			t.Errorf("%d records were forgotten, %v", n, err)
		}
		if r := records(t, after)["x"]; string(r.State) != "page 7" || r.Mark != 7 || !r.Free() {
			t.Errorf("the other store has %+v", r)
		}
	})
}
