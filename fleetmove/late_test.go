package fleetmove_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/fleetmove"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/move"
)

// A lateStore lists a record some time after it was granted, unless it is asked for that name alone.
type lateStore struct{ store.Store }

const listLag = 5 * time.Second

func (s lateStore) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for r, err := range s.Store.List(ctx, prefix) {
			if (err != nil || r.Name == prefix || r.Age >= listLag) && !yield(r, err) {
				return
			}
		}
	}
}

// TestReplicaOfAStoreWithLateLists: a replica claims nothing before others can see it in a list, so its phase is not left while it works.
func TestReplicaOfAStoreWithLateLists(t *testing.T) {
	fleet := func(t *testing.T) (f *movedFleet, lead *fleetmove.Manager, replica store.Store) {
		f = newMovedFleet(t)
		lead = manage(t, lateStore{f.before.Share()}, lateStore{f.after.Share()})
		if err := lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		replica, err := fleetmove.Join(lateStore{f.before.Share()}, lateStore{f.after.Share()}, move.OldOnly, "late")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = replica.Close() })
		return f, lead, replica
	}
	claim := func(s store.Store, timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(background, timeout)
		defer cancel()
		out, err := s.Acquire(ctx, []store.Claim{{Name: "x", Holder: "late", TTL: time.Minute}})
		if err == nil {
			err = out[0].Err
		}
		return err
	}
	synctest.Test(t, func(t *testing.T) { // it is seen
		f, lead, replica := fleet(t)
		take(t, replica, "x", "late")
		_, _, err := lead.Advance(background, false, move.Options{})
		var behind *fleetmove.BehindError
		if !errors.As(err, &behind) {
			t.Errorf("a replica works in the phase behind: %v", err)
		}
		f.is(t, rollToOldDecides)
	})
	synctest.Test(t, func(t *testing.T) { // it is refused, since the phase was left before it was listed
		_, lead, replica := fleet(t)
		if err := claim(replica, time.Second); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("before it is listed: %v", err)
		}
		if _, _, err := lead.Advance(background, false, move.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := claim(replica, time.Minute); !errors.Is(err, store.ErrUnusable) {
			t.Errorf("after the phase was left: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // claims that wait less than a list needs succeed at last
		_, _, replica := fleet(t)
		begun := time.Now()
		for claim(replica, time.Second) != nil {
			if time.Since(begun) > 2*listLag {
				t.Fatal("it is never announced")
			}
		}
		if waited := time.Since(begun); waited < listLag {
			t.Errorf("it has claimed after %v", waited)
		}
	})
}

// A list that fails does not show a replica.
func TestLateListThatFailsOnce(t *testing.T) {
	everyFault(t, func(t *testing.T, f *fault) {
		fleet := newMovedFleet(t)
		if err := fleet.lead.Plan(background); err != nil {
			t.Fatal(err)
		}
		s, err := fleetmove.Join(faultyStore{lateStore{fleet.before.Share()}, f}, fleet.after.Share(), move.OldOnly, "late")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		begun := time.Now()
		outs, err := s.Acquire(background, []store.Claim{{Name: "x", Holder: "late", TTL: time.Minute}})
		if waited := time.Since(begun); err == nil && outs[0].Err == nil && waited < listLag {
			t.Errorf("it has claimed after %v", waited)
		}
		f.end()
	})
}

// TestListThatCannotBeRead: a replica that nobody can list claims nothing, and says why at once.
func TestListThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		s, err := fleetmove.Join(blindStore{f.before.Share()}, f.after.Share(), move.OldOnly, "blind")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithTimeout(background, time.Hour)
		defer cancel()
		begun := time.Now()
		_, err = s.Acquire(ctx, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}})
		if !errors.Is(err, errOnce) || errors.Is(err, store.ErrUnknown) || time.Since(begun) != 0 {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		if r := record(t, f.before, "x"); r.Token != 0 {
			t.Errorf("it has claimed: %+v", r)
		}
	})
}

// TestAnnouncementThatIsLostBeforeItIsListed: the claim ends, was never sent, and the next one announces the replica
// once more.
func TestAnnouncementThatIsLostBeforeItIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		s, err := fleetmove.Join(lateStore{f.before.Share()}, lateStore{f.after.Share()}, move.OldOnly, "late")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		time.AfterFunc(time.Second, func() { forget(t, f.before) })
		ctx, cancel := context.WithTimeout(background, time.Hour)
		defer cancel()
		begun := time.Now()
		_, err = s.Acquire(ctx, []store.Claim{{Name: "x", Holder: "h", TTL: time.Minute}})
		waited := time.Since(begun)
		if err == nil || errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrUnknown) || waited > time.Minute {
			t.Errorf("after %v: %v", waited, err)
		}
		take(t, s, "x", "h")
		if status, err := f.lead.Status(background); err != nil || len(status.Replicas) != 1 {
			t.Errorf("%+v, %v; want that the replica is known", status, err)
		}
	})
}
