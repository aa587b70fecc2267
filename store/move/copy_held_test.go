package move_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// TestCopyWaitsForHoldersOfThePhaseBehind: a copy is not complete while a replica of the phase behind holds a name, even if the records seem to agree.
func TestCopyWaitsForHoldersOfThePhaseBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		defer before.Close()
		defer after.Close()
		oldOnly, oldDecides := in(t, before, after, move.OldOnly), in(t, before, after, move.OldDecides)
		leave(t, oldDecides, store.Release{Name: "a", Holder: "x", Token: take(t, oldDecides, "a", "x").Token, State: []byte("1"), Retain: store.Forever})
		report, err := move.Copy(background, before, after, move.OldDecides, move.Options{})
		if err != nil || !report.Complete() {
			t.Fatalf("before: %+v, %v", report, err)
		}
		take(t, oldOnly, "a", "late")
		report, err = move.Copy(background, before, after, move.OldDecides, move.Options{})
		if err != nil || report.Complete() || report.Taken != 1 {
			t.Errorf("a replica of the phase behind holds the name: %+v, %v", report, err)
		}
		time.Sleep(2 * time.Minute) // it died
		report, err = move.Copy(background, before, after, move.OldDecides, move.Options{})
		if err != nil || report.Complete() || report.Abandoned != 1 {
			t.Errorf("a replica of the phase behind died: %+v, %v", report, err)
		}
		report, err = move.Copy(background, before, after, move.OldDecides, move.Options{Abandoned: true})
		if err != nil || !report.Complete() || report.Copied != 1 {
			t.Errorf("nobody needs to know of the crash: %+v, %v", report, err)
		}
	})
}

// A listedStore calls onList before each list.
type listedStore struct {
	store.Store
	onList func()
}

func (s listedStore) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		s.onList()
		s.Store.List(ctx, prefix)(yield)
	}
}

// TestCopyOfNamesInUse: a copy is complete although replicas of the phase acquire and release names between the two lists.
func TestCopyOfNamesInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		defer before.Close()
		defer after.Close()
		s := in(t, before, after, move.OldDecides)
		first := take(t, s, "released", "x")
		take(t, s, "held", "x")
		again := take(t, s, "next", "x")
		busy := listedStore{after, func() {
			leave(t, s, store.Release{Name: "released", Holder: "x", Token: first.Token, Retain: store.Forever})
			leave(t, s, store.Release{Name: "next", Holder: "x", Token: again.Token, Retain: store.Forever})
			take(t, s, "next", "y")
		}}
		report, err := move.Copy(background, before, busy, move.OldDecides, move.Options{})
		if err != nil || !report.Complete() || report.Same != 3 {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

// extend extends a lease of a minute for another one.
func extend(t *testing.T, s store.Store, name, holder string, token int64) {
	t.Helper()
	errs, err := s.Extend(background, []store.Extension{{Name: name, Holder: holder, Token: token, TTL: time.Minute}})
	if err = errors.Join(err, errs[0]); err != nil {
		t.Fatalf("%s extends %s: %v", holder, name, err)
	}
}

// TestCopyOfALeaseWhoseShadowWasLost: a holder that could not reach the other store for longer than its TTL has a greater token there since then. That is not in the
// way of a copy, for it was told the first one, and renews its lease. What is not renewed may be of a replica that was told the greater one.
func TestCopyOfALeaseWhoseShadowWasLost(t *testing.T) {
	for name, test := range map[string]struct {
		phase move.Phase // of the holder
		renew bool
		want  func(move.Report) bool
	}{
		"renewed":                   {move.NewDecides, true, func(r move.Report) bool { return r.Complete() && r.Same == 1 && r.Names == 1 }},
		"left":                      {move.NewDecides, false, func(r move.Report) bool { return r.Abandoned == 1 && r.Same == 0 && r.Names == 1 }},
		"of the other middle phase": {move.OldDecides, false, func(r move.Report) bool { return r.Abandoned == 1 && r.Same == 0 && r.Names == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before, after := memstore.New(), memstore.New()
				defer before.Close()
				defer after.Close()
				s := in(t, before, after, test.phase)
				token := take(t, s, "a", "x").Token
				if test.phase == move.NewDecides {
					for range 3 {
						time.Sleep(40 * time.Second)
						extend(t, after, "a", "x", token)
					}
					extend(t, s, "a", "x", token)
				}
				if old, now := records(t, before)["a"], records(t, after)["a"]; old.Token <= now.Token || old.Holder != "x" || now.Holder != "x" {
					t.Fatalf("the old store has %+v, the new one %+v", old, now)
				}
				report, err := move.Compare(background, before, after, move.NewDecides, move.NewOnly)
				if err != nil || report.Taken != 1 {
					t.Errorf("compared: %+v, %v", report, err)
				}
				done := make(chan struct{})
				var renewals sync.WaitGroup
				if test.renew {
					renewals.Go(func() {
						for {
							select {
							case <-time.After(20 * time.Second):
								extend(t, s, "a", "x", token)
							case <-done:
								return
							}
						}
					})
				}
				report, err = move.Copy(background, before, after, move.NewDecides, move.Options{Next: move.NewOnly})
				if err != nil || !test.want(report) {
					t.Errorf("%+v, %v", report, err)
				}
				close(done)
				renewals.Wait()
			})
		})
	}
}

