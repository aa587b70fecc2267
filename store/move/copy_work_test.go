package move_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// A farStore takes a while for each request.
type farStore struct {
	store.Store
	way time.Duration
}

func (s farStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	time.Sleep(s.way)
	out, err := s.Store.Acquire(ctx, claims)
	time.Sleep(s.way)
	return out, err
}

func (s farStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	time.Sleep(s.way)
	errs, err := s.Store.Release(ctx, releases)
	time.Sleep(s.way)
	return errs, err
}

// TestCopyIsCompleteWhileReplicasWork: names that replicas of the phase acquire and release all the time are not in the way of a copy.
func TestCopyIsCompleteWhileReplicasWork(t *testing.T) {
	for _, phase := range []move.Phase{move.OldDecides, move.NewDecides} {
		t.Run(phase.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before, after := farStore{memstore.New(), 2 * time.Millisecond}, farStore{memstore.New(), 3 * time.Millisecond}
				s := in(t, before, after, phase)
				ctx, stop := context.WithCancel(background)
				var all sync.WaitGroup
				for i := range 50 {
					all.Go(func() {
						for n := 0; ctx.Err() == nil; n++ {
							name, holder := fmt.Sprint("x", i), fmt.Sprint(i, ".", n)
							g := take(t, s, name, holder)
							time.Sleep(time.Duration(20+i) * time.Millisecond)
							leave(t, s, store.Release{Name: name, Holder: holder, Token: g.Token, State: []byte(holder), Retain: store.Forever})
							time.Sleep(time.Duration(20+i) * time.Millisecond)
						}
					})
				}
				time.Sleep(time.Second)
				for range 10 {
					report, err := move.Copy(background, before, after, phase, move.Options{})
					if err != nil || !report.Complete() || report.Names != 50 {
						t.Errorf("%+v, %v", report, err)
					}
					time.Sleep(7 * time.Millisecond)
				}
				stop()
				all.Wait()
			})
		})
	}
}

// A failingStore refuses claims that would be granted, and counts them by name.
type failingStore struct {
	store.Store
	mu    sync.Mutex
	asked map[string]int
}

func (s *failingStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if claims[0].Mark < 0 {
		return s.Store.Acquire(ctx, claims)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claims {
		s.asked[c.Name]++
	}
	return nil, errors.New("out of order")
}

// TestCopyThatFailsAsksOnce: no name is asked for again when a copy has failed, most are not asked for at all, and it
// does not wait for what is in use.
func TestCopyThatFailsAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), &failingStore{Store: memstore.New(), asked: map[string]int{}}
		for i := range 4000 {
			name := fmt.Sprint("x", i)
			leave(t, before, store.Release{Name: name, Holder: "h", Token: take(t, before, name, "h").Token, Retain: store.Forever})
		}
		take(t, before, "held by the phase behind", "h")
		take(t, before, "lost once", "h")
		claim := store.Claim{Name: "lost once", Holder: "h", TTL: time.Minute, Above: 1 << 55}
		if out, err := after.Store.Acquire(background, []store.Claim{claim}); errors.Join(err, out[0].Err) != nil {
			t.Fatal(out, err)
		}
		begun := time.Now()
		if _, err := move.Copy(background, before, after, move.OldDecides, move.Options{}); err == nil {
			t.Error("no error")
		}
		if waited := time.Since(begun); waited != 0 || len(after.asked) > 1000 {
			t.Errorf("it has ended after %v, and asked for %d names", waited, len(after.asked))
		}
		for name, n := range after.asked {
			if n > 1 {
				t.Fatalf("%s was asked for %d times", name, n)
			}
		}
	})
}

// A cancelingStore cancels a context when it has granted something, and does nothing with a context that has ended.
type cancelingStore struct {
	store.Store
	cancel func()
}

func (s cancelingStore) Acquire(ctx context.Context, claims []store.Claim) ([]store.Outcome, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	out, err := s.Store.Acquire(ctx, claims)
	if claims[0].Mark >= 0 {
		s.cancel()
	}
	return out, err
}

func (s cancelingStore) Release(ctx context.Context, releases []store.Release) ([]error, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s.Store.Release(ctx, releases)
}

// TestInterruptedCopyHoldsNothing: names whose copy had begun when it was interrupted are not taken after it.
func TestInterruptedCopyHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := memstore.New(), memstore.New()
		leave(t, before, store.Release{Name: "x", Holder: "h", Token: take(t, before, "x", "h").Token, Retain: store.Forever})
		ctx, cancel := context.WithCancel(background)
		_, _ = move.Copy(ctx, cancelingStore{before, cancel}, cancelingStore{after, cancel}, move.OldDecides, move.Options{})
		take(t, in(t, before, after, move.OldDecides), "x", "next")
	})
}

// TestInterruptedCopyEndsWhatHasBegun: a copy whose time is over does no more than what is under way, says so, and
// counts what it has done.
func TestInterruptedCopyEndsWhatHasBegun(t *testing.T) {
	for _, next := range []move.Phase{0, move.NewDecides} {
		synctest.Test(t, func(t *testing.T) {
			before, after := memstore.New(), memstore.New()
			const names = 400
			for i := range names {
				put(t, before, fmt.Sprint("x", i), 0, 7, "s")
			}
			ctx, cancel := context.WithTimeout(background, 500*time.Millisecond)
			defer cancel()
			o := move.Options{Next: next}
			report, err := move.Copy(ctx, slowStore{before}, slowStore{after}, move.OldDecides, o)
			copied := 0
			for name, r := range records(t, after) {
				if copied++; !r.Free() || r.Holder != "" || r.Mark != 7 || string(r.State) != "s" {
					t.Errorf("%s is left as %+v", name, r)
				}
			}
			if !errors.Is(err, context.DeadlineExceeded) || copied != report.Copied || copied == 0 || copied > names/2 {
				t.Errorf("%+v, %v, when %d names are copied", report, err, copied)
			}
		})
	}
}
