package fleetmove_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/fleetmove"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// Whatever a replica was cut off from, and for how long: while it believes in a lease it is known, and its phase is not left. So nobody is granted the name by the next
// phase, of which the replica knows nothing.
func TestReplicaIsKnownForAsLongAsItsLeases(t *testing.T) {
	type trial struct {
		ttl, extended    time.Duration
		noNew, noOld     time.Duration // how long it does not reach the new store, and the old one after that
		keeps            bool          // its lease outlives that
		greaterOldTokens bool
	}
	trials := map[string]trial{
		"it has claimed its lease in the new store once more": {ttl: time.Minute, noNew: 100 * time.Second, noOld: 29 * time.Second, keeps: true},
		"it has asked for a long lease before":                {extended: 10 * time.Minute, noOld: 5 * time.Minute, keeps: true},
		"its long lease is in the old store alone":            {extended: 10 * time.Minute, noNew: time.Minute, noOld: 5 * time.Minute, keeps: true},
		"it misses the old store until its lease has ended":   {noOld: 3 * time.Minute},
		"it has a long lease, and does not come":              {ttl: 2 * time.Minute, noOld: 7 * time.Minute},
		"it has a long lease, which it has not renewed yet":   {ttl: 10 * time.Minute, noOld: 3 * time.Minute, keeps: true},
	}
	for seconds := 11; seconds <= 26; seconds += 3 {
		c := trial{noOld: time.Duration(seconds) * time.Second, keeps: seconds < 16}
		trials[fmt.Sprintf("it misses the old store for %v", c.noOld)] = c
		c.greaterOldTokens = true
		trials[fmt.Sprintf("it misses the old store, which has the greater tokens, for %v", c.noOld)] = c
	}
	for what, c := range trials {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newMovedFleet(t)
				if err := f.lead.Plan(background); err != nil {
					t.Fatal(err)
				}
				f.advance(t, false, rollToNewDecides)
				if c.greaterOldTokens {
					out, err := f.before.Acquire(background, []store.Claim{{Name: "lock/leader", Holder: "h", TTL: time.Minute, Above: 1 << 55}})
					if err = errors.Join(err, out[0].Err); err != nil {
						t.Fatal(err)
					}
					leave(t, f.before, store.Release{Name: "lock/leader", Holder: "h", Token: out[0].Grant.Token, Retain: store.Forever})
				}
				before, after := &cutStore{Store: f.before.Share()}, &cutStore{Store: f.after.Share()}
				s, err := fleetmove.Join(before, after, move.OldDecides, "behind")
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				client, err := soloist.New(s, soloist.Config{Replica: "behind", TTL: c.ttl})
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				lock, err := client.TryLock(background, "leader")
				if err != nil {
					t.Fatal(err)
				}
				after.cut.Store(c.noNew > 0)
				if c.extended > 0 {
					if err := lock.Extend(background, c.extended); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(c.noNew)
				after.cut.Store(false)
				time.Sleep(105 * time.Second) // between two renewals
				before.cut.Store(true)
				begun := time.Now()
				for known := true; known && time.Since(begun) < c.noOld+2*time.Minute; time.Sleep(time.Second) {
					if time.Since(begun) >= c.noOld {
						before.cut.Store(false)
					}
					believed := lock.Err() == nil
					stage, report, err := f.lead.Advance(background, false, move.Options{})
					var behind *fleetmove.BehindError
					if known = errors.As(err, &behind); !known && (believed || lock.Err() == nil) {
						t.Fatalf("after %v: %v, %+v, %v; and the replica in old-decides has the lease: %t, %v", time.Since(begun), stage, report, err, believed, lock.Err())
					}
				}
				if c.keeps && lock.Err() != nil {
					t.Errorf("the replica has lost its lease: %v", lock.Err())
				}
				before.cut.Store(false)
				_ = lock.Release() // an error if it is lost
				if err := errors.Join(client.Close(), s.Close()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				f.advance(t, false, rollToNewOnly)
			})
		})
	}
}

// forget ends the announcements in a store, as a release by force.
func forget(t *testing.T, s store.Store) {
	t.Helper()
	for r, err := range s.List(background, move.Records+"lock/") {
		if err != nil {
			t.Fatal(err)
		}
		if r.Holder != "" {
			leave(t, s, store.Release{Name: r.Name, Holder: r.Holder, Token: r.Token})
		}
	}
}

func extend(ctx context.Context, s store.Store, g store.Grant, ttl time.Duration) error {
	errs, err := s.Extend(ctx, []store.Extension{{Name: "x", Holder: "h", Token: g.Token, TTL: ttl}})
	return errors.Join(append(errs, err)...)
}

// A replica whose announcement has ended asks before it extends a lease, as before a claim: it is known again, or it extends nothing. What it has it can release.
func TestExtensionAsksFirst(t *testing.T) {
	for _, open := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newMovedFleet(t)
			if err := f.lead.Plan(background); err != nil {
				t.Fatal(err)
			}
			f.advance(t, false, rollToNewDecides)
			s := f.join(t, move.OldDecides)
			outs, err := s.Acquire(background, []store.Claim{{Name: "x", Holder: "h", TTL: time.Hour}})
			if err = errors.Join(err, outs[0].Err); err != nil {
				t.Fatal(err)
			}
			forget(t, f.before)
			time.Sleep(time.Minute) // it notices that
			if !open {
				between := fleetmove.Stage{From: move.NewDecides, To: move.NewDecides}
				if stage, report, err := f.lead.Advance(background, false, move.Options{}); err != nil || report.Taken != 1 || stage != between {
					t.Fatalf("%v, %+v, %v; want that x is taken, at %v", stage, report, err, between)
				}
			}
			err = extend(background, s, outs[0].Grant, 2*time.Hour)
			status, errStatus := f.lead.Status(background)
			if errStatus != nil || len(status.Replicas) == 1 != open {
				t.Errorf("open %t: %+v, %v", open, status.Replicas, errStatus)
			}
			longest := max(record(t, f.before, "x").Left, record(t, f.after, "x").Left)
			if open && (err != nil || longest != 2*time.Hour) {
				t.Errorf("in a phase that is open: %v, the lease lasts for %v", err, longest)
			}
			if !open && (!errors.Is(err, store.ErrUnusable) || errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrUnknown) || longest > time.Hour) {
				t.Errorf("in a phase that was left: %v, the lease lasts for %v", err, longest)
			}
			leave(t, s, store.Release{Name: "x", Holder: "h", Token: outs[0].Grant.Token, Retain: store.Forever})
		})
	}
}

