package move_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// A refusing store says that every lease it is asked to extend or release is lost.
type refusing struct{ store.Store }

func (refusing) Extend(_ context.Context, extensions []store.Extension) ([]error, error) {
	return lost(len(extensions)), nil
}

func (refusing) Release(_ context.Context, releases []store.Release) ([]error, error) {
	return lost(len(releases)), nil
}

func lost(n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = store.ErrLost
	}
	return errs
}

// TestWhatOneStoreRefusesIsUnknown: what the store that decides has recorded, and the other one has refused, is neither done nor lost.
func TestWhatOneStoreRefusesIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := memstore.New()
		s := in(t, before, refusing{memstore.New()}, move.OldDecides)
		g := take(t, s, "x", "h")
		unknown := func(what string, errs []error, err error) {
			t.Helper()
			if err != nil || !errors.Is(errs[0], store.ErrUnknown) || errors.Is(errs[0], store.ErrLost) {
				t.Errorf("%s: %v, %v, want an unknown outcome", what, errs, err)
			}
		}
		errs, err := s.Extend(background, []store.Extension{{Name: "x", Holder: "h", Token: g.Token, TTL: time.Minute, State: []byte("page 7")}})
		unknown("a state", errs, err)
		errs, err = s.Release(background, []store.Release{{Name: "x", Holder: "h", Token: g.Token, Mark: 3, Retain: store.Forever}})
		unknown("a mark", errs, err)
	})
}

// TestWhatTheOtherStoreAloneHasIsGranted: a replica of the other middle phase has left a mark and a state in the store that does not decide here. The next holder is
// granted them, and the store that decides has them from then on.
func TestWhatTheOtherStoreAloneHasIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		for s, r := range map[store.Store]store.Release{
			before: {Mark: 3, State: []byte("page 3")},
			after:  {Mark: 7, State: []byte("page 7")},
		} {
			r.Name, r.Holder, r.Token, r.Retain = "x", "h", take(t, s, "x", "h").Token, store.Forever
			leave(t, s, r)
		}
		s := in(t, before, after, move.OldDecides)
		g := take(t, s, "x", "next")
		if g.Mark != 7 || string(g.State) != "page 7" {
			t.Errorf("granted: mark %d and state %q", g.Mark, g.State)
		}
		if r := records(t, before)["x"]; r.Mark != 7 || string(r.State) != "page 7" {
			t.Errorf("the store that decides has the mark %d and the state %q", r.Mark, r.State)
		}
	})
}

// TestCopyReleasesTheDecidingStoreFirst: if that fails, the name stays taken in the other store, so that nobody is granted what only that one has.
func TestCopyReleasesTheDecidingStoreFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		leave(t, before, store.Release{Name: "x", Holder: "h", Token: take(t, before, "x", "h").Token, State: []byte("page 7"), Retain: store.Forever})
		if _, err := move.Copy(background, refusing{before}, after, move.OldDecides, move.Options{}); err == nil {
			t.Error("a copy that could not release a name has no error")
		}
		if r := records(t, after)["x"]; r.Free() || r.Holder == "" {
			t.Errorf("the other store has %+v, want that it is held", r)
		}
	})
}

// A promising store is a store with other promises.
type promising struct {
	store.Store
	answer store.Answer
	scope  store.Scope
}

func (p promising) Capabilities(context.Context) (store.Capabilities, error) {
	promise := store.Promise{Answer: p.answer, Why: string(p.scope)}
	return store.Capabilities{Backend: string(p.scope), Scope: p.scope, Fencing: promise, Durable: promise, Waiting: promise}, nil
}

// TestMovePromisesWhatBothStoresDo: whichever of the two decides.
func TestMovePromisesWhatBothStoresDo(t *testing.T) {
	for _, test := range []struct {
		one, two, want store.Answer
		scopes         [2]store.Scope
		scope          store.Scope
	}{
		{store.Yes, store.Yes, store.Yes, [2]store.Scope{store.ScopeFleet, store.ScopeFleet}, store.ScopeFleet},
		{store.Yes, store.Unknown, store.Unknown, [2]store.Scope{store.ScopeFleet, store.ScopeHost}, store.ScopeHost},
		{store.Yes, store.No, store.No, [2]store.Scope{store.ScopeFleet, store.ScopeProcess}, store.ScopeProcess},
		{store.Yes, store.Yes, store.Yes, [2]store.Scope{"", store.ScopeFleet}, store.ScopeFleet},
		{store.Yes, store.Yes, store.Yes, [2]store.Scope{store.ScopeFleet, ""}, store.ScopeFleet},
		{store.Unknown, store.No, store.No, [2]store.Scope{store.ScopeHost, store.ScopeProcess}, store.ScopeProcess},
	} {
		one, two := promising{memstore.New(), test.one, test.scopes[0]}, promising{memstore.New(), test.two, test.scopes[1]}
		for _, phase := range []move.Phase{move.OldDecides, move.NewDecides} {
			got, err := store.CapabilitiesOf(background, in(t, one, two, phase))
			if err != nil || got.Fencing.Answer != test.want || got.Durable.Answer != test.want || got.Waiting.Answer != test.want || got.Scope != test.scope {
				t.Errorf("%v and %v in the phase %v: %+v, %v, want %v and %v", test.one, test.two, phase, got, err, test.want, test.scope)
			}
			decides := test.scopes[0]
			if phase == move.NewDecides {
				decides = test.scopes[1]
			}
			if want := fmt.Sprintf("a move in the phase %v: %s decides", phase, decides); !strings.HasPrefix(got.Backend, want) {
				t.Errorf("the backend is %q, want %q", got.Backend, want)
			}
		}
	}
}

// A mark that only the store that does not decide has refuses a claim, which is told that record.
func TestMarkOfTheOtherStoreAloneRefuses(t *testing.T) {
	before, after := memstore.New(), memstore.New()
	s := in(t, before, after, move.OldDecides)
	g := take(t, s, "x", "h")
	leave(t, s, store.Release{Name: "x", Holder: "h", Token: g.Token, Retain: store.Forever})
	g = take(t, after, "x", "h") // half of a claim, and of its release
	leave(t, after, store.Release{Name: "x", Holder: "h", Token: g.Token, Mark: 5, State: []byte("page 7"), Retain: store.Forever})
	outs, err := s.Acquire(background, []store.Claim{{Name: "x", Holder: "next", TTL: time.Minute, Mark: 5}})
	var done *store.DoneError
	if err != nil || !errors.As(outs[0].Err, &done) || done.Record.Mark != 5 || string(done.Record.State) != "page 7" {
		t.Errorf("got %+v, %v; want that all is done up to 5", outs, err)
	}
}

// A grant makes states that differ agree, also where the marks do: as the store that decides has it.
func TestStatesAgreeAfterAGrant(t *testing.T) {
	before, after := memstore.New(), memstore.New()
	for s, state := range map[store.Store]string{before: "page 7", after: "page 6"} {
		g := take(t, s, "x", "h")
		leave(t, s, store.Release{Name: "x", Holder: "h", Token: g.Token, Mark: 5, State: []byte(state), Retain: store.Forever})
	}
	s := in(t, before, after, move.OldDecides)
	g := take(t, s, "x", "next")
	if string(g.State) != "page 7" {
		t.Errorf("the next holder is told %q", g.State)
	}
	for r, err := range after.List(background, "x") {
		if err != nil || string(r.State) != "page 7" {
			t.Errorf("the other store has %q, %v", r.State, err)
		}
	}
}
