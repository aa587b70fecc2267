package fleetmove_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/fleetmove"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

var background = context.Background()

func take(t *testing.T, s store.Store, name, holder string) store.Grant {
	t.Helper()
	out, err := s.Acquire(background, []store.Claim{{Name: name, Holder: holder, TTL: time.Minute}})
	if err == nil {
		err = out[0].Err
	}
	if err != nil {
		t.Fatalf("%s takes %s: %v", holder, name, err)
	}
	return out[0].Grant
}

func leave(t *testing.T, s store.Store, r store.Release) {
	t.Helper()
	errs, err := s.Release(background, []store.Release{r})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatalf("%s releases %s: %v", r.Holder, r.Name, err)
	}
}

// record returns the record of a name.
func record(t *testing.T, s store.Store, name string) store.Record {
	t.Helper()
	for r, err := range s.List(background, name) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Name == name {
			return r
		}
	}
	return store.Record{}
}

// A movedFleet is the replicas of two stores, and who leads them.
type movedFleet struct {
	before, after *memstore.Store
	lead          *fleetmove.Manager
}

func newMovedFleet(t *testing.T) *movedFleet {
	t.Helper()
	f := &movedFleet{before: memstore.New(), after: memstore.New()}
	f.lead = manage(t, f.before, f.after)
	return f
}

func manage(t *testing.T, before, after store.Store) *fleetmove.Manager {
	t.Helper()
	m, err := fleetmove.Manage(before, after, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// join returns the store of a replica, on handles of its own.
func (f *movedFleet) join(t *testing.T, phase move.Phase) store.Store {
	t.Helper()
	s, err := fleetmove.Join(f.before.Share(), f.after.Share(), phase, "replica of "+phase.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// claimIn returns the error of a claim by a replica that joins in a phase and leaves again.
func (f *movedFleet) claimIn(t *testing.T, phase move.Phase) error {
	t.Helper()
	s := f.join(t, phase)
	defer s.Close()
	out, err := s.Acquire(background, []store.Claim{{Name: "tried", Holder: "h", TTL: time.Second}})
	if err != nil {
		return err
	}
	if out[0].Err != nil {
		return out[0].Err
	}
	errs, err := s.Release(background, []store.Release{{Name: "tried", Holder: "h", Token: out[0].Grant.Token, Retain: store.Forever}})
	return errors.Join(append(errs, err)...)
}

// is checks the stage, that a move which is under way is not planned again, and that replicas are refused in all other phases.
func (f *movedFleet) is(t *testing.T, want fleetmove.Stage) {
	t.Helper()
	if want != finished && want != takenBack {
		if err := f.lead.Plan(background); err != nil {
			t.Errorf("planning at the stage %v: %v", want, err)
		}
	}
	s, err := f.lead.Status(background)
	if err != nil || s.Stage != want {
		t.Errorf("the stage is %v, %v; want %v", s.Stage, err, want)
	}
	for phase := move.OldOnly; phase <= move.NewOnly; phase++ {
		err := f.claimIn(t, phase)
		if want.From <= phase && phase <= want.To {
			if err != nil {
				t.Errorf("at the stage %v a replica in %v: %v", want, phase, err)
			}
		} else if !errors.Is(err, store.ErrUnusable) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("at the stage %v a replica in %v was not refused: %v", want, phase, err)
		}
	}
}

func (f *movedFleet) advance(t *testing.T, back bool, want fleetmove.Stage) {
	t.Helper()
	stage, report, err := f.lead.Advance(background, back, move.Options{})
	if err != nil || !report.Complete() || stage != want {
		t.Fatalf("advancing led to %v with %+v, %v; want %v", stage, report, err, want)
	}
}

var (
	rollToOldDecides = fleetmove.Stage{From: move.OldOnly, To: move.OldDecides}
	rollToNewDecides = fleetmove.Stage{From: move.OldDecides, To: move.NewDecides}
	rollToNewOnly    = fleetmove.Stage{From: move.NewDecides, To: move.NewOnly}
	finished         = fleetmove.Stage{From: move.NewOnly, To: move.NewOnly}
	takenBack        = fleetmove.Stage{From: move.OldOnly, To: move.OldOnly}
)

// TestStages: replicas may be in the phases of the stage and in no other one, forward and back.
func TestStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		if err := f.claimIn(t, move.OldOnly); err != nil {
			t.Errorf("without a plan the old store alone is refused: %v", err)
		}
		for phase := move.OldDecides; phase <= move.NewOnly; phase++ {
			if err := f.claimIn(t, phase); !errors.Is(err, store.ErrUnusable) || !strings.Contains(err.Error(), "not planned") {
				t.Errorf("%v without a plan: %v", phase, err)
			}
		}
		if _, _, err := f.lead.Advance(background, false, move.Options{}); !errors.Is(err, store.ErrUnusable) {
			t.Errorf("advancing without a plan: %v", err)
		}
		for range 2 {
			if err := f.lead.Plan(background); err != nil {
				t.Fatal(err)
			}
			f.is(t, rollToOldDecides)
		}
		leave(t, f.before, store.Release{Name: "state", Holder: "h", Token: take(t, f.before, "state", "h").Token, Mark: 7, State: []byte("left"), Retain: store.Forever})
		for _, step := range []struct {
			back bool
			want fleetmove.Stage
		}{
			{false, rollToNewDecides}, {false, rollToNewOnly}, {true, rollToNewDecides}, {true, rollToOldDecides}, {true, takenBack},
			{false, rollToOldDecides}, {false, rollToNewDecides}, {false, rollToNewOnly}, {false, finished}, {false, finished}, {true, rollToNewOnly}, {false, finished},
		} {
			f.advance(t, step.back, step.want)
			f.is(t, step.want)
			if step.want == takenBack {
				empty(t, f.after)
			}
		}
		if r := record(t, f.after, "state"); r.Mark != 7 || string(r.State) != "left" {
			t.Errorf("the new store has %+v", r)
		}
		if err := f.lead.Plan(background); !errors.Is(err, store.ErrUnusable) {
			t.Errorf("planning a finished move again: %v", err)
		}
		f.is(t, finished)
		third := memstore.New()
		next := &movedFleet{before: f.after, after: third, lead: manage(t, f.after, third)}
		if err := next.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		next.is(t, rollToOldDecides)
	})
}