// TestCopyOfALeaseThatLastsOrPassesOn: a copy does not wait for long to see a lease renewed, and who has the name after the wait may be another one, who was told the
// greater token.
func TestCopyOfALeaseThatLastsOrPassesOn(t *testing.T) {
	for name, test := range map[string]struct {
		ttl    time.Duration
		passes bool
	}{"lasts": {ttl: 10 * time.Minute}, "passes on": {ttl: 30 * time.Second, passes: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before, after := memstore.New(), memstore.New()
				defer before.Close()
				defer after.Close()
				tokens := swap(t, before, after, "a", "x", test.ttl)
				if test.passes {
					time.AfterFunc(20*time.Second, func() {
						leave(t, after, store.Release{Name: "a", Holder: "x", Token: tokens[0], Retain: store.Forever})
						leave(t, before, store.Release{Name: "a", Holder: "x", Token: tokens[1], Retain: store.Forever})
						swap(t, before, after, "a", "y", time.Hour)
					})
				}
				begun := time.Now()
				report, err := move.Copy(background, before, after, move.NewDecides, move.Options{Next: move.NewOnly})
				if err != nil || report.Taken != 1 || report.Same != 0 || time.Since(begun) > time.Minute {
					t.Errorf("after %v: %+v, %v; want one name that is taken", time.Since(begun), report, err)
				}
			})
		})
	}
}

// A goneStore refuses claims from a time on.
type goneStore struct {
	store.Store
	from time.Time
}

func (s goneStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if !time.Now().Before(s.from) {
		return nil, errors.New("gone")
	}
	return s.Store.Acquire(ctx, claims)
}

// TestCopyThatCannotLookOnceMoreSaysSo: a name that was to be looked at once more, because it is held, and that cannot be read then, is in the way of a copy. So it is if the copy is interrupted before.
func TestCopyThatCannotLookOnceMoreSaysSo(t *testing.T) {
	for after := time.Millisecond; after < time.Minute; after *= 4 {
		for _, how := range []string{"the store that decides is gone", "the other store is gone", "interrupted"} {
			synctest.Test(t, func(t *testing.T) {
				older, newer := memstore.New(), memstore.New()
				out, err := older.Acquire(background, []store.Claim{{Name: "a", Holder: "x", TTL: time.Minute, Above: take(t, newer, "a", "x").Token}})
				if err = errors.Join(err, out[0].Err); err != nil {
					t.Fatal(err)
				}
				ctx, other, decides := background, store.Store(older), store.Store(newer)
				switch how {
				case "interrupted":
					limited, cancel := context.WithTimeout(ctx, after)
					defer cancel()
					ctx = limited
				case "the other store is gone":
					other = goneStore{older, time.Now().Add(after)}
				default:
					decides = goneStore{newer, time.Now().Add(after)}
				}
				report, err := move.Copy(ctx, other, decides, move.NewDecides, move.Options{Next: move.NewOnly})
				if err == nil {
					t.Errorf("%s after %v, no error: %+v", how, after, report)
				}
			})
		}
	}
}

