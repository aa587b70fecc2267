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

// A pingedStore answers pings and requests for a watch with an error, if it has one.
type pingedStore struct {
	*memstore.Store
	ping, watch error
	watched     chan context.Context // if not nil, has what a watch is asked for with
}

func (s pingedStore) Ping(context.Context) error { return s.ping }

func (s pingedStore) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if s.watched != nil {
		s.watched <- ctx
	}
	if s.watch != nil {
		return nil, s.watch
	}
	return s.Store.Watch(ctx, names)
}

// TestPingOfBothStores: a store that does not respond is told, whichever it is. One that cannot be asked is not in the way of the other.
func TestPingOfBothStores(t *testing.T) {
	away := errors.New("away")
	for _, test := range []struct{ one, two, want error }{
		{nil, nil, nil},
		{away, nil, away},
		{nil, away, away},
		{errors.ErrUnsupported, nil, nil},
		{nil, errors.ErrUnsupported, nil},
		{errors.ErrUnsupported, away, away},
		{errors.ErrUnsupported, errors.ErrUnsupported, errors.ErrUnsupported},
	} {
		s := in(t, pingedStore{Store: memstore.New(), ping: test.one}, pingedStore{Store: memstore.New(), ping: test.two}, move.OldDecides)
		if err := as[store.Pinger](t, s).Ping(background); !errors.Is(err, test.want) {
			t.Errorf("%v and %v: got %v, want %v", test.one, test.two, err, test.want)
		}
	}
	verbs := struct{ store.Store }{memstore.New()} // which cannot be asked
	if err := as[store.Pinger](t, in(t, verbs, pingedStore{Store: memstore.New(), ping: away}, move.OldDecides)).Ping(background); !errors.Is(err, away) {
		t.Errorf("beside a store without a ping: %v, want %v", err, away)
	}
	if err := as[store.Pinger](t, in(t, verbs, verbs, move.OldDecides)).Ping(background); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without a ping: %v", err)
	}
}

// A troubledStore answers what a move asks both stores for with an error, if it has one.
type troubledStore struct {
	store.Store
	err   error
	swept int
}

func (s *troubledStore) Close() error                            { return s.err }
func (s *troubledStore) Sweep(context.Context, int) (int, error) { return s.swept, s.err }

func (s *troubledStore) Capabilities(ctx context.Context) (store.Capabilities, error) {
	promised, err := store.CapabilitiesOf(ctx, s.Store)
	return promised, errors.Join(err, s.err)
}

// TestErrorsOfBothStores: what fails in either of the stores is told.
func TestErrorsOfBothStores(t *testing.T) {
	fault := errors.New("fault")
	for phase := move.OldOnly; phase <= move.NewOnly; phase++ {
		for _, first := range []bool{true, false} {
			one, two := &troubledStore{Store: memstore.New(), err: fault}, &troubledStore{Store: memstore.New()}
			if !first {
				one, two = two, one
			}
			s := in(t, one, two, phase)
			if err := s.Close(); !errors.Is(err, fault) {
				t.Errorf("%v, closed: %v, want %v", phase, err, fault)
			}
			if phase == move.OldOnly || phase == move.NewOnly {
				continue
			}
			if _, err := as[store.Sweeper](t, s).Sweep(background, 1); !errors.Is(err, fault) {
				t.Errorf("%v, swept: %v, want %v", phase, err, fault)
			}
			if _, err := store.CapabilitiesOf(background, s); !errors.Is(err, fault) {
				t.Errorf("%v, asked what it promises: %v, want %v", phase, err, fault)
			}
		}
	}
}

// TestSweepOfStoresThatForget: a move sweeps those of its stores that can be swept, and says how much the one that decides has forgotten.
func TestSweepOfStoresThatForget(t *testing.T) {
	verbs := struct{ store.Store }{memstore.New()}
	refuses := &troubledStore{Store: memstore.New(), err: errors.ErrUnsupported}
	four, five := &troubledStore{Store: memstore.New(), swept: 4}, &troubledStore{Store: memstore.New(), swept: 5}
	for _, test := range []struct {
		one, two store.Store
		swept    int
		err      error
	}{
		{four, five, 4, nil},
		{four, verbs, 4, nil},
		{four, refuses, 4, nil},
		{verbs, five, 0, nil},
		{refuses, five, 0, nil},
		{verbs, refuses, 0, errors.ErrUnsupported},
		{refuses, verbs, 0, errors.ErrUnsupported},
	} {
		n, err := as[store.Sweeper](t, in(t, test.one, test.two, move.OldDecides)).Sweep(background, 10)
		if n != test.swept || !errors.Is(err, test.err) {
			t.Errorf("%T and %T: %d, %v; want %d, %v", test.one, test.two, n, err, test.swept, test.err)
		}
	}
}

// A clocklessStore has no clock.
type clocklessStore struct{ store.Store }

func (clocklessStore) Clockless() {}