// TestAdvanceWaitsForReplicas: while a replica is in the phase behind, nothing changes; a replica that was paused until its announcement ended
// must ask again.
func TestAdvanceWaitsForReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		if err := f.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		behind := f.join(t, move.OldOnly)
		g := take(t, behind, "x", "behind")
		leave(t, behind, store.Release{Name: "x", Holder: "behind", Token: g.Token, Retain: store.Forever})
		time.Sleep(time.Hour) // it is announced as long as it lives
		_, _, err := f.lead.Advance(background, false, move.Options{})
		var named *fleetmove.BehindError
		if !errors.As(err, &named) || !errors.Is(err, store.ErrHeld) || len(named.Replicas) != 1 || named.Replicas[0].Replica != "replica of old-only" {
			t.Fatalf("with a replica in the phase behind: %v", err)
		}
		if named.Phase != move.OldDecides || named.Replicas[0].Phase != move.OldOnly {
			t.Errorf("it is told as %+v", named)
		}
		f.is(t, rollToOldDecides)

		cut := &cutStore{Store: f.before.Share()}
		paused, err := fleetmove.Join(cut, f.after.Share(), move.OldOnly, "paused")
		if err != nil {
			t.Fatal(err)
		}
		defer paused.Close()
		g = take(t, paused, "y", "paused")
		leave(t, paused, store.Release{Name: "y", Holder: "paused", Token: g.Token, Retain: store.Forever})
		cut.cut.Store(true)
		_ = behind.Close()
		time.Sleep(5 * time.Minute) // its announcement is for longer than the minute of its claim
		f.advance(t, false, rollToNewDecides)
		cut.cut.Store(false)
		if _, err := paused.Acquire(background, []store.Claim{{Name: "y", Holder: "again", TTL: time.Minute}}); !errors.Is(err, store.ErrUnusable) {
			t.Errorf("a replica in a phase that was left has claimed: %v", err)
		}
	})
}

