package move_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// put leaves a record in a store, with a token above another one.
func put(t *testing.T, s store.Store, name string, above, mark int64, state string) {
	t.Helper()
	out, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "h", TTL: time.Second, Above: above}})
	if err = errors.Join(err, out[0].Err); err != nil {
		t.Fatal(err)
	}
	leave(t, s, store.Release{Name: name, Holder: "h", Token: out[0].Grant.Token, Mark: mark, State: []byte(state), Retain: store.Forever})
}

// TestCompareBeforeEachPhase: before the other middle phase tokens do not count, and before the phase of one store they do. Nothing is changed by that.
func TestCompareBeforeEachPhase(t *testing.T) {
	before, after := memstore.New(), memstore.New()
	put(t, before, "x", 0, 3, "s")
	put(t, after, "x", 1<<40, 3, "s")
	was := records(t, before)["x"].Token
	for next, want := range map[move.Phase]int{move.NewDecides: 0, move.OldOnly: 1, 0: 1} {
		report, err := move.Compare(background, before, after, move.OldDecides, next)
		if err != nil || report.Names != 1 || report.Differ != want || report.Same != 1-want || len(report.Examples) != want || report.Complete() != (want == 0) {
			t.Errorf("before %v: %+v, %v; want that %d differ", next, report, err, want)
		}
	}
	if now := records(t, before)["x"].Token; now != was {
		t.Errorf("the token was raised from %d to %d", was, now)
	}
}

// TestExamplesOfAReport: a report names some of those that are not the same, and has how long the last one is taken.
func TestExamplesOfAReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		for i := range 50 {
			name := fmt.Sprintf("x%02d", i)
			out, err := before.Acquire(background, []store.Claim{{Name: name, Holder: "h", TTL: time.Hour + time.Duration(49-i)*time.Minute}})
			if err = errors.Join(err, out[0].Err); err != nil {
				t.Fatal(err)
			}
		}
		report, err := move.Compare(background, before, after, move.OldDecides, 0)
		if err != nil || report.Taken != 50 || len(report.Examples) != 20 || report.Left > time.Hour+49*time.Minute || report.Left < time.Hour+48*time.Minute {
			t.Errorf("got %+v, %v; want 20 examples of 50, and the time until the last one ends", report, err)
		}
	})
}

// A fillingStore notes for how long it was to remember the records that it makes.
type fillingStore struct {
	store.Store
	mu     sync.Mutex
	retain []time.Duration
}

func (s *fillingStore) note(retain time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retain = append(s.retain, retain)
}

func (s *fillingStore) Fill(ctx context.Context, fillings []store.Filling) ([]bool, error) {
	for _, f := range fillings {
		s.note(f.Retain)
	}
	return s.Store.(store.Filler).Fill(ctx, fillings)
}

func (s *fillingStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	for _, r := range releases {
		if !strings.HasPrefix(r.Name, move.Records) { // of the copy itself
			s.note(r.Retain)
		}
	}
	return s.Store.Release(ctx, releases)
}

// TestCopiesAreRemembered: what is copied is remembered for as long as the options say, and without that for ever, however it gets into the store.
func TestCopiesAreRemembered(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: store.Forever, time.Hour: time.Hour} {
		before, after := memstore.New(), memstore.New()
		old, made := &fillingStore{Store: before}, &fillingStore{Store: after}
		put(t, before, "made", 0, 3, "s")
		put(t, before, "filled", 1<<40, 3, "s")
		put(t, after, "filled", 0, 2, "s")
		put(t, before, "raised", 0, 3, "s")
		put(t, after, "raised", 1<<40, 3, "s")
		put(t, after, "touched", 0, 3, "s")
		for _, next := range []move.Phase{move.NewDecides, move.OldOnly} {
			report, err := move.Copy(background, old, made, move.OldDecides, move.Options{Next: next, Retain: given})
			if err != nil || !report.Complete() {
				t.Fatalf("%+v, %v", report, err)
			}
		}
		if len(old.retain) < 2 || len(made.retain) < 3 {
			t.Errorf("%d records were written to the old store and %d to the new one", len(old.retain), len(made.retain))
		}
		for _, retain := range append(old.retain, made.retain...) {
			if retain != want {
				t.Errorf("a record is remembered for %v, want %v", retain, want)
			}
		}
	}
}

