package move_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

var background = context.Background()

// in returns the two stores as a replica in a phase has them.
func in(t *testing.T, before, after store.Store, phase move.Phase) store.Store {
	t.Helper()
	s, err := move.New(before, after, phase)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func take(t *testing.T, s store.Store, name, holder string) store.Grant {
	t.Helper()
	out, err := s.Acquire(background, []store.Claim{{Name: name, Holder: holder, TTL: time.Minute}})
	if err = errors.Join(err, out[0].Err); err != nil {
		t.Fatalf("%s takes %s: %v", holder, name, err)
	}
	return out[0].Grant
}

func leave(t *testing.T, s store.Store, r store.Release) {
	t.Helper()
	errs, err := s.Release(background, []store.Release{r})
	if err = errors.Join(err, errs[0]); err != nil {
		t.Fatalf("%s releases %s: %v", r.Holder, r.Name, err)
	}
}

func records(t *testing.T, s store.Store) map[string]store.Record {
	t.Helper()
	all := map[string]store.Record{}
	for r, err := range s.List(background, "") {
		if err != nil {
			t.Fatal(err)
		}
		all[r.Name] = r
	}
	return all
}

// TestMoveCarriesEverything: marks, states and tokens come along, in the order of the package's comment,
// whether or not the copies know the next phase.
func TestMoveCarriesEverything(t *testing.T) {
	carries(t, func(move.Phase) move.Phase { return 0 })
	carries(t, func(phase move.Phase) move.Phase { return phase + 1 })
}

func carries(t *testing.T, next func(move.Phase) move.Phase) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		last := map[string]int64{}
		for i, name := range []string{"done", "state", "empty"} {
			out, err := before.Acquire(background, []store.Claim{{Name: name, Holder: "h", TTL: time.Minute, Above: 1 << 55}})
			if err = errors.Join(err, out[0].Err); err != nil {
				t.Fatal(err)
			}
			r := store.Release{Name: name, Holder: "h", Token: out[0].Grant.Token, Mark: int64(i+1) * 7, Retain: store.Forever}
			if name == "state" {
				r.State = []byte("left")
			}
			leave(t, before, r)
			last[name] = r.Token
		}
		for _, phase := range []move.Phase{move.OldDecides, move.NewDecides} {
			differs, err := move.Compare(background, before, after, phase, next(phase))
			if err != nil || differs.Complete() || differs.Names != 3 || differs.Differ != 3 || !slices.Equal(differs.Examples, []string{"done", "empty", "state"}) {
				t.Errorf("%v: before the copy: %+v, %v", phase, differs, err)
			}
			report, err := move.Copy(background, before, after, phase, move.Options{Next: next(phase)})
			if err != nil || !report.Complete() || report.Copied != 3 {
				t.Fatalf("%v: %+v, %v", phase, report, err)
			}
			report, err = move.Copy(background, before, after, phase, move.Options{Next: next(phase)})
			if err != nil || !report.Complete() || report.Same != 3 || report.Copied != 0 {
				t.Errorf("%v: again: %+v, %v", phase, report, err)
			}
		}
		for name, r := range records(t, after) {
			if want := records(t, before)[name]; r.Mark != want.Mark || string(r.State) != string(want.State) {
				t.Errorf("%s has mark %d and state %q, want %d and %q", name, r.Mark, r.State, want.Mark, want.State)
			}
			if g := take(t, in(t, before, after, move.NewOnly), name, "x"); g.Token <= last[name] {
				t.Errorf("%s has token %d after %d", name, g.Token, last[name])
			}
		}
	})
}

