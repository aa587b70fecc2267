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

// A deaf store does not hear the next extensions.
type deaf struct {
	store.Store
	next int
}

func (d *deaf) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if d.next > 0 {
		d.next--
		<-ctx.Done()
		return nil, store.AsUnknown(ctx.Err())
	}
	return d.Store.Extend(ctx, extensions)
}

// TestWriteOfOneStoreIsBroughtToTheOther: an extension with a state reached only the store that decides. A release that is confirmed after that, because
// the extension prolonged the lease, leaves the state to a replica in the other middle phase.
func TestWriteOfOneStoreIsBroughtToTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		shadow := &deaf{Store: after, next: 1}
		s := in(t, before, shadow, move.OldDecides)
		g := take(t, s, "x", "h")
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		e := store.Extension{Name: "x", Holder: "h", Token: g.Token, TTL: time.Hour, State: []byte("page 7")}
		if errs, err := s.Extend(ctx, []store.Extension{e}); err == nil && errs[0] == nil {
			t.Error("an extension that only one store has was confirmed")
		}
		leave(t, s, store.Release{Name: "x", Holder: "h", Token: g.Token, Mark: 3, Retain: store.Forever})
		next := take(t, in(t, before, after, move.NewDecides), "x", "next")
		if string(next.State) != "page 7" || next.Mark != 3 {
			t.Errorf("the next has %q with mark %d", next.State, next.Mark)
		}
	})
}

// A fickle store can lose extensions, be late with them, and not be read.
type fickle struct {
	store.Store
	deaf, unread bool
	late         time.Duration
	asked        chan struct{} // if not nil, has a value when a late extension has come
}

func (f *fickle) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	if f.deaf {
		return nil, store.AsUnknown(errors.New("cut"))
	}
	if late := f.late; late > 0 {
		f.late = 0
		f.asked <- struct{}{}
		time.Sleep(late)
	}
	return f.Store.Extend(ctx, extensions)
}

func (f *fickle) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if f.unread && claims[0].Mark < 0 {
		return nil, store.AsUnknown(errors.New("cut"))
	}
	return f.Store.Acquire(ctx, claims)
}

// extended extends x for its holder h.
func extended(s store.Store, token, mark int64, state string) error {
	e := store.Extension{Name: "x", Holder: "h", Token: token, TTL: time.Hour, Mark: mark}
	if state != "" {
		e.State = []byte(state)
	}
	errs, err := s.Extend(background, []store.Extension{e})
	return errors.Join(append(errs, err)...)
}

// halfWritten returns a lease in a move whose state reached only the store that decides, which cannot be read from then on.
func halfWritten(t *testing.T) (s store.Store, g store.Grant, truth, shadow *fickle) {
	t.Helper()
	truth, shadow = &fickle{Store: memstore.New()}, &fickle{Store: memstore.New()}
	s = in(t, truth, shadow, move.OldDecides)
	g = take(t, s, "x", "h")
	shadow.deaf = true
	if err := extended(s, g.Token, 0, "page 7"); !errors.Is(err, store.ErrUnknown) {
		t.Fatal(err)
	}
	shadow.deaf, truth.unread = false, true
	return s, g, truth, shadow
}

// TestReleaseThatCannotBringAWriteFreesNothing: an extension with a state reached only the store that decides, and that cannot be read when the lease is released. The
// other store is not freed as if nothing had been written: it has the state before the next holder is granted the name.
func TestReleaseThatCannotBringAWriteFreesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g, truth, shadow := halfWritten(t)
		r := store.Release{Name: "x", Holder: "h", Token: g.Token, Retain: store.Forever}
		if errs, err := s.Release(background, []store.Release{r}); err != nil || !errors.Is(errs[0], store.ErrUnknown) {
			t.Errorf("released: %v, %v", errs, err)
		}
		if r := records(t, shadow.Store)["x"]; r.Holder != "h" || r.Free() {
			t.Errorf("the other store has %+v, want it held", r)
		}
		truth.unread = false
		if errs, err := s.Release(background, []store.Release{r}); err != nil || errs[0] != nil {
			t.Errorf("repeated: %v, %v", errs, err)
		}
		if next := take(t, in(t, truth.Store, shadow.Store, move.NewDecides), "x", "next"); string(next.State) != "page 7" {
			t.Errorf("the next has %q", next.State)
		}
	})
}

// TestOlderStateIsNotBroughtOverANewer: a renewal that brings the shadow a state, and is late there, does not undo what the holder has written since then.
func TestOlderStateIsNotBroughtOverANewer(t *testing.T) {
	for what, onlyOne := range map[string]bool{"a write has reached one store": true, "a write has reached none": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before, after := memstore.New(), memstore.New()
				truth, shadow := &fickle{Store: before}, &fickle{Store: after, asked: make(chan struct{}, 1)}
				s := in(t, truth, shadow, move.OldDecides)
				g := take(t, s, "x", "h")
				if err := extended(s, g.Token, 0, "page 1"); err != nil {
					t.Fatal(err)
				}
				truth.deaf, shadow.deaf = !onlyOne, true
				if err := extended(s, g.Token, 0, "page 2"); !errors.Is(err, store.ErrUnknown) {
					t.Fatal(err)
				}
				truth.deaf, shadow.deaf, shadow.late = false, false, time.Second
				renewed := make(chan error)
				go func() { renewed <- extended(s, g.Token, 0, "") }()
				<-shadow.asked
				if err := extended(s, g.Token, 0, "page 3"); err != nil {
					t.Error(err)
				}
				if err := <-renewed; err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Hour) // the holder has died
				if next := take(t, in(t, before, after, move.NewDecides), "x", "next"); string(next.State) != "page 3" {
					t.Errorf("page 3 was confirmed, and the next holder is given %q", next.State)
				}
			})
		})
	}
}

