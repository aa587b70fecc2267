package fleetmove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// TestPlans: what a store may be used for follows from its plan: by replicas that use it alone, as the old store, and by another move.
func TestPlans(t *testing.T) {
	const oldOnly, oldDecides, newDecides, newOnly = move.OldOnly, move.OldDecides, move.NewDecides, move.NewOnly
	for what, c := range map[string]struct {
		plan                          plan
		under, over, left, isOldStore bool
	}{
		"no plan":                            {plan{}, false, false, false, true},
		"the old store, before":              {plan{"a", false, false, Stage{oldOnly, oldDecides}}, true, false, false, true},
		"the old store, in the middle":       {plan{"a", false, false, Stage{oldDecides, oldDecides}}, true, false, false, false},
		"the old store, in the middle again": {plan{"a", false, false, Stage{newDecides, newOnly}}, true, false, false, false},
		"the old store, taken back":          {plan{"a", false, false, Stage{oldOnly, oldOnly}}, false, true, false, true},
		"the old store, left":                {plan{"a", false, false, Stage{newOnly, newOnly}}, false, true, true, false},
		"the new store, not used yet":        {plan{"a", true, true, Stage{oldOnly, oldOnly}}, false, true, false, false},
		"the new store, before":              {plan{"a", true, false, Stage{oldOnly, oldDecides}}, true, false, false, false},
		"the new store, in the end":          {plan{"a", true, false, Stage{newDecides, newOnly}}, true, false, false, false},
		"the new store, taken back":          {plan{"a", true, false, Stage{oldOnly, oldOnly}}, false, true, true, false},
		"the new store, moved to":            {plan{"a", true, false, Stage{newOnly, newOnly}}, false, true, false, true},
	} {
		p := c.plan
		if p.under() != c.under || p.ID != "" && p.over() != c.over || p.leftBehind() != c.left || p.isOldStore() != c.isOldStore {
			t.Errorf("%s: in a move %t, over %t, left behind %t, an old store %t; want %+v", what, p.under(), p.over(), p.leftBehind(), p.isOldStore(), c)
		}
	}
	for stage, text := range map[Stage]string{{oldDecides, oldDecides}: "old-decides", {oldDecides, newDecides}: "old-decides to new-decides"} {
		if stage.String() != text {
			t.Errorf("got %q, want %q", stage, text)
		}
		for phase := oldOnly; phase <= newOnly; phase++ {
			if want := phase == stage.From || phase == stage.To; stage.allows(phase) != want {
				t.Errorf("%v allows %v: %t", stage, phase, !want)
			}
		}
	}
}

// TestStagesOfTwoPlans: of two plans that differ only what both allow is allowed. Plans of two moves have no stage.
func TestStagesOfTwoPlans(t *testing.T) {
	of := func(from, to move.Phase) plan { return plan{ID: "a", Stage: Stage{from, to}} }
	as := func(p plan) plan { p.New = true; return p }
	for what, c := range map[string]struct {
		before, after plan
		want          Stage // zero for an error
	}{
		"the same":              {of(2, 3), as(of(2, 3)), Stage{2, 3}},
		"the old one is ahead":  {of(2, 3), as(of(2, 2)), Stage{2, 2}},
		"the new one is ahead":  {of(3, 3), as(of(2, 3)), Stage{3, 3}},
		"the old one goes back": {of(1, 2), as(of(2, 2)), Stage{2, 2}},
		"none":                  {},
		"the old one alone":     {before: of(2, 3)},
		"the new one alone":     {after: as(of(2, 3))},
		"of two moves":          {of(2, 3), plan{"b", true, false, Stage{2, 3}}, Stage{}},
		"exchanged":             {as(of(2, 3)), of(2, 3), Stage{}},
	} {
		stage, err := stageOf(c.before, c.after)
		if stage != c.want || (err == nil) != (c.want != Stage{}) || err != nil && !errors.Is(err, store.ErrUnusable) {
			t.Errorf("%s: got %v, %v, want %v", what, stage, err, c.want)
		}
	}
}