// A cutStore does not respond while it is cut off.
type cutStore struct {
	store.Store
	cut atomic.Bool
}

func (c *cutStore) silent(ctx context.Context) error {
	if !c.cut.Load() {
		return nil
	}
	<-ctx.Done()
	return store.AsUnknown(ctx.Err())
}

func (c *cutStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if err := c.silent(ctx); err != nil {
		return nil, err
	}
	return c.Store.Acquire(ctx, claims)
}

func (c *cutStore) Extend(ctx context.Context, e []store.Extension) ([]error, error) {
	if err := c.silent(ctx); err != nil {
		return nil, err
	}
	return c.Store.Extend(ctx, e)
}

func (c *cutStore) Release(ctx context.Context, r []store.Release) ([]error, error) {
	if err := c.silent(ctx); err != nil {
		return nil, err
	}
	return c.Store.Release(ctx, r)
}

// TestReplicaWithoutTheOtherStoreIsKnown: a replica keeps its leases while it cannot reach the store that does not decide, however long. So its announcement is in the one that decides, and the
// phase is not left meanwhile.
func TestReplicaWithoutTheOtherStoreIsKnown(t *testing.T) {
	for _, phase := range []move.Phase{move.OldDecides, move.NewDecides} {
		synctest.Test(t, func(t *testing.T) {
			f := newMovedFleet(t)
			if err := f.lead.Plan(background); err != nil {
				t.Fatal(err)
			}
			before, after := &cutStore{Store: f.before.Share()}, &cutStore{Store: f.after.Share()}
			other := after
			if phase == move.NewDecides {
				f.advance(t, false, rollToNewDecides)
				other = before
			}
			s, err := fleetmove.Join(before, after, phase, "replica")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			take(t, s, "x", "h")
			other.cut.Store(true)
			time.Sleep(time.Hour)
			status, err := f.lead.Status(background)
			if err != nil || len(status.Replicas) != 1 || status.Replicas[0].Phase != phase || status.Replicas[0].Replica != "replica" {
				t.Errorf("%v: %+v, %v, want that the replica is known", phase, status, err)
			}
		})
	}
}

// A slowList lets a test go on in the middle of a list.
type slowList struct {
	store.Store
	after  string // the name
	middle func()
}

func (s slowList) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for r, err := range s.Store.List(ctx, prefix) {
			if !yield(r, err) {
				return
			}
			if r.Name == s.after {
				s.middle()
			}
		}
	}
}

// TestManagerThatLosesAPlanStops: a manager that has lost the plan of either store copies no more, and opens nothing.
func TestManagerThatLosesAPlanStops(t *testing.T) {
	for _, lost := range []string{"old", "new"} {
		synctest.Test(t, func(t *testing.T) {
			f := newMovedFleet(t)
			if err := f.lead.Plan(background); err != nil {
				t.Fatal(err)
			}
			const names = 100
			for i := range names {
				name := fmt.Sprintf("x%02d", i)
				leave(t, f.before, store.Release{Name: name, Holder: "h", Token: take(t, f.before, name, "h").Token, Mark: 1, Retain: store.Forever})
			}
			at := f.before
			if lost == "new" {
				at = f.after
			}
			lead := manage(t, slowList{f.before, "x50", func() {
				plan := record(t, at, move.Records+"lock/plan")
				leave(t, at, store.Release{Name: plan.Name, Holder: plan.Holder, Token: plan.Token, Retain: store.Forever})
				time.Sleep(time.Minute) // it notices that
			}}, f.after)
			if _, _, err := lead.Advance(background, false, move.Options{}); !errors.Is(err, soloist.ErrLost) {
				t.Errorf("without the plan of the %s store: %v", lost, err)
			}
			if r := record(t, f.after, "x99"); r.Token != 0 {
				t.Errorf("without the plan of the %s store it goes on to copy", lost)
			}
			f.is(t, fleetmove.Stage{From: move.OldDecides, To: move.OldDecides})
		})
	}
}

