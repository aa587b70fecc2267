package move_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// TestForgottenNamesAreTheSame: a released name without a mark and a state, which one store has forgotten, is no difference before the other middle phase, which
// links the tokens. Before a phase of one store it is one, for the token that was forgotten may be the greater one.
func TestForgottenNamesAreTheSame(t *testing.T) {
	plain := func(*store.Release) {}
	for _, test := range []struct {
		what   string
		leaves func(*store.Release)
		next   move.Phase
		same   bool
	}{
		{"plain, before the other middle phase", plain, move.NewDecides, true},
		{"plain, before a phase of one store", plain, move.OldOnly, false},
		{"plain, before either", plain, 0, false},
		{"a mark", func(r *store.Release) { r.Mark = 1 }, move.NewDecides, false},
		{"a state", func(r *store.Release) { r.State = []byte("x") }, move.NewDecides, false},
		{"an expired lease", nil, move.NewDecides, false},
	} {
		for _, forgetful := range []string{"old", "new"} {
			synctest.Test(t, func(t *testing.T) {
				stores := map[string]*memstore.Store{"old": memstore.New(), "new": memstore.New()}
				other := stores["new"]
				if forgetful == "new" {
					other = stores["old"]
				}
				grant := take(t, other, "x", "h")
				if test.leaves == nil {
					time.Sleep(time.Hour)
				} else {
					r := store.Release{Name: "x", Holder: "h", Token: grant.Token, Retain: store.Forever}
					test.leaves(&r)
					leave(t, other, r)
				}
				report, err := move.Compare(background, stores["old"], stores["new"], move.OldDecides, test.next)
				if err != nil || report.Names != 1 || report.Complete() != test.same || report.Same == 1 != test.same {
					t.Errorf("%s, forgotten by the %s store: %+v, %v", test.what, forgetful, report, err)
				}
			})
		}
	}
}

// TestCopyKeepsTheTokenOfAPlainName: what the store that decides still has is copied all the same, so that its token is not forgotten before the next copy links it.
func TestCopyKeepsTheTokenOfAPlainName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		out, err := before.Acquire(background, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute, Above: 1 << 52}})
		if err != nil || out[0].Err != nil {
			t.Fatal(out, err)
		}
		leave(t, before, store.Release{Name: "x", Holder: "h", Token: out[0].Grant.Token})
		if report, err := move.Copy(background, before, after, move.OldDecides, move.Options{Next: move.NewDecides}); err != nil || report.Copied != 1 {
			t.Fatal(report, err)
		}
		time.Sleep(time.Second)
		if n, err := before.Sweep(background, 10); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if report, err := move.Compare(background, before, after, move.NewDecides, move.NewOnly); err != nil || report.Complete() {
			t.Fatal(report, err)
		}
		if report, err := move.Copy(background, before, after, move.NewDecides, move.Options{Next: move.NewOnly}); err != nil || !report.Complete() {
			t.Fatal(report, err)
		}
		if g := take(t, after, "x", "i"); g.Token <= out[0].Grant.Token {
			t.Errorf("the token %d comes after %d", g.Token, out[0].Grant.Token)
		}
	})
}

// TestPhaseOfOneStoreAsksNoOther: in a phase of one store the other one is asked for nothing, and all is as that
// store alone has it.
func TestPhaseOfOneStoreAsksNoOther(t *testing.T) {
	for _, phase := range []move.Phase{move.OldOnly, move.NewOnly} {
		synctest.Test(t, func(t *testing.T) {
			only, other := memstore.New(), struct{ store.Store }{} // which panics when it is asked
			s := in(t, only, other, phase)
			if phase == move.NewOnly {
				s = in(t, other, only, phase)
			}
			g := take(t, s, "x", "h")
			extend(t, s, "x", "h", g.Token)
			for _, s := range []store.Store{s, only} {
				if r := records(t, s)["x"]; r.Token != g.Token || r.Holder != "h" {
					t.Errorf("%v: granted %+v, and listed %+v", phase, g, r)
				}
			}
			leave(t, s, store.Release{Name: "x", Holder: "h", Token: g.Token, Retain: store.Forever})
			if as[*memstore.Store](t, s) != only {
				t.Errorf("%v: it is another store", phase)
			}
		})
	}
}