// A passingStore hands a name on before it is read for a copy.
type passingStore struct {
	store.Store
	pass func()
}

func (s passingStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if claims[0].Mark < 0 {
		s.pass()
	}
	return s.Store.Acquire(ctx, claims)
}

// TestCopyOfANameThatPassesOnAtEachLook: a name that goes from one replica of the phase to the next between the looks at the two stores, each time, is not in the way.
func TestCopyOfANameThatPassesOnAtEachLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		defer before.Close()
		defer after.Close()
		s := in(t, before, after, move.OldDecides)
		n := 0
		token := take(t, s, "x", "0").Token
		pass := func() {
			leave(t, s, store.Release{Name: "x", Holder: strconv.Itoa(n), Token: token, Retain: store.Forever})
			n++
			token = take(t, s, "x", strconv.Itoa(n)).Token
		}
		later := func() { // when the other list has been read
			time.Sleep(time.Second)
			pass()
		}
		report, err := move.Copy(background, passingStore{before, pass}, listedStore{after, later}, move.OldDecides, move.Options{})
		if err != nil || !report.Complete() || report.Same != 1 || n < 2 {
			t.Errorf("%+v, %v; it was passed on %d times", report, err, n)
		}
	})
}

// A reluctantStore refuses the claims of a copy.
type reluctantStore struct{ store.Store }

func (s reluctantStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if claims[0].Mark < 0 {
		return s.Store.Acquire(ctx, claims)
	}
	outs := make([]store.Outcome, len(claims))
	for i, c := range claims {
		outs[i].Err = &store.HeldError{Record: store.Record{Name: c.Name, Left: time.Second}}
	}
	return outs, nil
}

// TestCopyOfANameThatIsTakenEachTime: a name that seems free and is taken whenever it is to be copied is not copied, and the report says so.
func TestCopyOfANameThatIsTakenEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		defer before.Close()
		defer after.Close()
		g := take(t, before, "x", "h")
		leave(t, before, store.Release{Name: "x", Holder: "h", Token: g.Token, Mark: 7, Retain: store.Forever})
		for _, next := range []move.Phase{move.OldOnly, move.NewDecides} {
			report, err := move.Copy(background, before, reluctantStore{after}, move.OldDecides, move.Options{Next: next})
			if err != nil || report.Complete() || report.Taken != 1 || report.Names != 1 || report.Left != time.Second || len(report.Examples) != 1 {
				t.Errorf("before %v: %+v, %v; want a name that is taken", next, report, err)
			}
		}
	})
}

// A partlyStore cannot read the rest of many names once.
type partlyStore struct {
	store.Store
	rest *sync.Once
}

func (s partlyStore) Acquire(ctx context.Context, claims []store.Claim) (out []store.Outcome, err error) {
	if claims[0].Mark < 0 && len(claims) < 1024 {
		s.rest.Do(func() { err = errors.New("cut") })
	}
	if err != nil {
		return nil, err
	}
	return s.Store.Acquire(ctx, claims)
}

// TestCopyThatCannotLookAtTheRestSaysSo: of many names that were to be looked at once more, because they are held,
// the last could not be read. No later look makes up for that.
func TestCopyThatCannotLookAtTheRestSaysSo(t *testing.T) {
	for _, which := range []string{"the store that decides", "the other store"} {
		synctest.Test(t, func(t *testing.T) {
			before, after := memstore.New(), memstore.New()
			for i := range 1500 {
				take(t, before, strconv.Itoa(i), "h")
			}
			one, two := store.Store(partlyStore{before, new(sync.Once)}), store.Store(after)
			if which == "the other store" {
				one, two = before, partlyStore{after, new(sync.Once)}
			}
			if report, err := move.Copy(background, one, two, move.OldDecides, move.Options{}); err == nil {
				t.Errorf("%s could not be read, no error: %+v", which, report)
			}
		})
	}
}