// A hookedStore calls before with the first request that has the method and a name with the part.
type hookedStore struct {
	store.Store
	extends bool // else acquires
	part    string
	before  func()
	once    sync.Once
}

func (h *hookedStore) see(name string) {
	if strings.Contains(name, h.part) {
		h.once.Do(h.before)
	}
}

func (h *hookedStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if !h.extends {
		h.see(claims[0].Name)
	}
	return h.Store.Acquire(ctx, claims)
}

func (h *hookedStore) Extend(ctx context.Context, e []store.Extension) ([]error, error) {
	if h.extends {
		h.see(e[0].Name)
	}
	return h.Store.Extend(ctx, e)
}

// TestReplicaThatComesWhileThePhaseIsLeft: it is seen, and then the phase stays open; or it is refused.
func TestReplicaThatComesWhileThePhaseIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it claims just before the stage is written
		f := newMovedFleet(t)
		if err := f.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		late := f.join(t, move.OldOnly)
		hooked := &hookedStore{Store: f.before.Share(), extends: true, part: "/plan", before: func() { take(t, late, "x", "late") }}
		_, _, err := manage(t, hooked, f.after.Share()).Advance(background, false, move.Options{})
		var behind *fleetmove.BehindError
		if !errors.As(err, &behind) {
			t.Errorf("a replica came, and the stage was left: %v", err)
		}
		f.is(t, rollToOldDecides)
	})
	synctest.Test(t, func(t *testing.T) { // the stage is written just before it announces itself
		f := newMovedFleet(t)
		if err := f.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		hooked := &hookedStore{Store: f.before.Share(), part: "lock/old-only/", before: func() { f.advance(t, false, rollToNewDecides) }}
		late, err := fleetmove.Join(hooked, f.after.Share(), move.OldOnly, "late")
		if err != nil {
			t.Fatal(err)
		}
		defer late.Close()
		if _, err := late.Acquire(background, []store.Claim{{Name: "x", Holder: "late", TTL: time.Minute}}); !errors.Is(err, store.ErrUnusable) {
			t.Errorf("a replica has claimed in a phase that was left: %v", err)
		}
	})
}

// TestAnnouncementsOfTheDeadAreForgotten: replicas that died leave nothing that is kept forever.
func TestAnnouncementsOfTheDeadAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		for i := range 3 {
			name := fmt.Sprint("@soloist-move/lock/old-only/", i)
			take(t, f.before, name, "dead")
		}
		time.Sleep(time.Hour)
		if err := f.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		f.advance(t, false, rollToNewDecides)
		time.Sleep(time.Minute)
		if _, err := f.before.Sweep(background, 1000); err != nil {
			t.Fatal(err)
		}
		for r := range f.before.List(background, "@soloist-move/lock/old-only/") {
			t.Errorf("left: %+v", r)
		}
	})
}

// TestPlansThatDoNotFit: one store twice, the way back, another pair, and a store without tokens that can be raised are refused.
func TestPlansThatDoNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		third := memstore.New()
		refused := func(what string, before, after store.Store) {
			t.Helper()
			if err := manage(t, before, after).Plan(background); !errors.Is(err, store.ErrUnusable) {
				t.Errorf("%s: %v", what, err)
			}
		}
		refused("one store twice", f.before, f.before.Share())
		refused("tokens that cannot be raised", f.before, fixedTokens{f.after})
		if err := f.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		refused("the way back", f.after, f.before)
		refused("another new store", f.before, third)
		refused("another old store", third, f.after)
		f.is(t, rollToOldDecides)
		if _, _, err := manage(t, f.after, f.before).Advance(background, false, move.Options{}); !errors.Is(err, store.ErrUnusable) {
			t.Errorf("advancing the way back: %v", err)
		}
		other := f.join(t, move.OldDecides)
		take(t, other, "x", "h")
		f.lead = manage(t, f.before, f.after)
		if _, _, err := f.lead.Advance(background, true, move.Options{}); !errors.Is(err, store.ErrHeld) {
			t.Errorf("taking the plan back while a replica uses it: %v", err)
		}
	})
}