// TestCopyLeavesWhatIsNotFree: a name that is held or lingers is copied later, and one whose holder died only if that is asked for.
func TestCopyLeavesWhatIsNotFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		take(t, before, "dead", "h")
		time.Sleep(time.Minute)
		take(t, before, "held", "h")
		leave(t, before, store.Release{Name: "lingers", Holder: "h", Token: take(t, before, "lingers", "h").Token, Linger: 2 * time.Minute})
		take(t, before, move.Records+"x", "h") // of the move itself
		report, err := move.Copy(background, before, after, move.OldDecides, move.Options{})
		if slices.Sort(report.Examples); !slices.Equal(report.Examples, []string{"dead", "held", "lingers"}) {
			t.Errorf("examples: %q", report.Examples)
		}
		if err != nil || report.Names != 3 || report.Taken != 2 || report.Abandoned != 1 || report.Copied != 0 || report.Left > 2*time.Minute || report.Left < 119*time.Second || report.Complete() {
			t.Errorf("%+v, %v", report, err)
		}
		if got := records(t, before)["dead"]; got.Holder != "h" {
			t.Errorf("the crash was forgotten: %+v", got)
		}
		time.Sleep(2 * time.Minute)
		report, err = move.Copy(background, before, after, move.OldDecides, move.Options{Abandoned: true, Retain: time.Hour})
		if err != nil || !report.Complete() || report.Copied != 3 {
			t.Errorf("%+v, %v", report, err)
		}
		time.Sleep(time.Hour)
		if n, err := after.Sweep(background, 10); n != 4 || err != nil { // and what the copy has left of its own
			t.Errorf("after the hour for which they were to be kept, %d were forgotten, %v", n, err)
		}
	})
}

// TestRaisedTokensAreKept: a record whose token alone was raised is kept for as long as the options of that copy say.
func TestRaisedTokensAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		out, err := before.Acquire(background, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute, Above: 1 << 55}})
		if err = errors.Join(err, out[0].Err); err != nil {
			t.Fatal(err)
		}
		leave(t, before, store.Release{Name: "x", Holder: "h", Token: out[0].Grant.Token, Mark: 7, Retain: store.Forever})
		if report, err := move.Copy(background, before, after, move.OldDecides, move.Options{Next: move.NewDecides}); err != nil || report.Copied != 1 {
			t.Fatalf("%+v, %v", report, err)
		}
		if report, err := move.Copy(background, before, after, move.NewDecides, move.Options{Retain: time.Hour}); err != nil || report.Copied != 1 {
			t.Fatalf("%+v, %v", report, err)
		}
		time.Sleep(time.Hour - time.Second)
		if n, err := after.Sweep(background, 10); n != 0 || err != nil {
			t.Errorf("before the hour is over for which it was to be kept, %d were forgotten, %v", n, err)
		}
		time.Sleep(time.Second)
		if n, err := after.Sweep(background, 10); n != 1 || err != nil {
			t.Errorf("after the hour for which it was to be kept, %d were forgotten, %v", n, err)
		}
	})
}

// TestHolderInTheNeighboringPhaseExcludes: in each pair of neighboring phases one holder keeps all others out, and tokens grow both ways.
func TestHolderInTheNeighboringPhaseExcludes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for phase := move.OldOnly; phase < move.NewOnly; phase++ {
			before, after := memstore.New(), memstore.New()
			a, b := in(t, before, after, phase), in(t, before, after, phase+1)
			last := int64(0)
			for i := range 6 {
				holds, other := a, b
				if i%2 == 1 {
					holds, other = b, a
				}
				holder := string(rune('a' + i))
				g := take(t, holds, "x", holder)
				if g.Token <= last {
					t.Errorf("%v and the next phase: token %d after %d", phase, g.Token, last)
				}
				last = g.Token
				out, err := other.Acquire(background, []store.Claim{{Name: "x", Holder: "other", TTL: time.Minute}})
				if err != nil || !errors.Is(out[0].Err, store.ErrHeld) {
					t.Errorf("%v and the next phase: %v, %v while another has the name", phase, out, err)
				}
				leave(t, holds, store.Release{Name: "x", Holder: holder, Token: g.Token, Retain: store.Forever})
			}
		}
	})
}

