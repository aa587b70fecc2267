package fleetmove_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/fleetmove"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// A stuckStore does not respond to claims of the name stuck.
type stuckStore struct{ store.Store }

func (s stuckStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if claims[0].Name != "stuck" {
		return s.Store.Acquire(ctx, claims)
	}
	<-ctx.Done()
	return nil, store.AsUnknown(ctx.Err())
}

// TestClaimEndsBeforeItsAnnouncement: a claim whose caller sets no bound is not under way any more when the announcement of its replica may have ended.
func TestClaimEndsBeforeItsAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := fleetmove.Join(stuckStore{memstore.New()}, memstore.New(), move.OldOnly, "r")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		_, err = s.Acquire(ctx, []store.Claim{{Name: "stuck", Holder: "h", TTL: time.Minute}})
		if !errors.Is(err, store.ErrUnknown) || time.Since(begun) > 10*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

// TestWaitInLineEndsBeforeTheAnnouncement: so it is with a claim that waits in line, and one that chooses among names.
func TestWaitInLineEndsBeforeTheAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		s := f.join(t, move.OldOnly)
		if out, err := f.before.Acquire(background, []store.Claim{{Name: "x", Holder: "other", TTL: time.Hour}}); err != nil || out[0].Err != nil {
			t.Fatal(err, out)
		}
		begun := time.Now()
		ctx, cancel := context.WithTimeout(background, time.Hour)
		defer cancel()
		_, _, err := as[store.Queuer](t, s).Queue(ctx, store.Claim{Name: "x", Holder: "h", TTL: time.Minute})
		if !errors.Is(err, store.ErrHeld) || time.Since(begun) > 10*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		chooser, err := fleetmove.Join(stuckChooser{f.before.Share()}, f.after.Share(), move.OldOnly, "r")
		if err != nil {
			t.Fatal(err)
		}
		defer chooser.Close()
		begun = time.Now()
		_, _, err = as[store.Chooser](t, chooser).Choose(ctx, []string{"y", "z"}, store.Claim{Holder: "h", TTL: time.Minute})
		if !errors.Is(err, store.ErrUnknown) || time.Since(begun) > 10*time.Second {
			t.Errorf("choosing, after %v: %v", time.Since(begun), err)
		}
	})
}

// A stuckChooser does not respond to claims of one of several names.
type stuckChooser struct{ *memstore.Store }

func (stuckChooser) Choose(ctx context.Context, _ []string, _ store.Claim) (int, store.Grant, error) {
	<-ctx.Done()
	return 0, store.Grant{}, store.AsUnknown(ctx.Err())
}

// TestClaimThatWasNotSentIsNotUnknown: of a claim before which the announcement was not answered it is known that it was never sent.
func TestClaimThatWasNotSentIsNotUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := fleetmove.Join(unheardStore{memstore.New()}, memstore.New(), move.OldOnly, "r")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Acquire(background, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}}); err == nil || errors.Is(err, store.ErrUnknown) {
			t.Errorf("got %v, want an error that is not unknown", err)
		}
	})
}

// An unheardStore does not reply to claims.
type unheardStore struct{ store.Store }

func (unheardStore) Acquire(context.Context, []store.Claim) ([]store.Outcome, error) {
	return nil, store.AsUnknown(errors.New("no reply"))
}

// TestRefusedReplicaIsNotInTheWay: a replica that may not be in its phase, and goes on asking, is not known as one that is in it.
func TestRefusedReplicaIsNotInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		if err := f.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		s := f.join(t, move.NewDecides)
		for range 2 {
			if _, err := s.Acquire(background, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}}); !errors.Is(err, store.ErrUnusable) {
				t.Fatalf("claimed: %v", err)
			}
			if status, err := f.lead.Status(background); err != nil || len(status.Replicas) > 0 {
				t.Errorf("%+v, %v; want no replica", status, err)
			}
		}
		f.advance(t, true, takenBack)
	})
}

// TestJoinChecksItsArguments: what no replica can work with is an error at once.
func TestJoinChecksItsArguments(t *testing.T) {
	for what, try := range map[string]func() (store.Store, error){
		"no old store": func() (store.Store, error) { return fleetmove.Join(nil, memstore.New(), move.OldOnly, "r") },
		"no new store": func() (store.Store, error) { return fleetmove.Join(memstore.New(), nil, move.OldOnly, "r") },
		"no phase":     func() (store.Store, error) { return fleetmove.Join(memstore.New(), memstore.New(), 0, "r") },
		"a long name": func() (store.Store, error) {
			return fleetmove.Join(memstore.New(), memstore.New(), move.OldOnly, strings.Repeat("x", 1000))
		},
	} {
		if s, err := try(); err == nil || s != nil {
			t.Errorf("%s: %v, %v", what, s, err)
		}
	}
}

// An unclosedStore cannot be closed.
type unclosedStore struct{ store.Store }

func (unclosedStore) Close() error { return errOnce }

// TestCloseOfAReplicaTellsErrors: whichever of the two stores cannot be closed.
func TestCloseOfAReplicaTellsErrors(t *testing.T) {
	for _, phase := range []move.Phase{move.OldOnly, move.OldDecides, move.NewDecides, move.NewOnly} {
		for _, which := range []string{"old", "new"} {
			one, two := store.Store(unclosedStore{memstore.New()}), store.Store(memstore.New())
			if which == "new" {
				one, two = two, one
			}
			s, err := fleetmove.Join(one, two, phase, "r")
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); !errors.Is(err, errOnce) {
				t.Errorf("%v, the %s store is not closed: %v", phase, which, err)
			}
		}
	}
}

// TestClaimThatWaitsForItsTurn: a claim whose time is over before another one has announced the replica was never
// sent, and is not in the way of the next.
func TestClaimThatWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		s, cut := f.joinCut(t)
		cut.cut.Store(true)
		claim := func(limit time.Duration) error {
			ctx, cancel := context.WithTimeout(background, limit)
			defer cancel()
			_, err := s.Acquire(ctx, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}})
			return err
		}
		first := make(chan error)
		go func() { first <- claim(3 * time.Second) }()
		synctest.Wait()
		for range 2 {
			begun := time.Now()
			err := claim(time.Second)
			waited := time.Since(begun)
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnknown) || waited != time.Second {
				t.Errorf("after %v: %v", waited, err)
			}
		}
		if err := <-first; err == nil {
			t.Error("the first claim was answered by a store that is silent")
		}
		cut.cut.Store(false)
		if err := claim(time.Minute); err != nil {
			t.Errorf("when the store responds: %v", err)
		}
	})
}