// TestPlanIntoAStoreThatWasLeft: a store that was left by a move, or tried and taken back, has records of then. They do not come back, and the store can be used when
// it is empty.
func TestPlanIntoAStoreThatWasLeft(t *testing.T) {
	for name, steps := range map[string]struct {
		advance []fleetmove.Stage
		back    bool // the last two
		again   func(*movedFleet) (from, to *memstore.Store)
	}{
		"taken back": {[]fleetmove.Stage{rollToNewDecides, rollToOldDecides, takenBack}, true, func(f *movedFleet) (from, to *memstore.Store) { return f.before, f.after }},
		"finished":   {[]fleetmove.Stage{rollToNewDecides, rollToNewOnly, finished}, false, func(f *movedFleet) (from, to *memstore.Store) { return f.after, f.before }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newMovedFleet(t)
				if err := f.lead.Plan(background); err != nil {
					t.Fatal(err)
				}
				leave(t, f.before, store.Release{Name: "element", Holder: "h", Token: take(t, f.before, "element", "h").Token, Mark: 1, Retain: time.Hour})
				for i, stage := range steps.advance {
					f.advance(t, steps.back && i > 0, stage)
				}
				from, to := steps.again(f)
				again := manage(t, from, to)
				if err := again.Plan(background); !errors.Is(err, store.ErrUnusable) || !strings.Contains(err.Error(), `"element"`) {
					t.Errorf("a plan into a store with records of another move: %v", err)
				}
				leave(t, to, store.Release{Name: "element", Holder: "h", Token: take(t, to, "element", "h").Token})
				time.Sleep(48 * time.Hour)
				if n, err := to.Sweep(background, 100); err != nil || n == 0 {
					t.Fatal(n, err)
				}
				if err := again.Plan(background); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// empty lets a store forget all records but those of the move.
func empty(t *testing.T, s *memstore.Store) {
	t.Helper()
	for r, err := range s.List(background, "") {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(r.Name, move.Records) {
			leave(t, s, store.Release{Name: r.Name, Holder: "h", Token: take(t, s, r.Name, "h").Token})
		}
	}
	time.Sleep(48 * time.Hour)
	if n, err := s.Sweep(background, 100); err != nil || n == 0 {
		t.Fatal(n, err)
	}
}

// TestMoveThatWasTakenBackBeginsAnew: a step forward of a move that was taken back is a plan, and as little as that
// does it bring back what was forgotten since.
func TestMoveThatWasTakenBackBeginsAnew(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newMovedFleet(t)
			if err := f.lead.Plan(background); err != nil {
				t.Fatal(err)
			}
			g := take(t, f.before, "element", "h")
			leave(t, f.before, store.Release{Name: "element", Holder: "h", Token: g.Token, Mark: 1, Retain: time.Hour})
			f.advance(t, false, rollToNewDecides)
			f.advance(t, true, rollToOldDecides)
			lead := manage(t, f.before.Share(), &fixedStore{Store: f.after.Share(), fixed: interrupted})
			if _, _, err := lead.Advance(background, true, move.Options{}); (err != nil) != interrupted {
				t.Fatalf("interrupted %t: %v", interrupted, err)
			}
			_, _, err := f.lead.Advance(background, false, move.Options{})
			if !errors.Is(err, store.ErrUnusable) || !strings.Contains(err.Error(), `"element"`) {
				t.Errorf("interrupted %t: a step into a store with records of before: %v", interrupted, err)
			}
			f.is(t, takenBack)
			empty(t, f.after)
			f.advance(t, false, rollToOldDecides)
			f.advance(t, false, rollToNewDecides)
		})
	}
}