// TestWhatCannotBeBroughtIsUnknown: an extension that shows that an earlier write took effect is confirmed only if the shadow has that write too.
func TestWhatCannotBeBroughtIsUnknown(t *testing.T) {
	for what, mark := range map[string]int64{"a renewal": 0, "a mark": 3} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, g, truth, shadow := halfWritten(t)
				if err := extended(s, g.Token, mark, ""); !errors.Is(err, store.ErrUnknown) {
					t.Errorf("an extension after which the shadow lacks the state: %v, want that it is unknown", err)
				}
				if left := records(t, shadow.Store)["x"].Left; mark == 0 && left != time.Hour {
					t.Errorf("the shadow's lease lives for another %v, want that it is renewed", left)
				}
				truth.unread = false
				if err := extended(s, g.Token, mark, ""); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Hour) // the holder has died
				if next := take(t, in(t, truth.Store, shadow.Store, move.NewDecides), "x", "next"); string(next.State) != "page 7" || next.Mark != mark {
					t.Errorf("the next has %q with mark %d", next.State, next.Mark)
				}
			})
		})
	}
}

// TestMarkIsNotBroughtWithoutTheStateBefore: a mark does not get to the shadow while what the shadow may lack cannot be read. With the mark it would look as new as the store that decides, and a
// replica in the other middle phase would go on without the state.
func TestMarkIsNotBroughtWithoutTheStateBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g, truth, shadow := halfWritten(t)
		if err := extended(s, g.Token, 3, ""); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("an extension after which the shadow lacks the state: %v, want that it is unknown", err)
		}
		time.Sleep(2 * time.Hour) // the holder has died
		if next := take(t, in(t, truth.Store, shadow.Store, move.NewDecides), "x", "next"); string(next.State) != "page 7" || next.Mark != 3 {
			t.Errorf("the next has %q with mark %d", next.State, next.Mark)
		}
	})
}

// TestRenewalDoesNotSettleAWriteOfTheSameTime: a renewal is under way while a state reaches only the store that decides. Both stores have the state when the lease is released.
func TestRenewalDoesNotSettleAWriteOfTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		shadow := &fickle{Store: after, late: time.Second, asked: make(chan struct{}, 1)}
		s := in(t, before, shadow, move.OldDecides)
		g := take(t, s, "x", "h")
		renewed := make(chan error)
		go func() { renewed <- extended(s, g.Token, 0, "") }()
		<-shadow.asked
		shadow.deaf = true
		if err := extended(s, g.Token, 0, "page 7"); !errors.Is(err, store.ErrUnknown) {
			t.Error(err)
		}
		shadow.deaf = false
		if err := <-renewed; err != nil {
			t.Error(err)
		}
		leave(t, s, store.Release{Name: "x", Holder: "h", Token: g.Token, Retain: store.Forever})
		if next := take(t, in(t, before, after, move.NewDecides), "x", "next"); string(next.State) != "page 7" {
			t.Errorf("the next has %q", next.State)
		}
	})
}

// TestBringingDoesNotSettleALaterWrite: while a renewal brings the shadow the state before, the store that decides
// records a later one, and the answer is lost. The release brings that one too.
func TestBringingDoesNotSettleALaterWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		truth, shadow := &lateStore{Store: before}, &fickle{Store: after, deaf: true, asked: make(chan struct{}, 1)}
		s := in(t, truth, shadow, move.OldDecides)
		g := take(t, s, "x", "h")
		if err := extended(s, g.Token, 0, "page 1"); !errors.Is(err, store.ErrUnknown) {
			t.Fatal(err)
		}
		shadow.deaf, shadow.late = false, time.Second
		renewed := make(chan error)
		go func() { renewed <- extended(s, g.Token, 0, "") }()
		<-shadow.asked // it has read page 1
		truth.mute = true
		if err := extended(s, g.Token, 0, "page 2"); !errors.Is(err, store.ErrUnknown) {
			t.Error(err)
		}
		truth.mute = false
		if err := <-renewed; err != nil {
			t.Error(err)
		}
		leave(t, s, store.Release{Name: "x", Holder: "h", Token: g.Token, Retain: store.Forever})
		if next := take(t, in(t, before, after, move.NewDecides), "x", "next"); string(next.State) != "page 2" {
			t.Errorf("page 2 is in the store that decides, and the next holder is given %q", next.State)
		}
	})
}