// TestCopyIsStoppedWhileItWaits: a copy that waits, for names that are in use or for leases to be renewed, ends with its context, and reports that.
func TestCopyIsStoppedWhileItWaits(t *testing.T) {
	for what, prepare := range map[string]func(t *testing.T, before, after store.Store){
		"for a holder of the phase behind": func(t *testing.T, before, _ store.Store) { take(t, before, "x", "h") },
		"for a renewal": func(t *testing.T, before, after store.Store) {
			claim := store.Claim{Name: "x", Holder: "h", TTL: time.Minute, Above: 1 << 40}
			for _, s := range []store.Store{after, before} {
				out, err := s.Acquire(background, []store.Claim{claim})
				if err = errors.Join(err, out[0].Err); err != nil {
					t.Fatal(err)
				}
				claim.Above = 0
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			before, after := memstore.New(), memstore.New()
			prepare(t, before, after)
			ctx, cancel := context.WithTimeout(background, 5*time.Millisecond)
			defer cancel()
			begun := time.Now()
			if report, err := move.Copy(ctx, before, after, move.OldDecides, move.Options{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 5*time.Millisecond {
				t.Errorf("%s: %+v, %v after %v", what, report, err, time.Since(begun))
			}
			if _, err := move.Copy(ctx, before, after, move.OldDecides, move.Options{}); err == nil {
				t.Errorf("%s: a copy whose time is over has no error", what)
			}
		})
	}
}

// A countingStore counts the requests.
type countingStore struct {
	store.Store
	requests *atomic.Int64
}

func (s countingStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	s.requests.Add(1)
	return s.Store.Acquire(ctx, claims)
}

// TestBatchesGrow: many names are copied by few requests, as long as the stores are quick.
func TestBatchesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		for i := range 10_000 {
			put(t, before, fmt.Sprint("x", i), 0, 3, "s")
		}
		var requests atomic.Int64
		report, err := move.Copy(background, countingStore{before, &requests}, after, move.OldDecides, move.Options{})
		if n := requests.Load(); err != nil || report.Copied != 10_000 || n > 10_000/32 {
			t.Errorf("%+v, %v with %d requests", report, err, n)
		}
	})
}

// TestFillThatCannotReadGivesBack: a copy that cannot read what the store that decides has gives the name back in the other one, and counts it as not copied.
func TestFillThatCannotReadGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		put(t, before, "x", 1<<40, 3, "new")
		put(t, after, "x", 0, 3, "old")
		truth := &fickle{Store: before, unread: true}
		report, err := move.Copy(background, truth, struct{ store.Store }{after}, move.OldDecides, move.Options{Next: move.NewDecides})
		if err == nil || report.Copied != 0 {
			t.Errorf("%+v, %v", report, err)
		}
		if r := records(t, after)["x"]; r.Holder != "" || !r.Free() || string(r.State) != "old" {
			t.Errorf("the other store has %+v", r)
		}
	})
}

// putCrashed leaves a record in a store whose holder died.
func putCrashed(t *testing.T, s store.Store, name string, mark int64, state string) {
	t.Helper()
	out, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "died", TTL: time.Second}})
	if err = errors.Join(err, out[0].Err); err != nil {
		t.Fatal(err)
	}
	token := out[0].Grant.Token
	e := store.Extension{Name: name, Holder: "died", Token: token, TTL: time.Second, Mark: mark, State: []byte(state)}
	errs, err := s.Extend(background, []store.Extension{e})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
}

