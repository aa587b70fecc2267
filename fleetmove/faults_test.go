package fleetmove_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/fleetmove"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// A fault lets one request to either store fail, the at-th, or else lose its answer.
type fault struct {
	at   int
	lost bool

	mu    sync.Mutex // leases are renewed meanwhile
	asked int
	over  bool // from here on nothing fails, or counts
}

// meets reports whether the next request is the one that fails.
func (f *fault) meets() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return false
	}
	f.asked++
	return f.asked == f.at
}

func (f *fault) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
}

var errOnce = errors.New("once")

// A faultyStore has a fault, which it may share with others.
type faultyStore struct {
	store.Store
	*fault
}

// through carries out a request, unless it is the one that fails.
func through[T any](f *fault, carryOut func() (T, error)) (T, error) {
	switch {
	case !f.meets():
		return carryOut()
	case f.lost:
		_, _ = carryOut()
		var none T
		return none, store.AsUnknown(errOnce)
	}
	var none T
	return none, errOnce
}

func (s faultyStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	return through(s.fault, func() ([]store.Outcome, error) { return s.Store.Acquire(ctx, claims) })
}

func (s faultyStore) Extend(ctx context.Context, e []store.Extension) ([]error, error) {
	return through(s.fault, func() ([]error, error) { return s.Store.Extend(ctx, e) })
}

func (s faultyStore) Release(ctx context.Context, r []store.Release) ([]error, error) {
	return through(s.fault, func() ([]error, error) { return s.Store.Release(ctx, r) })
}

func (s faultyStore) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	if s.meets() {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, errOnce) }
	}
	return s.Store.List(ctx, prefix)
}

// everyFault calls try with a fault at each request that try makes, in turns, until it makes fewer.
func everyFault(t *testing.T, try func(t *testing.T, f *fault)) {
	t.Helper()
	for _, lost := range []bool{false, true} {
		f := &fault{}
		for at := 1; f.asked >= f.at; at++ { // nobody uses f any more when its bubble has ended
			f = &fault{at: at, lost: lost}
			t.Run(fmt.Sprintf("%d, lost %t", at, lost), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { try(t, f) }) })
		}
	}
}

// A request that fails once is reported, or made up for: who is told of no error finds the move where it was to be, and who is told of one brings it there with the next
// call.
func TestStepThatFailsOnce(t *testing.T) {
	everyFault(t, func(t *testing.T, f *fault) {
		fleet := &movedFleet{before: memstore.New(), after: memstore.New()}
		fleet.lead = manage(t, faultyStore{fleet.before.Share(), f}, faultyStore{fleet.after.Share(), f})
		seen := manage(t, fleet.before.Share(), fleet.after.Share())
		far, err := fleet.before.Acquire(background, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute, Above: 1 << 55}})
		if err = errors.Join(err, far[0].Err); err != nil {
			t.Fatal(err)
		}
		last := far[0].Grant.Token
		leave(t, fleet.before, store.Release{Name: "x", Holder: "h", Token: last, Mark: 7, State: []byte("left"), Retain: store.Forever})
		plan := func() error { return fleet.lead.Plan(background) }
		advance := func() error {
			_, report, err := fleet.lead.Advance(background, false, move.Options{})
			if err == nil && !report.Complete() {
				t.Errorf("%+v, without an error", report)
			}
			return err
		}
		is := func(want fleetmove.Stage) bool {
			s, err := seen.Status(background)
			return err == nil && s.Stage == want
		}
		for _, step := range []struct {
			call func() error
			want fleetmove.Stage
		}{{plan, rollToOldDecides}, {advance, rollToNewDecides}, {advance, rollToNewOnly}, {advance, finished}} {
			err := step.call()
			if err != nil && !errors.Is(err, errOnce) {
				t.Errorf("to %v: %v", step.want, err)
			}
			if err == nil && !is(step.want) {
				t.Errorf("no error, and the move is not at %v", step.want)
			}
			time.Sleep(time.Hour) // what it could not release has ended
			if err != nil && !is(step.want) {
				if err := step.call(); err != nil || !is(step.want) {
					t.Errorf("to %v, the second time: %v", step.want, err)
				}
			}
			if step.want != rollToNewDecides && step.want != rollToNewOnly {
				continue
			}
			if report, err := move.Compare(background, fleet.before, fleet.after, step.want.From, step.want.To); err != nil || !report.Complete() {
				t.Errorf("%v is open, and the copy before it is not complete: %+v, %v", step.want.To, report, err)
			}
		}
		if g := take(t, fleet.after, "x", "next"); g.Mark != 7 || string(g.State) != "left" || g.Token <= last {
			t.Errorf("the new store grants %+v after the token %d", g, last)
		}
	})
}