// TestListShowsWhatIsTaken: a name that claims are refused because the store that does not decide has a lease of it is not listed as free.
func TestListShowsWhatIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		both := in(t, before, after, move.OldDecides)
		leave(t, both, store.Release{Name: "x", Holder: "h", Token: take(t, both, "x", "h").Token, Retain: store.Forever})
		take(t, after, "x", "died between two requests")
		take(t, after, "only there", "h")
		if out, err := both.Acquire(background, []store.Claim{{Name: "x", Holder: "other", TTL: time.Minute}}); err != nil || !errors.Is(out[0].Err, store.ErrHeld) {
			t.Errorf("the name is not refused: %v, %v", out, err)
		}
		all := records(t, both)
		if r := all["x"]; len(all) != 1 || r.Left != time.Minute || r.Holder != "" {
			t.Errorf("listed: %+v", all)
		}
	})
}

// A silent store does not respond until the deadline.
type silent struct{ store.Store }

func (silent) Acquire(ctx context.Context, _ []store.Claim) ([]store.Outcome, error) {
	<-ctx.Done()
	return nil, store.AsUnknown(ctx.Err())
}

func (silent) Extend(ctx context.Context, _ []store.Extension) ([]error, error) {
	<-ctx.Done()
	return nil, store.AsUnknown(ctx.Err())
}

// TestLeaseOutlivesTheOtherStore: while the store that does not decide is silent, leases are renewed and released, and what is written is unknown.
func TestLeaseOutlivesTheOtherStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		g := take(t, in(t, before, after, move.NewDecides), "x", "h")
		cut := in(t, silent{before}, after, move.NewDecides)
		bounded := func() context.Context {
			ctx, cancel := context.WithTimeout(background, time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		e := store.Extension{Name: "x", Holder: "h", Token: g.Token, TTL: time.Minute}
		if errs, err := cut.Extend(bounded(), []store.Extension{e}); err != nil || errs[0] != nil {
			t.Errorf("a renewal: %v, %v", errs, err)
		}
		e.State = []byte("page 7")
		if errs, err := cut.Extend(bounded(), []store.Extension{e}); err != nil || !errors.Is(errs[0], store.ErrUnknown) {
			t.Errorf("a state: %v, %v", errs, err)
		}
		if errs, err := cut.Release(bounded(), []store.Release{{Name: "x", Holder: "h", Token: g.Token}}); err != nil || errs[0] != nil {
			t.Errorf("a release: %v, %v", errs, err)
		}
	})
}

func TestPhases(t *testing.T) {
	for phase := move.OldOnly; phase <= move.NewOnly; phase++ {
		text, err := phase.MarshalText()
		var again move.Phase
		if err = errors.Join(err, again.UnmarshalText(text)); err != nil || again != phase {
			t.Errorf("%v is %v after it was written and read: %v", phase, again, err)
		}
	}
	var p move.Phase
	for phase, want := range map[move.Phase]string{p: "Phase(0)", move.NewOnly + 1: "Phase(5)"} {
		if text, err := phase.MarshalText(); err == nil || phase.String() != want || !strings.Contains(err.Error(), "give OldOnly") {
			t.Errorf("no phase is written as %q, %v, and told as %v", text, err, phase)
		}
	}
	if err := p.UnmarshalText([]byte("both")); err == nil {
		t.Error("a text that is no phase has no error")
	}
	s := memstore.New()
	for _, phase := range []move.Phase{0, move.NewOnly + 1} {
		if _, err := move.New(s, s, phase); err == nil {
			t.Errorf("%v has no error", phase)
		}
	}
	for _, stores := range [][2]store.Store{{nil, s}, {s, nil}} {
		if _, err := move.New(stores[0], stores[1], move.OldOnly); err == nil {
			t.Error("no store has no error")
		}
	}
	if _, err := move.Copy(background, s, s, move.NewOnly, move.Options{}); err == nil {
		t.Error("a copy in a phase of one store has no error")
	}
	if _, err := move.Copy(background, s, s, move.OldDecides, move.Options{Retain: -1}); err == nil {
		t.Error("a time to remember below 0 has no error")
	}
	if _, ok := store.As[*memstore.Store](in(t, s, memstore.New(), move.OldOnly)); !ok {
		t.Error("in a phase of one store its interfaces are not found")
	}
}