// TestFillOfANameThatIsTaken: a name that is taken in the store that decides while the copy begins is given back in
// the other one: with what the store that decides has if the last holder died there, and else as it was.
func TestFillOfANameThatIsTaken(t *testing.T) {
	for _, crashed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			before, after := memstore.New(), memstore.New()
			put(t, before, "x", 1<<40, 3, "new")
			want := "new"
			if crashed {
				putCrashed(t, after, "x", 3, "old")
			} else {
				put(t, after, "x", 0, 3, "old")
				want = "old"
			}
			shadow := claimedStore{Store: after, once: new(sync.Once), onClaim: func() { take(t, before, "x", "y") }}
			report, err := move.Copy(background, before, shadow, move.OldDecides, move.Options{Next: move.NewDecides})
			if err != nil || report.Copied != 0 || report.Taken != 1 {
				t.Errorf("%+v, %v", report, err)
			}
			if r := records(t, after)["x"]; r.Holder != "" || !r.Free() || r.Mark != 3 || string(r.State) != want {
				t.Errorf("its holder died %t: the other store has %+v, want %q", crashed, r, want)
			}
		})
	}
}

// TestFillAfterACrashThatCannotRead: a name whose last holder in the other store died is not freed there without what
// the store that decides has. A copy that cannot read that at first reads it once more, and leaves the lease to
// expire if it cannot again.
func TestFillAfterACrashThatCannotRead(t *testing.T) {
	for unread := 1; unread <= 2; unread++ {
		synctest.Test(t, func(t *testing.T) {
			before, after := memstore.New(), memstore.New()
			put(t, before, "x", 1<<40, 3, "new")
			putCrashed(t, after, "x", 3, "old")
			reads, truth := 0, &fickle{Store: before}
			counted := passingStore{truth, func() {
				reads++
				truth.unread = reads <= unread
			}}
			o := move.Options{Next: move.NewDecides}
			report, err := move.Copy(background, counted, struct{ store.Store }{after}, move.OldDecides, o)
			if err == nil || report.Copied != 0 || reads != 2 {
				t.Errorf("%+v, %v after %d reads", report, err, reads)
			}
			r, state := records(t, after)["x"], "old"
			if unread == 1 {
				state = "new"
			}
			if freed := r.Free() && r.Holder == ""; freed != (unread == 1) || string(r.State) != state {
				t.Errorf("%d reads have failed, and the other store has %+v", unread, r)
			}
			time.Sleep(time.Minute)
			if report, err := move.Copy(background, before, after, move.OldDecides, o); err != nil || !report.Complete() {
				t.Errorf("the next copy: %+v, %v", report, err)
			}
			if g := take(t, in(t, before, after, move.NewDecides), "x", "next"); string(g.State) != "new" {
				t.Errorf("the next holder is given %q", g.State)
			}
		})
	}
}

// TestFillThatCannotGiveBackSaysSo: a copy that has got a name in the other store in vain, and cannot give it back,
// says so, for it is in the way until its lease ends. That the lease is lost is none of its business.
func TestFillThatCannotGiveBackSaysSo(t *testing.T) {
	for what, c := range map[string]struct {
		gives func(store.Store) store.Store
		fails bool
	}{
		"an error": {func(s store.Store) store.Store { return muteStore{s} }, true},
		"a loss":   {func(s store.Store) store.Store { return refusing{s} }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			before, after := memstore.New(), memstore.New()
			put(t, before, "x", 1<<40, 3, "new")
			put(t, after, "x", 0, 3, "old")
			holds := func() { take(t, before, "x", "y") }
			shadow := claimedStore{Store: c.gives(after), once: new(sync.Once), onClaim: holds}
			report, err := move.Copy(background, before, shadow, move.OldDecides, move.Options{Next: move.NewDecides})
			if (err != nil) != c.fails || report.Copied != 0 || report.Complete() && !c.fails {
				t.Errorf("%s: %+v, %v", what, report, err)
			}
		})
	}
}
