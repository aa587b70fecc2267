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

// TestRepeatedReleaseWritesNothing: a release of a lease that is released, with another state, leaves both stores as they were.
func TestRepeatedReleaseWritesNothing(t *testing.T) {
	for _, phase := range []move.Phase{move.OldDecides, move.NewDecides} {
		before, after := memstore.New(), memstore.New()
		both, err := move.New(before, after, phase)
		if err != nil {
			t.Fatal(err)
		}
		outcomes, err := both.Acquire(t.Context(), []store.Claim{{Name: "n", Holder: "h", TTL: time.Minute}})
		if err != nil || outcomes[0].Err != nil {
			t.Fatal(err, outcomes[0].Err)
		}
		for _, state := range []string{"first", "second"} {
			errs, err := both.Release(t.Context(), []store.Release{{
				Name: "n", Holder: "h", Token: outcomes[0].Grant.Token, State: []byte(state), Retain: store.Forever,
			}})
			if err != nil || errs[0] != nil {
				t.Fatal(err, errs[0])
			}
		}
		for i, s := range []store.Store{before, after} {
			var done *store.DoneError
			read, err := s.Acquire(t.Context(), []store.Claim{{Name: "n", Holder: "-", TTL: store.MinTTL, Mark: -1}})
			if err != nil || !errors.As(read[0].Err, &done) || string(done.Record.State) != "first" {
				t.Errorf("%v, store %d: %v %+v", phase, i, err, read)
			}
		}
	}
}

// A cutStore can carry out releases without a reply.
type cutStore struct {
	store.Store
	cut bool
}

func (s *cutStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	errs, err := s.Store.Release(ctx, releases)
	if s.cut {
		return nil, store.AsUnknown(context.DeadlineExceeded)
	}
	return errs, err
}

// TestRepeatedReleaseIsNotLost: the store that decides carried out a release, and the reply was lost. A claim of a replica in the other middle phase was
// granted by that store and refused by the other one. The release, repeated, does not say that the lease was lost, and the next holder is given what it wrote.
func TestRepeatedReleaseIsNotLost(t *testing.T) {
	other := map[move.Phase]move.Phase{move.OldDecides: move.NewDecides, move.NewDecides: move.OldDecides}
	for phase := range other {
		for _, next := range other {
			t.Run(phase.String()+"/"+next.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					before, after := &cutStore{Store: memstore.New()}, &cutStore{Store: memstore.New()}
					s := in(t, before, after, phase)
					g := take(t, s, "x", "h")
					r := store.Release{Name: "x", Holder: "h", Token: g.Token, State: []byte("page 7"), Retain: store.Forever}
					before.cut, after.cut = true, true
					if errs, err := s.Release(t.Context(), []store.Release{r}); !errors.Is(errors.Join(append(errs, err)...), store.ErrUnknown) {
						t.Fatal(errs, err)
					}
					before.cut, after.cut = false, false
					if out := claimOnce(t, in(t, before, after, other[phase]), "x", "half"); !errors.Is(out.Err, store.ErrHeld) {
						t.Fatal(out)
					}
					for range 2 {
						if errs, err := s.Release(t.Context(), []store.Release{r}); err != nil || !errors.Is(errs[0], store.ErrUnknown) {
							t.Errorf("repeated: %v, %v", errs, err)
						}
					}
					if g := take(t, in(t, before, after, next), "x", "next"); string(g.State) != "page 7" {
						t.Errorf("the next holder is given %q", g.State)
					}
				})
			})
		}
	}
}

// A stillStore does not hear releases while it is still.
type stillStore struct {
	store.Store
	still bool
}

func (s *stillStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if s.still {
		return nil, store.AsUnknown(context.DeadlineExceeded)
	}
	return s.Store.Release(ctx, releases)
}

// TestConfirmedReleaseThatIsRepeatedIsNotLost: a release was confirmed, although the other store has not heard it, and the reply was lost on its way. A claim of a replica
// in the other middle phase was granted by the store that decides here, and refused by the other one: nobody else has had the lease.
func TestConfirmedReleaseThatIsRepeatedIsNotLost(t *testing.T) {
	for phase, other := range map[move.Phase]move.Phase{move.OldDecides: move.NewDecides, move.NewDecides: move.OldDecides} {
		t.Run(phase.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before, after := &stillStore{Store: memstore.New()}, &stillStore{Store: memstore.New()}
				shadow := after
				if phase == move.NewDecides {
					shadow = before
				}
				s := in(t, before, after, phase)
				r := store.Release{Name: "x", Holder: "h", Token: take(t, s, "x", "h").Token, Retain: store.Forever}
				release := func() error {
					errs, err := s.Release(background, []store.Release{r})
					return errors.Join(append(errs, err)...)
				}
				shadow.still = true
				if err := release(); err != nil {
					t.Fatal(err)
				}
				shadow.still = false
				if out := claimOnce(t, in(t, before, after, other), "x", "half"); !errors.Is(out.Err, store.ErrHeld) {
					t.Fatal(out)
				}
				if err := release(); !errors.Is(err, store.ErrUnknown) {
					t.Errorf("repeated: %v, want that it is unknown", err)
				}
			})
		})
	}
}
