package fleetmove_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/fleetmove"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// A fixedStore refuses to write states while it is fixed, but for the next ones that are spared.
type fixedStore struct {
	store.Store
	fixed  bool
	spared int
}

func (s *fixedStore) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	for _, e := range extensions {
		if !s.fixed || e.State == nil {
			continue
		}
		if s.spared--; s.spared < 0 {
			return nil, errors.New("read only")
		}
	}
	return s.Store.Extend(ctx, extensions)
}

// TestPlanThatIsHalfWritten: what could not be written to both stores is an error each time, and is written at last,
// also if the new store has records already: these are not of a move that has left it.
func TestPlanThatIsHalfWritten(t *testing.T) {
	for what, halves := range map[string]func(before, after *fixedStore){
		"the old store":                          func(before, _ *fixedStore) { before.fixed = true },
		"the new store":                          func(_, after *fixedStore) { after.fixed = true },
		"the new store, when the old one has it": func(_, after *fixedStore) { after.fixed, after.spared = true, 1 },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newMovedFleet(t)
				r := store.Release{Name: "in the new store", Holder: "h", Retain: store.Forever}
				r.Token = take(t, f.after, r.Name, "h").Token
				leave(t, f.after, r)
				before, after := &fixedStore{Store: f.before.Share()}, &fixedStore{Store: f.after.Share()}
				lead := manage(t, before, after)
				halves(before, after)
				for range 2 {
					if err := lead.Plan(background); err == nil {
						t.Error("half of a plan is no error")
					}
				}
				if err := f.claimIn(t, move.OldDecides); !errors.Is(err, store.ErrUnusable) {
					t.Errorf("a replica in old-decides: %v", err)
				}
				before.fixed, after.fixed = false, false
				if err := lead.Plan(background); err != nil {
					t.Fatal(err)
				}
				f.is(t, rollToOldDecides)
			})
		})
	}
}

// TestStageThatIsHalfWritten: only what both stores allow is allowed, whether the fleet goes forward or back.
func TestStageThatIsHalfWritten(t *testing.T) {
	for _, back := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newMovedFleet(t)
			if err := f.lead.Plan(background); err != nil {
				t.Fatal(err)
			}
			f.advance(t, false, rollToNewDecides)
			after := &fixedStore{Store: f.after.Share(), fixed: true}
			if _, _, err := manage(t, f.before.Share(), after).Advance(background, back, move.Options{}); err == nil {
				t.Error("half of a stage is no error")
			}
			left, kept := move.OldDecides, move.NewDecides
			if back {
				left, kept = kept, left
			}
			f.is(t, fleetmove.Stage{From: kept, To: kept})
			if err := f.claimIn(t, left); !errors.Is(err, store.ErrUnusable) {
				t.Errorf("back %t: a replica in %v, which one store has left: %v", back, left, err)
			}
		})
	}
}

// TestEndThatIsHalfWritten: a move that is over for the old store alone was interrupted, and is over when the step is repeated. One that begins is not.
func TestEndThatIsHalfWritten(t *testing.T) {
	for _, back := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newMovedFleet(t)
			interrupted := func(want bool) {
				t.Helper()
				if s, err := f.lead.Status(background); err != nil || s.Interrupted != want {
					t.Errorf("back %t: at the stage %v interrupted is %t, %v; want %t", back, s.Stage, s.Interrupted, err, want)
				}
			}
			after := &fixedStore{Store: f.after.Share(), fixed: true, spared: 1}
			lead := manage(t, f.before.Share(), after)
			if err := lead.Plan(background); err == nil {
				t.Error("half of a plan is no error")
			}
			interrupted(false)
			if err := f.lead.Plan(background); err != nil {
				t.Fatal(err)
			}
			want := takenBack
			if !back {
				f.advance(t, false, rollToNewDecides)
				f.advance(t, false, rollToNewOnly)
				want = finished
			}
			interrupted(false)
			if _, _, err := lead.Advance(background, back, move.Options{}); err == nil {
				t.Error("half of an end is no error")
			}
			interrupted(true)
			if err := f.lead.Plan(background); !errors.Is(err, store.ErrUnusable) {
				t.Errorf("back %t: half of an end is planned again: %v", back, err)
			}
			interrupted(true)
			f.is(t, want)
			f.advance(t, back, want)
			interrupted(false)
		})
	}
}

// TestEveryClaimAsksFirst: a claim that chooses among names, and one that waits in line, are refused as others are in a phase that is not open.
func TestEveryClaimAsksFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		claim := store.Claim{Name: "x", Holder: "h", TTL: time.Minute}
		choice := claim
		choice.Name = ""
		for _, open := range []bool{false, true} {
			for verb, do := range map[string]func(store.Store) error{
				"choose": func(s store.Store) error {
					_, g, err := as[store.Chooser](t, s).Choose(background, []string{"x", "y"}, choice)
					if err == nil {
						leave(t, s, store.Release{Name: "x", Holder: "h", Token: g.Token})
					}
					return err
				},
				"queue": func(s store.Store) error {
					g, _, err := as[store.Queuer](t, s).Queue(background, claim)
					if err == nil {
						leave(t, s, store.Release{Name: "x", Holder: "h", Token: g.Token})
					}
					return err
				},
			} {
				phase := move.NewOnly
				if open {
					phase = move.OldOnly
				}
				s := f.join(t, phase)
				if err := do(s); open && err != nil || !open && !errors.Is(err, store.ErrUnusable) {
					t.Errorf("%s in the phase %v: %v", verb, phase, err)
				}
				_ = s.Close()
			}
		}
		both := f.join(t, move.OldDecides) // which has neither
		_, _, errChoose := as[store.Chooser](t, both).Choose(background, []string{"x"}, choice)
		_, _, errQueue := as[store.Queuer](t, both).Queue(background, claim)
		left, errLeave := as[store.Queuer](t, both).Leave(background, "x", "h")
		if left {
			t.Error("it was in a line that there is not")
		}
		for verb, err := range map[string]error{"choose": errChoose, "queue": errQueue, "leave": errLeave} {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s in a phase of both stores: %v, want that it is not supported", verb, err)
			}
		}
	})
}