// TestStatusOfOtherPairs: a manager of two stores that are not those of one move says so, and shows no stage.
func TestStatusOfOtherPairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		if s, err := f.lead.Status(background); err != nil || s.Stage != (fleetmove.Stage{}) {
			t.Errorf("without a plan: %+v, %v", s, err)
		}
		if err := f.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		other := &movedFleet{before: memstore.New(), after: memstore.New()}
		other.lead = manage(t, other.before, other.after)
		if err := other.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		for what, pair := range map[string][2]store.Store{
			"another new store": {f.before, memstore.New()}, "another old store": {memstore.New(), f.after}, "the new store of another move": {f.before, other.after},
		} {
			s, err := manage(t, pair[0], pair[1]).Status(background)
			if !errors.Is(err, store.ErrUnusable) || !strings.Contains(err.Error(), "not those of one move") || s.Stage != (fleetmove.Stage{}) {
				t.Errorf("%s: %+v, %v", what, s, err)
			}
			if _, _, err := manage(t, pair[0], pair[1]).Advance(background, false, move.Options{}); !errors.Is(err, store.ErrUnusable) {
				t.Errorf("%s: advanced: %v", what, err)
			}
		}
		if text := (fleetmove.Stage{From: move.OldDecides, To: move.OldDecides}).String() + ", " + rollToNewDecides.String(); text != "old-decides, old-decides to new-decides" {
			t.Error(text)
		}
	})
}

// TestNewStoreAlone: replicas of a later move may use its old store alone when the move that it was the new store of is finished, and not sooner; and nobody may use the
// old one of that move as if it was the new one.
func TestNewStoreAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		next := &movedFleet{before: f.after, after: memstore.New()}
		turned := &movedFleet{before: f.after, after: f.before}
		if err := f.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		for _, stage := range []fleetmove.Stage{rollToNewDecides, rollToNewOnly, finished} {
			f.advance(t, false, stage)
			if err := next.claimIn(t, move.OldOnly); errors.Is(err, store.ErrUnusable) != (stage != finished) || err != nil && stage == finished {
				t.Errorf("at %v, in the new store alone: %v", stage, err)
			}
			if err := turned.claimIn(t, move.NewOnly); !errors.Is(err, store.ErrUnusable) {
				t.Errorf("at %v, in the old store alone, as the new one: %v", stage, err)
			}
		}
	})
}

// TestNewStoreOfAMoveThatWasTakenBack: its records are old, so nobody may use it alone as the old store of a later move.
func TestNewStoreOfAMoveThatWasTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		if err := f.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		f.advance(t, true, takenBack)
		next := &movedFleet{before: f.after, after: memstore.New()}
		if err := next.claimIn(t, move.OldOnly); !errors.Is(err, store.ErrUnusable) {
			t.Errorf("in the new store alone: %v", err)
		}
	})
}

// TestPlanWithReplicas: a move is not planned while a replica is announced in a phase that is not the first, and the error says which.
func TestPlanWithReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		const name = move.Records + "lock/new-decides/x"
		g := take(t, f.after, name, "early#1")
		var ahead *fleetmove.BehindError
		if err := f.lead.Plan(background); !errors.As(err, &ahead) || ahead.Phase != move.OldOnly || len(ahead.Replicas) != 1 ||
			ahead.Replicas[0].Replica != "early" || ahead.Replicas[0].Phase != move.NewDecides || ahead.Replicas[0].Left <= 0 {
			t.Errorf("%+v, %v", ahead, err)
		}
		if s, err := f.lead.Status(background); err != nil || s.Stage != (fleetmove.Stage{}) || len(s.Replicas) != 1 {
			t.Errorf("%+v, %v", s, err)
		}
		leave(t, f.after, store.Release{Name: name, Holder: "early#1", Token: g.Token})
		if err := f.lead.Plan(background); err != nil {
			t.Error(err)
		}
	})
}

// TestCopyThatIsNotComplete: as long as a lease of the old store has no other half, the next phase is not opened.
func TestCopyThatIsNotComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		if err := f.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		g := take(t, f.before, "x", "h") // by who uses the old store alone, and is not announced
		between := fleetmove.Stage{From: move.OldDecides, To: move.OldDecides}
		for range 2 {
			if stage, report, err := f.lead.Advance(background, false, move.Options{}); err != nil || report.Complete() || stage != between {
				t.Errorf("%v, %+v, %v; want a report that is not complete, at %v", stage, report, err, between)
			}
			f.is(t, between)
		}
		leave(t, f.before, store.Release{Name: "x", Holder: "h", Token: g.Token, Retain: store.Forever})
		f.advance(t, false, rollToNewDecides)
	})
}