// A release that is repeated when the fleet has gone on for two phases, as after a suspend, changes nothing: the store
// that the fleet has left knows of no later holder, and what it has is older.
func TestReleaseThatIsRepeatedTwoPhasesLater(t *testing.T) {
	for _, back := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newMovedFleet(t)
			if err := f.lead.Plan(background); err != nil {
				t.Fatal(err)
			}
			phase, gone, stages := move.OldDecides, f.before, []fleetmove.Stage{rollToNewDecides, rollToNewOnly}
			used := f.after
			if back {
				f.advance(t, false, rollToNewDecides)
				f.advance(t, false, rollToNewOnly)
				phase, gone, used = move.NewDecides, f.after, f.before
				stages = []fleetmove.Stage{rollToNewDecides, rollToOldDecides, takenBack}
			}
			s := f.join(t, phase)
			first := take(t, s, "x", "h")
			r := store.Release{Name: "x", Holder: "h", Token: first.Token, State: []byte("first"), Retain: store.Forever}
			leave(t, s, r)
			forget(t, gone)
			time.Sleep(time.Minute) // the announcement has ended
			for _, stage := range stages {
				f.advance(t, back, stage)
			}
			next := take(t, used, "x", "next")
			leave(t, used, store.Release{
				Name: "x", Holder: "next", Token: next.Token, State: []byte("second"), Retain: store.Forever,
			})
			_, err := s.Release(background, []store.Release{r})
			if !errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), phase.String()) {
				t.Errorf("back %t, the release of before, repeated: %v", back, err)
			}
			if now := record(t, used, "x"); string(now.State) != "second" || now.Token != next.Token {
				t.Errorf("back %t: the record is %+v, with the state %q", back, now, now.State)
			}
			_ = s.Close()
			if _, err := s.Release(background, []store.Release{r}); !errors.Is(err, store.ErrClosed) {
				t.Errorf("back %t, after Close: %v", back, err)
			}
		})
	}
}

// An announcement that is lost in the midst of an extension is not told as the loss of the lease. The next extension finds that the replica has to announce itself.
func TestAnnouncementLostInAnExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		s := f.join(t, move.OldOnly)
		g := take(t, s, "x", "h")
		forget(t, f.before)
		if err := extend(background, s, g, time.Hour); err == nil || errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("without its announcement: %v", err)
		}
		if left := record(t, f.before, "x").Left; left != time.Minute {
			t.Errorf("the lease lasts for %v, want what it was granted for", left)
		}
		if err := extend(background, s, g, time.Hour); err != nil {
			t.Errorf("the next one: %v", err)
		}
	})
}

// joinCut joins a replica that can be cut off from the old store.
func (f *movedFleet) joinCut(t *testing.T) (store.Store, *cutStore) {
	t.Helper()
	cut := &cutStore{Store: f.before.Share()}
	s, err := fleetmove.Join(cut, f.after.Share(), move.OldOnly, "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, cut
}

// An extension by a replica that cannot announce itself ends in its time.
func TestExtensionEndsInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		s, cut := f.joinCut(t)
		g := take(t, s, "x", "h")
		cut.cut.Store(true)
		for _, ended := range []bool{false, true} {
			if ended {
				time.Sleep(time.Hour)
			}
			ctx, cancel := context.WithTimeout(background, 2*time.Second)
			begun := time.Now()
			if err := extend(ctx, s, g, time.Hour); err == nil || time.Since(begun) != 2*time.Second {
				t.Errorf("its announcement has ended %t: after %v: %v", ended, time.Since(begun), err)
			}
			cancel()
		}
	})
}

// A countingStore counts the extensions of announcements.
type countingStore struct {
	*memstore.Store
	announcements atomic.Int64
}

func (s *countingStore) Extend(ctx context.Context, e []store.Extension) ([]error, error) {
	if strings.HasPrefix(e[0].Name, move.Records) {
		s.announcements.Add(1)
	}
	return s.Store.Extend(ctx, e)
}

// One extension of an announcement is good for many of leases. What is not valid extends none.
func TestExtensionsShareAnAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newMovedFleet(t)
		counting := &countingStore{Store: f.before.Share()}
		s, err := fleetmove.Join(counting, f.after.Share(), move.OldOnly, "r")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		g := take(t, s, "x", "h")
		counting.announcements.Store(0)
		for range 100 {
			if err := extend(background, s, g, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if err := extend(background, s, g, store.MaxTTL+1); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a TTL that is too long: %v", err)
		}
		_, _, err = as[store.Chooser](t, s).Choose(background, []string{"y", "z"}, store.Claim{Holder: "h", TTL: store.MaxTTL + 1})
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a choice with a TTL that is too long: %v", err)
		}
		if n := counting.announcements.Load(); n != 1 {
			t.Errorf("%d extensions of the announcement, want 1", n)
		}
		if err := extend(background, s, g, store.MaxTTL); err != nil {
			t.Errorf("the longest TTL: %v", err)
		}
	})
}