// TestListThatHasAnother: a replica of a store with late lists does not take the announcement of another one, which is listed, for its own.
func TestListThatHasAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		join := func(name string) store.Store {
			s, err := fleetmove.Join(lateStore{before.Share()}, lateStore{after.Share()}, move.OldOnly, name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
		take(t, join("first"), "x", "first")
		begun := time.Now()
		take(t, join("second"), "y", "second")
		if waited := time.Since(begun); waited < listLag {
			t.Errorf("the second has claimed after %v, when no list had it", waited)
		}
	})
}

// A haltedStore carries out the claims of names that are not of the move after something else has happened, however long that takes: as if the machine was suspended meanwhile,
// which contexts do not notice.
type haltedStore struct {
	*memstore.Store
	meanwhile func()
}

func (s haltedStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if !strings.HasPrefix(claims[0].Name, move.Records) {
		s.meanwhile()
		ctx = background
	}
	return s.Store.Acquire(ctx, claims)
}

func (s haltedStore) Queue(_ context.Context, c store.Claim) (store.Grant, time.Duration, error) {
	s.meanwhile()
	return s.Store.Queue(background, c)
}

func (s haltedStore) Choose(_ context.Context, names []string, c store.Claim) (int, store.Grant, error) {
	s.meanwhile()
	return s.Store.Choose(background, names, c)
}

// TestClaimThatWasSuspended: what is granted to a replica whose announcement has ended meanwhile is not believed: the fleet may have left its phase.
func TestClaimThatWasSuspended(t *testing.T) {
	claim := store.Claim{Name: "x", Holder: "h", TTL: time.Hour}
	for verb, do := range map[string]func(*testing.T, store.Store) error{
		"acquire": func(t *testing.T, s store.Store) error {
			out, err := s.Acquire(background, []store.Claim{claim, {Name: "x", Holder: "other", TTL: time.Hour}})
			if err == nil && !errors.Is(out[1].Err, store.ErrHeld) {
				t.Errorf("a refusal beside it: %v", out[1].Err)
			}
			if err == nil {
				err = out[0].Err
			}
			return err
		},
		"queue": func(t *testing.T, s store.Store) error {
			_, _, err := as[store.Queuer](t, s).Queue(background, claim)
			return err
		},
		"choose": func(t *testing.T, s store.Store) error {
			choice := claim
			choice.Name = ""
			_, _, err := as[store.Chooser](t, s).Choose(background, []string{"x", "y"}, choice)
			return err
		},
	} {
		for _, goesOn := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f := newMovedFleet(t)
				if err := f.lead.Plan(background); err != nil {
					t.Fatal(err)
				}
				s, err := fleetmove.Join(haltedStore{f.before.Share(), func() {
					if !goesOn {
						return
					}
					for r, err := range f.before.List(background, move.Records+"lock/") {
						if err != nil {
							t.Fatal(err)
						}
						if r.Holder != "" { // the announcement ends
							leave(t, f.before, store.Release{Name: r.Name, Holder: r.Holder, Token: r.Token})
						}
					}
					time.Sleep(time.Minute)
					f.advance(t, false, rollToNewDecides)
					f.advance(t, false, rollToNewOnly)
				}}, f.after.Share(), move.OldOnly, "suspended")
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if err := do(t, s); goesOn && !errors.Is(err, store.ErrUnknown) || !goesOn && err != nil {
					t.Errorf("%s, while the fleet goes on %t: %v", verb, goesOn, err)
				}
			})
		}
	}
}

// as returns what a store has of an interface.
func as[T any](t *testing.T, s store.Store) T {
	t.Helper()
	it, ok := store.As[T](s)
	if !ok {
		t.Fatalf("%T lacks it", s)
	}
	return it
}

// A goneStore responds to nothing.
type goneStore struct{ store.Store }

func (goneStore) Acquire(context.Context, []store.Claim) ([]store.Outcome, error) {
	return nil, errors.New("gone")
}

// TestPhaseOfOneStoreNeedsNoOther: a replica that uses one of the stores alone works while the other one does not respond.
func TestPhaseOfOneStoreNeedsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		if err := f.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		works := func(before, after store.Store, phase move.Phase) {
			t.Helper()
			s, err := fleetmove.Join(before, after, phase, "replica")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			leave(t, s, store.Release{Name: "x", Holder: "h", Token: take(t, s, "x", "h").Token, Retain: store.Forever})
		}
		works(f.before.Share(), goneStore{f.after.Share()}, move.OldOnly)
		for _, stage := range []fleetmove.Stage{rollToNewDecides, rollToNewOnly} {
			f.advance(t, false, stage)
		}
		works(goneStore{f.before.Share()}, f.after.Share(), move.NewOnly)
	})
}