// A move whose end failed once, and was repeated, is over for both stores: the next one can be planned.
func TestEndThatFailsOnce(t *testing.T) {
	for what, back := range map[string]bool{"finished": false, "taken back": true} {
		t.Run(what, func(t *testing.T) {
			everyFault(t, func(t *testing.T, f *fault) {
				fleet := newMovedFleet(t)
				if err := fleet.lead.Plan(background); err != nil {
					t.Fatal(err)
				}
				want := takenBack
				if !back {
					fleet.advance(t, false, rollToNewDecides)
					fleet.advance(t, false, rollToNewOnly)
					want = finished
				}
				lead := manage(t, faultyStore{fleet.before.Share(), f}, faultyStore{fleet.after.Share(), f})
				if _, _, err := lead.Advance(background, back, move.Options{}); err != nil {
					f.end()
					time.Sleep(time.Hour) // what it could not release has ended
					fleet.advance(t, back, want)
				}
				f.end()
				fleet.is(t, want)
				next := manage(t, fleet.before, fleet.after)
				if !back {
					next = manage(t, fleet.after, memstore.New())
				}
				if err := next.Plan(background); err != nil {
					t.Errorf("the next move: %v", err)
				}
			})
		})
	}
}

// Whatever request of a step back fails once, the phase that the step opens is open when both stores have it, and not before.
func TestPhaseThatOneStoreHasOpened(t *testing.T) {
	everyFault(t, func(t *testing.T, f *fault) {
		fleet := newMovedFleet(t)
		if err := fleet.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		fleet.advance(t, false, rollToNewDecides)
		fleet.advance(t, false, rollToNewOnly)
		_, _, err := manage(t, faultyStore{fleet.before.Share(), f}, faultyStore{fleet.after.Share(), f}).Advance(background, true, move.Options{})
		f.end()
		var have []bool
		for _, s := range []store.Store{fleet.before, fleet.after} {
			have = append(have, strings.Contains(string(record(t, s, move.Records+"lock/plan").State), `"from":"old-decides"`))
		}
		if in := fleet.claimIn(t, move.OldDecides); (in == nil) != (have[0] && have[1]) || err == nil && in != nil {
			t.Errorf("after %v the stores have the phase: %t; a replica in it: %v", err, have, in)
		}
	})
}

// Whatever request fails once, the phase behind is not left while a replica is in it, and it is when the replica has gone.
func TestPhaseBehindIsNotLeftInAFault(t *testing.T) {
	everyFault(t, func(t *testing.T, f *fault) {
		fleet := newMovedFleet(t)
		if err := fleet.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		behind := fleet.join(t, move.OldOnly)
		g := take(t, behind, "x", "behind")
		lead := manage(t, faultyStore{fleet.before.Share(), f}, faultyStore{fleet.after.Share(), f})
		var named *fleetmove.BehindError
		if stage, _, err := lead.Advance(background, false, move.Options{}); !errors.As(err, &named) && !errors.Is(err, errOnce) {
			t.Errorf("advanced to %v, %v", stage, err)
		}
		if s, err := fleet.lead.Status(background); err != nil || s.Stage != rollToOldDecides {
			t.Errorf("the stage is %v, %v", s.Stage, err)
		}
		leave(t, behind, store.Release{Name: "x", Holder: "behind", Token: g.Token, Retain: store.Forever})
		_ = behind.Close()
		time.Sleep(time.Hour)
		fleet.advance(t, false, rollToNewDecides)
	})
}