// TestMoveWithAStoreWithoutAClock: a move has a clock if both stores do.
func TestMoveWithAStoreWithoutAClock(t *testing.T) {
	has, lacks := memstore.New(), clocklessStore{memstore.New()}
	for _, test := range []struct {
		one, two store.Store
		lacks    bool
	}{{has, has, false}, {has, lacks, true}, {lacks, has, true}, {lacks, lacks, true}} {
		for _, phase := range []move.Phase{move.OldDecides, move.NewDecides} {
			if _, is := store.As[store.Clockless](in(t, test.one, test.two, phase)); is != test.lacks {
				t.Errorf("%T and %T in the phase %v: without a clock %t", test.one, test.two, phase, is)
			}
		}
	}
}

// TestWatchOfOneStoreAlone: without a watch of the other store there is none, and the first one has ended.
func TestWatchOfOneStoreAlone(t *testing.T) {
	away := errors.New("away")
	watched := make(chan context.Context, 2)
	watches, lacks := pingedStore{Store: memstore.New(), watched: watched}, struct{ store.Store }{memstore.New()}
	fails := pingedStore{Store: memstore.New(), watch: away, watched: watched}
	for _, test := range []struct {
		one, two store.Store
		want     error
	}{{watches, fails, away}, {fails, watches, away}, {watches, lacks, errors.ErrUnsupported}, {lacks, watches, errors.ErrUnsupported}} {
		if _, err := as[store.Watcher](t, in(t, test.one, test.two, move.OldDecides)).Watch(background, []string{"x"}); !errors.Is(err, test.want) {
			t.Errorf("%T and %T: got %v, want %v", test.one, test.two, err, test.want)
		}
		for len(watched) > 0 {
			if ctx := <-watched; ctx.Err() == nil {
				t.Errorf("%T and %T: the watch of one store goes on", test.one, test.two)
			}
		}
	}
}

// A slowlyStore lets go of a watch after a while.
type slowlyStore struct {
	*memstore.Store
	after  time.Duration
	ended  *int // how many watches have ended
	closes bool // at once, whatever the context
}

func (s slowlyStore) Watch(ctx context.Context, _ []string) (<-chan struct{}, error) {
	wake := make(chan struct{})
	go func() {
		if !s.closes {
			<-ctx.Done()
		}
		time.Sleep(s.after)
		*s.ended++
		close(wake)
	}()
	return wake, nil
}

// TestWatchEndsWithThoseOfBothStores: when one of the watches ends, so does the other one, and the watch of both is over when both have let go: who
// closes a store after that finds nothing of it in use.
func TestWatchEndsWithThoseOfBothStores(t *testing.T) {
	for _, first := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ended := 0
			one := slowlyStore{Store: memstore.New(), ended: &ended, closes: true}
			two := slowlyStore{Store: memstore.New(), ended: &ended, after: time.Second}
			if !first {
				one, two = two, one
			}
			wake, err := as[store.Watcher](t, in(t, one, two, move.OldDecides)).Watch(background, []string{"x"})
			if err != nil {
				t.Fatal(err)
			}
			for range wake {
			}
			if ended != 2 {
				t.Errorf("the watch is over when those of %d stores are", ended)
			}
		})
	}
}

// A lateStore carries out extensions, and does not answer them, while it is mute.
type lateStore struct {
	store.Store
	mute bool
}

func (s *lateStore) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	errs, err := s.Store.Extend(ctx, extensions)
	if s.mute {
		return nil, store.AsUnknown(context.DeadlineExceeded)
	}
	return errs, err
}

// TestUnansweredWriteIsBroughtToTheOther: the store that decides has recorded a state, and did not answer. What is confirmed after that is so in both stores.
func TestUnansweredWriteIsBroughtToTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		truth := &lateStore{Store: before, mute: true}
		s := in(t, truth, after, move.OldDecides)
		g := take(t, s, "x", "h")
		if err := extended(s, g.Token, 0, "page 7"); !errors.Is(err, store.ErrUnknown) {
			t.Fatal(err)
		}
		truth.mute = false
		leave(t, s, store.Release{Name: "x", Holder: "h", Token: g.Token, Mark: 3, Retain: store.Forever})
		if next := take(t, in(t, before, after, move.NewDecides), "x", "next"); string(next.State) != "page 7" || next.Mark != 3 {
			t.Errorf("the next has %q with mark %d", next.State, next.Mark)
		}
	})
}

// TestReleaseOfNothingIsLost: a release that writes nothing, of a lease that the store that decides knows to be lost, is lost and not unknown, whatever the other store does.
func TestReleaseOfNothingIsLost(t *testing.T) {
	for what, other := range map[string]func(store.Store) store.Store{
		"it does not respond":         func(s store.Store) store.Store { return silent{s} },
		"it does not answer releases": func(s store.Store) store.Store { return muteStore{s} },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before, after := memstore.New(), memstore.New()
				g := take(t, in(t, before, after, move.OldDecides), "x", "h")
				r := store.Release{Name: "x", Holder: "h", Token: g.Token, Retain: store.Forever}
				leave(t, before, r)
				take(t, before, "x", "next")
				ctx, cancel := context.WithTimeout(background, time.Second)
				defer cancel()
				errs, err := in(t, before, other(after), move.OldDecides).Release(ctx, []store.Release{r})
				if err != nil || !errors.Is(errs[0], store.ErrLost) || errors.Is(errs[0], store.ErrUnknown) {
					t.Errorf("%v, %v, want that it is lost", errs, err)
				}
			})
		})
	}
}