// TestCopyOfANameThatTheOtherStoreAloneHasGranted: half of a claim is in the way while it lasts, even if no mark and
// no state comes with it.
func TestCopyOfANameThatTheOtherStoreAloneHasGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		take(t, after, "x", "half")
		for _, next := range []move.Phase{0, move.OldOnly, move.NewDecides} {
			report, err := move.Copy(background, before, after, move.OldDecides, move.Options{Next: next})
			if err != nil || report.Taken != 1 || report.Names != 1 || report.Same != 0 || report.Complete() {
				t.Errorf("before %v: %+v, %v", next, report, err)
			}
		}
	})
}

// swap grants a name to one holder in both stores of NewDecides, so that the store that decides has the lesser token.
// It returns the tokens, the lesser one first.
func swap(t *testing.T, before, after store.Store, name, holder string, ttl time.Duration) (tokens [2]int64) {
	t.Helper()
	for i, s := range []store.Store{after, before} {
		out, err := s.Acquire(background, []store.Claim{{Name: name, Holder: holder, TTL: ttl, Above: tokens[0]}})
		if err = errors.Join(err, out[0].Err); err != nil {
			t.Error(err)
		}
		tokens[i] = out[0].Grant.Token
	}
	return tokens
}

// TestCopyOfNamesThatChangeWhileItWaits: when a copy has waited for leases to be renewed, it sees of each name what
// is so now, and does what is left to do.
func TestCopyOfNamesThatChangeWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		s := in(t, before, after, move.NewDecides)
		const ttl = 30 * time.Second
		names := []string{"died", "released", "renewed", "taken by the next", "taken by the phase behind"}
		tokens := map[string][2]int64{}
		for _, name := range names {
			tokens[name] = swap(t, before, after, name, "h", ttl)
		}
		release := func(name string) {
			for i, s := range []store.Store{after, before} {
				r := store.Release{Name: name, Holder: "h", Token: tokens[name][i], Mark: 7, Retain: store.Forever}
				leave(t, s, r)
			}
		}
		time.AfterFunc(20*time.Second, func() {
			release("released")
			extend(t, s, "renewed", "h", tokens["renewed"][0])
			release("taken by the next")
			take(t, s, "taken by the next", "next")
			release("taken by the phase behind")
			take(t, before, "taken by the phase behind", "behind")
		})
		report, err := move.Copy(background, before, after, move.NewDecides, move.Options{Next: move.NewOnly})
		if err != nil || report.Names != 5 || report.Copied != 1 || report.Same != 2 || report.Abandoned != 1 || report.Taken != 1 {
			t.Errorf("%+v, %v", report, err)
		}
		if slices.Sort(report.Examples); !slices.Equal(report.Examples, []string{"died", "taken by the phase behind"}) {
			t.Errorf("examples: %q", report.Examples)
		}
		if g := take(t, after, "released", "next"); g.Token <= tokens["released"][1] || g.Mark != 7 {
			t.Errorf("what was released is granted with %+v after the token %d", g, tokens["released"][1])
		}
	})
}

// A slowClock is a store whose clock takes eleven seconds for ten.
type slowClock struct{ store.Store }

func (s slowClock) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	claims = slices.Clone(claims)
	for i := range claims {
		claims[i].TTL += claims[i].TTL / 10
	}
	out, err := s.Store.Acquire(ctx, claims)
	for _, o := range out {
		if done := (*store.DoneError)(nil); errors.As(o.Err, &done) {
			done.Record.Left = done.Record.Left * 10 / 11
		}
	}
	return out, err
}

// TestCopyWaitsForASlowClock: a lease is not taken for a renewed one because the clock of the store is a bit slow, or
// because another one ends sooner.
func TestCopyWaitsForASlowClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		one, two := slowClock{before}, slowClock{after}
		swap(t, one, two, "x", "died", 50*time.Second)
		swap(t, one, two, "y", "died", 5*time.Second)
		report, err := move.Copy(background, one, two, move.NewDecides, move.Options{Next: move.NewOnly})
		if err != nil || report.Same != 0 || report.Abandoned != 2 || report.Complete() {
			t.Errorf("%+v, %v", report, err)
		}
	})
}