// TestManageChecksItsArguments: what no manager can work with is an error at once.
func TestManageChecksItsArguments(t *testing.T) {
	for what, try := range map[string]func() (*fleetmove.Manager, error){
		"no old store": func() (*fleetmove.Manager, error) { return fleetmove.Manage(nil, memstore.New(), "w") },
		"no new store": func() (*fleetmove.Manager, error) { return fleetmove.Manage(memstore.New(), nil, "w") },
		"a long name": func() (*fleetmove.Manager, error) {
			return fleetmove.Manage(memstore.New(), memstore.New(), strings.Repeat("x", 1000))
		},
	} {
		if m, err := try(); err == nil || m != nil {
			t.Errorf("%s: %v, %v", what, m, err)
		}
	}
}

// fixedTokens is a store whose backend chooses the tokens.
type fixedTokens struct{ store.Store }

func (f fixedTokens) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	outcomes, err := f.Store.Acquire(ctx, claims)
	for i, c := range claims {
		if err == nil && c.Above != 0 {
			outcomes[i].Err = errors.ErrUnsupported
		}
	}
	return outcomes, err
}

// TestInterruptedMove: a manager that dies at any request leaves a move that another one brings to its end, and replicas that may be in a phase
// are at no time more than one phase apart.
func TestInterruptedMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for after := 1; ; after++ {
			f := newMovedFleet(t)
			for i := range 3 {
				name := fmt.Sprint("x", i)
				leave(t, f.before, store.Release{Name: name, Holder: "h", Token: take(t, f.before, name, "h").Token, State: []byte("s"), Retain: store.Forever})
			}
			var left atomic.Int64
			left.Store(int64(after))
			dying := manage(t, &dyingStore{f.before.Share(), &left}, &dyingStore{f.after.Share(), &left})
			err := dying.Plan(background)
			for range 3 {
				if err == nil {
					_, _, err = dying.Advance(background, false, move.Options{})
				}
			}
			allowed := 0
			for phase := move.OldOnly; phase <= move.NewOnly; phase++ {
				if f.claimIn(t, phase) == nil {
					allowed++
				}
			}
			if allowed == 0 || allowed > 2 {
				t.Errorf("after %d requests replicas may be in %d phases", after, allowed)
			}
			time.Sleep(time.Hour) // its leases end
			if err := f.lead.Plan(background); err != nil && !finishedAlready(t, f) {
				t.Errorf("after %d requests: %v", after, err)
			}
			for range 5 {
				if _, report, err := f.lead.Advance(background, false, move.Options{Abandoned: true}); err != nil || !report.Complete() {
					t.Errorf("after %d requests: %+v, %v", after, report, err)
				}
			}
			f.is(t, finished)
			if r := record(t, f.after, "x0"); string(r.State) != "s" {
				t.Errorf("after %d requests the new store has %+v", after, r)
			}
			if err == nil {
				t.Logf("%d requests", after)
				return
			}
		}
	})
}

func finishedAlready(t *testing.T, f *movedFleet) bool {
	s, err := f.lead.Status(background)
	return err == nil && s.Stage == finished
}

// A dyingStore carries out no request after the last one.
type dyingStore struct {
	store.Store
	left *atomic.Int64 // is shared by both stores
}

var errDied = errors.New("died")

func (d *dyingStore) alive() error {
	if d.left.Add(-1) < 0 {
		return errDied
	}
	return nil
}

func (d *dyingStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	return d.Store.Acquire(ctx, claims)
}

func (d *dyingStore) Extend(ctx context.Context, e []store.Extension) ([]error, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	return d.Store.Extend(ctx, e)
}

func (d *dyingStore) Release(ctx context.Context, r []store.Release) ([]error, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	return d.Store.Release(ctx, r)
}