// TestCopyThatCannotEndSaysSo: a name that cannot be released in one of the stores has not been copied, whether both
// stores have to change, only the other one, or only the token.
func TestCopyThatCannotEndSaysSo(t *testing.T) {
	for what, c := range map[string]struct {
		mark    int64 // of the other store
		next    move.Phase
		decides bool // the store that decides cannot be released, else the other one
	}{
		"both, the store that decides": {3, 0, true},
		"both, the other store":        {3, 0, false},
		"the other store":              {3, move.NewDecides, false},
		"the token":                    {7, 0, true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before, after := memstore.New(), memstore.New()
				put(t, before, "x", 0, 7, "s")
				put(t, after, "x", 1<<55, c.mark, "s")
				one, two := store.Store(before), store.Store(refusing{after})
				if c.decides {
					one, two = refusing{before}, after
				}
				report, err := move.Copy(background, one, two, move.OldDecides, move.Options{Next: c.next})
				if err == nil || report.Copied != 0 || report.Names != 1 {
					t.Errorf("%+v, %v, want an error and nothing copied", report, err)
				}
			})
		})
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

// A checkingStore fails the test if it is sent what is not valid, and counts the requests.
type checkingStore struct {
	store.Store
	t        *testing.T
	requests *int
	deaf     bool // it confirms no extension and no release
}

func checked[E interface{ Check() error }](s checkingStore, what []E, send func() ([]error, error)) ([]error, error) {
	*s.requests++
	for _, e := range what {
		if err := e.Check(); err != nil {
			s.t.Errorf("%+v was sent", e)
		}
	}
	if s.deaf {
		return nil, store.AsUnknown(errors.New("cut"))
	}
	return send()
}

func (s checkingStore) Acquire(ctx context.Context, claims []store.Claim) (out []store.Outcome, err error) {
	s.deaf = false
	_, _ = checked(s, claims, func() ([]error, error) { out, err = s.Store.Acquire(ctx, claims); return nil, nil })
	return out, err
}

func (s checkingStore) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	return checked(s, extensions, func() ([]error, error) { return s.Store.Extend(ctx, extensions) })
}

func (s checkingStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	return checked(s, releases, func() ([]error, error) { return s.Store.Release(ctx, releases) })
}

// TestBatchWithWhatIsNotValid: what is not valid is sent to neither store, and takes no other of its batch along: each has its own outcome.
func TestBatchWithWhatIsNotValid(t *testing.T) {
	for _, deaf := range []bool{false, true} { // the store that does not decide
		synctest.Test(t, func(t *testing.T) {
			var n int
			s := in(t, checkingStore{memstore.New(), t, &n, false}, checkingStore{memstore.New(), t, &n, deaf}, move.OldDecides)
			out, err := s.Acquire(background, []store.Claim{{Name: "", Holder: "h", TTL: time.Minute}, {Name: "x", Holder: "h", TTL: time.Minute}, {Name: "y", Holder: "h"}})
			if err != nil || !errors.Is(out[0].Err, store.ErrInvalid) || out[1].Err != nil || !errors.Is(out[2].Err, store.ErrInvalid) {
				t.Fatalf("claims: %+v, %v", out, err)
			}
			token := out[1].Grant.Token
			wants := func(verb string, errs []error, err error) {
				t.Helper()
				if err != nil || !errors.Is(errs[0], store.ErrInvalid) || deaf != errors.Is(errs[1], store.ErrUnknown) || !deaf && errs[1] != nil || !errors.Is(errs[2], store.ErrInvalid) {
					t.Errorf("%s: %v, %v; the other store is deaf: %t", verb, errs, err, deaf)
				}
			}
			errs, err := s.Extend(background, []store.Extension{
				{Name: "y", Holder: "h", Token: token}, {Name: "x", Holder: "h", Token: token, TTL: time.Minute, State: []byte("s")}, {Name: "", Holder: "h", Token: token, TTL: time.Minute},
			})
			wants("extensions", errs, err)
			errs, err = s.Release(background, []store.Release{{Name: "", Holder: "h", Token: token}, {Name: "x", Holder: "h", Token: token, Mark: 7}, {Name: "y", Holder: "h", Token: token, Mark: -1}})
			wants("releases", errs, err)
		})
	}
}

// TestWatchOfWhatIsNoName: a name that is not valid is watched in neither store.
func TestWatchOfWhatIsNoName(t *testing.T) {
	watched := make(chan context.Context, 2)
	one := pingedStore{Store: memstore.New(), watched: watched}
	if _, err := as[store.Watcher](t, in(t, one, one, move.OldDecides)).Watch(background, []string{"x", ""}); !errors.Is(err, store.ErrInvalid) || len(watched) > 0 {
		t.Errorf("got %v, and %d watches", err, len(watched))
	}
}