// What a manager cannot read it does not take for nothing.
func TestStatusThatCannotBeRead(t *testing.T) {
	everyFault(t, func(t *testing.T, f *fault) {
		fleet := newMovedFleet(t)
		if err := fleet.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		take(t, fleet.join(t, move.OldOnly), "x", "h")
		s, err := manage(t, faultyStore{fleet.before.Share(), f}, faultyStore{fleet.after.Share(), f}).Status(background)
		f.end()
		if met := f.asked >= f.at; met != errors.Is(err, errOnce) || !met && (err != nil || s.Stage != rollToOldDecides || len(s.Replicas) != 1) {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// A record in the place of a plan that is none is an error that names it, to managers and to replicas, and stays as it is.
func TestRecordThatIsNoPlan(t *testing.T) {
	for which := range 2 {
		synctest.Test(t, func(t *testing.T) {
			f := newMovedFleet(t)
			if err := f.lead.Plan(background); err != nil {
				t.Fatal(err)
			}
			const name = move.Records + "lock/plan"
			s := []store.Store{f.before, f.after}[which]
			leave(t, s, store.Release{Name: name, Holder: "h", Token: take(t, s, name, "h").Token, State: []byte("page 7"), Retain: store.Forever})
			_, errStatus := f.lead.Status(background)
			_, _, errAdvance := f.lead.Advance(background, false, move.Options{})
			for what, err := range map[string]error{"status": errStatus, "plan": f.lead.Plan(background), "advance": errAdvance, "a replica": f.claimIn(t, move.OldDecides)} {
				if !errors.Is(err, store.ErrUnusable) || !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %v; want ErrUnusable and the record's name", what, err)
				}
			}
			if r := record(t, s, name); string(r.State) != "page 7" {
				t.Errorf("the record is %+v now", r)
			}
		})
	}
}

// Whatever request fails once, a replica is not let into a phase that is not open, and one that is refused for the fault is let in with its next claim where it is.
func TestReplicaThatJoinsInAFault(t *testing.T) {
	for _, c := range []struct {
		phase move.Phase
		steps int // that the move has gone
		open  bool
	}{{move.OldOnly, 0, true}, {move.OldOnly, 1, false}, {move.NewDecides, 0, false}, {move.NewDecides, 1, true}, {move.NewOnly, 1, false}, {move.NewOnly, 2, true}} {
		t.Run(fmt.Sprintf("%v after %d steps", c.phase, c.steps), func(t *testing.T) {
			everyFault(t, func(t *testing.T, f *fault) {
				fleet := newMovedFleet(t)
				if err := fleet.lead.Plan(background); err != nil {
					t.Fatal(err)
				}
				for i := range c.steps {
					fleet.advance(t, false, []fleetmove.Stage{rollToNewDecides, rollToNewOnly}[i])
				}
				s, err := fleetmove.Join(faultyStore{fleet.before.Share(), f}, faultyStore{fleet.after.Share(), f}, c.phase, "r")
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				claim := func(holder string) error {
					outs, err := s.Acquire(background, []store.Claim{{Name: "x", Holder: holder, TTL: time.Second}})
					if err == nil {
						err = outs[0].Err
					}
					return err
				}
				err = claim("first")
				if (err == nil || errors.Is(err, store.ErrUnusable)) && (err == nil) != c.open || err != nil && !errors.Is(err, errOnce) && !errors.Is(err, store.ErrUnusable) && !strings.Contains(err.Error(), errOnce.Error()) {
					t.Errorf("at first: %v", err)
				}
				f.end()
				time.Sleep(time.Minute)
				if err := claim("second"); (err == nil) != c.open || !c.open && !errors.Is(err, store.ErrUnusable) {
					t.Errorf("then: %v", err)
				}
			})
		})
	}
}

// While nobody can list the replicas of a store, nothing is planned and no phase is left.
func TestReplicasThatCannotBeListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		blind := manage(t, blindStore{f.before.Share()}, f.after.Share())
		if err := blind.Plan(background); !errors.Is(err, errOnce) {
			t.Errorf("planned: %v", err)
		}
		if s, err := f.lead.Status(background); err != nil || s.Stage != (fleetmove.Stage{}) {
			t.Errorf("%+v, %v; want no plan", s, err)
		}
		if err := f.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		if stage, _, err := blind.Advance(background, false, move.Options{}); !errors.Is(err, errOnce) {
			t.Errorf("advanced to %v, %v", stage, err)
		}
		f.is(t, rollToOldDecides)
	})
}