// TestReplicasThatAreBehind: the replicas in another phase are those that are behind. Their error is ErrHeld, and names the first.
func TestReplicasThatAreBehind(t *testing.T) {
	s := Status{Replicas: []Replica{{"a", move.OldDecides, 1}, {"b", move.NewDecides, 2}, {"c", move.OldDecides, 3}}}
	if behind := s.Behind(move.NewDecides); len(behind) != 2 || behind[0].Replica != "a" || behind[1].Replica != "c" || len(s.Replicas) != 3 || s.Replicas[1].Replica != "b" {
		t.Errorf("got %v of %v", behind, s.Replicas)
	}
	err := fmt.Errorf("advancing: %w", &BehindError{Phase: move.NewDecides, Replicas: s.Behind(move.NewDecides)})
	if !errors.Is(err, store.ErrHeld) || errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnusable) {
		t.Errorf("what kind of error is %v", err)
	}
	if want := "advancing: all replicas must be in the phase new-decides, and 2 are not: a is in old-decides (see: soloist move status)"; err.Error() != want {
		t.Errorf("got %q", err)
	}
}

// TestErrorsOfAnnouncements: an error of the announcement is not taken for one of a request that was never sent. The longest TTL is that of what is valid.
func TestErrorsOfAnnouncements(t *testing.T) {
	other := errors.New("away")
	for err, want := range map[error]error{
		soloist.ErrClosed: store.ErrClosed, store.AsUnknown(other): nil, store.ErrLost: nil, other: other, context.Canceled: context.Canceled, store.ErrHeld: store.ErrHeld,
	} {
		got := neverSent(fmt.Errorf("announcing: %w", err))
		if errors.Is(got, store.ErrUnknown) || errors.Is(got, store.ErrLost) || want != nil && !errors.Is(got, want) || got == nil {
			t.Errorf("%v became %v, want one that is %v", err, got, want)
		}
	}
	claims := []store.Claim{{Name: "a", Holder: "h", TTL: time.Minute}, {Name: "b", Holder: "h", TTL: 2 * time.Minute}, {Name: "", Holder: "h", TTL: time.Hour}, {Name: "c", Holder: "h", TTL: time.Second}}
	if got := longest(claims, claimTTL); got != 2*time.Minute {
		t.Errorf("the longest TTL is %v", got)
	}
	if got := longest(claims[2:3], claimTTL); got != 0 {
		t.Errorf("the longest TTL of what is not valid is %v", got)
	}
}

// TestProbeLeavesNothing: whether a store raises tokens is seen by a lease that is gone after that, and a store that does not say is an error.
func TestProbeLeavesNothing(t *testing.T) {
	s := memstore.New()
	if err := raises(t.Context(), s); err != nil {
		t.Error(err)
	}
	for r, err := range s.List(t.Context(), "") {
		if err != nil || !r.Free() || r.Holder != "" {
			t.Errorf("it has left %+v, %v", r, err)
		}
	}
	for _, fault := range []error{store.ErrLost, store.AsUnknown(errors.New("cut"))} {
		for _, whole := range []bool{false, true} {
			if err := raises(t.Context(), unreleased{s, fault, whole}); !errors.Is(err, fault) {
				t.Errorf("a probe that is not released: %v, want %v", err, fault)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := raises(t.Context(), s); !errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrUnusable) {
		t.Errorf("a store that is closed: %v", err)
	}
}

// An unreleased store answers releases with an error, as that of the batch or of each.
type unreleased struct {
	store.Store
	err   error
	whole bool
}

func (s unreleased) Release(_ context.Context, releases []store.Release) ([]error, error) {
	if s.whole {
		return nil, s.err
	}
	return slices.Repeat([]error{s.err}, len(releases)), nil
}