// A blindStore cannot list.
type blindStore struct{ store.Store }

func (blindStore) List(context.Context, string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) { yield(store.Record{}, errOnce) }
}

// TestBurialThatFailsOnce: whatever request fails once, the dead are forgotten when a step has succeeded.
func TestBurialThatFailsOnce(t *testing.T) {
	everyFault(t, func(t *testing.T, f *fault) {
		fleet := newMovedFleet(t)
		if err := fleet.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		const dead = move.Records + "lock/old-only/"
		for i, s := range []store.Store{fleet.before, fleet.after} {
			for n := range 2 {
				take(t, s, fmt.Sprint(dead, i, n), "dead#1")
			}
		}
		time.Sleep(time.Hour)
		lead := manage(t, faultyStore{fleet.before.Share(), f}, faultyStore{fleet.after.Share(), f})
		_, _, err := lead.Advance(background, false, move.Options{})
		f.end()
		if err != nil {
			if !errors.Is(err, errOnce) {
				t.Error(err)
			}
			time.Sleep(time.Hour) // what it could not release has ended
			_, report, err := fleet.lead.Advance(background, false, move.Options{})
			if err != nil || !report.Complete() {
				t.Errorf("the next step: %+v, %v", report, err)
			}
		}
		time.Sleep(time.Minute)
		for _, s := range []*memstore.Store{fleet.before, fleet.after} {
			if _, err := s.Sweep(background, 1000); err != nil {
				t.Fatal(err)
			}
			for r, err := range s.List(background, dead) {
				t.Errorf("left: %+v, %v", r, err)
			}
		}
	})
}

// A dimStore cannot list all.
type dimStore struct{ store.Store }

func (s dimStore) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	if prefix == "" {
		return blindStore(s).List(ctx, prefix)
	}
	return s.Store.List(ctx, prefix)
}

// TestStoreThatWasLeftAndCannotBeListed: while nobody can see whether a store that was left by a move is empty, no
// other move is planned into it.
func TestStoreThatWasLeftAndCannotBeListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		if err := f.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		f.advance(t, true, takenBack)
		if err := manage(t, f.before, dimStore{f.after}).Plan(background); !errors.Is(err, errOnce) {
			t.Errorf("planned: %v", err)
		}
		f.is(t, takenBack)
		if err := f.lead.Plan(background); err != nil {
			t.Error(err)
		}
	})
}

// TestPlanOfAnotherManagerInOneStore: who finds that another one changes the plan, in whichever store, is told that
// it is held, and leaves the other plan free.
func TestPlanOfAnotherManagerInOneStore(t *testing.T) {
	const name = move.Records + "lock/plan"
	for which := range 2 {
		synctest.Test(t, func(t *testing.T) {
			f := newMovedFleet(t)
			stores := []store.Store{f.before, f.after}
			g := take(t, stores[which], name, "another#1")
			_, _, errAdvance := f.lead.Advance(background, false, move.Options{})
			for what, err := range map[string]error{"plan": f.lead.Plan(background), "advance": errAdvance} {
				var held *soloist.HeldError
				if !errors.As(err, &held) || held.Holder != "another#1" || errors.Is(err, store.ErrUnusable) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if r := record(t, stores[1-which], name); !r.Free() {
				t.Errorf("the plan of the other store is left as %+v", r)
			}
			r := store.Release{Name: name, Holder: "another#1", Token: g.Token, Retain: store.Forever}
			leave(t, stores[which], r)
			if err := f.lead.Plan(background); err != nil {
				t.Error(err)
			}
		})
	}
}
