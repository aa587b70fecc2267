package soloist_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// A renewing store lets a test decide what becomes of renewals.
type renewing struct {
	*memstore.Store
	extend func(ctx context.Context, next *memstore.Store, extensions []store.Extension) ([]error, error)
}

func (s renewing) Extend(ctx context.Context, extensions []store.Extension) ([]error, error) {
	return s.extend(ctx, s.Store, extensions)
}

func renews(extensions []store.Extension, name string) bool {
	return slices.ContainsFunc(extensions, func(e store.Extension) bool { return e.Name == name })
}

// On a store that is slow for a short lease, long leases live.
func TestShortLeasesDoNotEndLongOnes(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		s.Slow(400 * time.Millisecond)
		long := mustLock(t, a, "long")
		short := a.With(soloist.Options{TTL: time.Second})
		held := mustLock(t, short, "held")
		for i := range 100 {
			l := mustLock(t, short, "short")
			time.Sleep(500 * time.Millisecond)
			if err := l.Release(); err != nil {
				t.Fatalf("short lease %d: %v", i, err)
			}
		}
		for _, l := range []*soloist.Lease{long, held} {
			if err := l.Err(); err != nil {
				t.Errorf("%s: %v", l.Name(), err)
			}
		}
	})
}

// A long lease lives on a store that renews too slowly for short ones, however many of those are lost beside it.
func TestLongLeaseOutlivesShortOnesThatAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := renewing{memstore.New(), func(ctx context.Context, next *memstore.Store, extensions []store.Extension) ([]error, error) {
			select {
			case <-time.After(5 * time.Second):
				return next.Extend(ctx, extensions)
			case <-ctx.Done():
				return nil, store.AsUnknown(ctx.Err())
			}
		}}
		c := soloisttest.NewReplica(t, s, soloist.Config{RequestTimeout: 10 * time.Second})
		long := mustLock(t, c, "long")
		for i := range 300 {
			mustLock(t, c.With(soloist.Options{TTL: 4 * time.Second}), fmt.Sprint("short-", i))
			time.Sleep(200 * time.Millisecond)
		}
		if err := long.Err(); err != nil {
			t.Error(err)
		}
	})
}

// A renewal that hangs holds up neither those of other leases nor the next one of the same lease, even if the store does not heed that its
// context ends.
func TestRenewalThatHangsHoldsUpNobody(t *testing.T) {
	for _, heeds := range []bool{true, false} {
		t.Run(fmt.Sprint("heeds its context ", heeds), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hung atomic.Int32
				stuck := make(chan struct{})
				s := renewing{memstore.New(), func(ctx context.Context, next *memstore.Store, extensions []store.Extension) ([]error, error) {
					if !renews(extensions, "lock/long") || hung.Add(1) > 1 {
						return next.Extend(ctx, extensions)
					}
					if heeds {
						<-ctx.Done()
					} else {
						<-stuck
					}
					return nil, store.AsUnknown(context.DeadlineExceeded)
				}}
				c := soloisttest.NewReplica(t, s, soloist.Config{RequestTimeout: time.Minute})
				defer close(stuck)
				leases := []*soloist.Lease{mustLock(t, c, "long")}
				time.Sleep(300 * time.Millisecond)
				leases = append(leases, mustLock(t, c.With(soloist.Options{TTL: 2 * time.Second}), "short"))
				time.Sleep(15 * time.Second)
				leases = append(leases, mustLock(t, c, "later"))
				time.Sleep(time.Minute)
				for _, l := range leases {
					if err := l.Err(); err != nil {
						t.Errorf("%s: %v", l.Name(), err)
					}
				}
				if hung.Load() == 0 {
					t.Error("no renewal hung")
				}
			})
		})
	}
}

// A name whose renewals always hang takes no other lease with it, unless by the one request with which it hangs first.
func TestNameWhoseRenewalsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := renewing{memstore.New(), func(ctx context.Context, next *memstore.Store, extensions []store.Extension) ([]error, error) {
			if renews(extensions, "lock/stuck") {
				<-ctx.Done()
				return nil, store.AsUnknown(ctx.Err())
			}
			return next.Extend(ctx, extensions)
		}}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		stuck := mustLock(t, c, "stuck")
		time.Sleep(5 * time.Second)
		var leases []*soloist.Lease
		for i := range 20 {
			leases = append(leases, mustLock(t, c, fmt.Sprint(i)))
			time.Sleep(time.Second)
		}
		<-stuck.Context().Done()
		time.Sleep(time.Minute)
		for _, l := range leases {
			if err := l.Err(); err != nil {
				t.Errorf("%s: %v", l.Name(), err)
			}
		}
	})
}

// Leases of many TTLs live together on a slow store. A lease is asked for once at a time, unless that takes a third of its TTL; and
// few requests are under way at once.
func TestRenewalsOfManyTTLsOnASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 250 * time.Millisecond
		ttls := []time.Duration{time.Second, 1500 * time.Millisecond, 2 * time.Second, 3 * time.Second, 10 * time.Second, time.Minute, 5 * time.Minute}
		var mu sync.Mutex
		asked := map[string]int{} // under way
		flights, most := 0, 0
		s := renewing{memstore.New(), func(ctx context.Context, next *memstore.Store, extensions []store.Extension) ([]error, error) {
			mu.Lock()
			flights++
			most = max(most, flights)
			for _, e := range extensions {
				if asked[e.Name]++; asked[e.Name] > 1 {
					t.Errorf("%s, of %v, is asked for twice at once", e.Name, e.TTL)
				}
			}
			mu.Unlock()
			time.Sleep(slow)
			mu.Lock()
			flights--
			for _, e := range extensions {
				asked[e.Name]--
			}
			mu.Unlock()
			return next.Extend(ctx, extensions)
		}}
		c := soloisttest.NewReplica(t, s, soloist.Config{})
		var leases []*soloist.Lease
		for i := range 2100 {
			leases = append(leases, mustLock(t, c.With(soloist.Options{TTL: ttls[i%len(ttls)]}), fmt.Sprint("lease-", i)))
			time.Sleep(time.Duration(i%7) * time.Millisecond)
		}
		time.Sleep(10 * time.Minute)
		for _, l := range leases {
			if err := l.Err(); err != nil {
				t.Fatalf("%s: %v", l.Name(), err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if most > 8 {
			t.Errorf("%d requests at once", most)
		}
	})
}

// Ten thousand leases that are due together are renewed by a few requests at once, which take longer one after another than the leases
// last.
func TestManyLeasesOnASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flights, most, calls atomic.Int32
		s := renewing{memstore.New(), func(ctx context.Context, next *memstore.Store, extensions []store.Extension) ([]error, error) {
			calls.Add(1)
			if n := flights.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer flights.Add(-1)
			time.Sleep(time.Second)
			return next.Extend(ctx, extensions)
		}}
		c := soloisttest.NewReplica(t, s, soloist.Config{RequestTimeout: 5 * time.Second})
		ids := make([]string, 10_000)
		for i := range ids {
			ids[i] = fmt.Sprint(i)
		}
		claimed, err := c.With(soloist.Options{TTL: 6 * time.Second}).Elements("many", soloist.ElementsOptions{}).ClaimAll(background, ids)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		for _, one := range claimed {
			if one.Err != nil || one.Element.Err() != nil {
				t.Fatalf("%s: %v, %v", one.ID, one.Err, one.Element.Err())
			}
		}
		if most.Load() > 4 || calls.Load() > 15*10 {
			t.Errorf("%d requests, %d at once", calls.Load(), most.Load())
		}
	})
}

// The cause of a lost lease says whether the store did not confirm renewals, or did not have the lease any more.
func TestWhyALeaseIsLost(t *testing.T) {
	for want, lose := range map[string]func(s *soloisttest.Store, b *soloist.Client, l *soloist.Lease) error{
		"no renewal was confirmed in time": func(s *soloisttest.Store, _ *soloist.Client, _ *soloist.Lease) error {
			s.Stall()
			return nil
		},
		"the store does not have it any more": func(_ *soloisttest.Store, b *soloist.Client, l *soloist.Lease) error {
			return b.Admin().Release(background, soloist.LeaseInfo{Kind: soloist.KindLock, Name: l.Name(), Token: l.Token()}, "it hangs")
		},
	} {
		inBubble(t, func(t *testing.T, s *soloisttest.Store, a, b *soloist.Client) {
			l := mustLock(t, a, "x")
			if err := lose(s, b, l); err != nil {
				t.Fatal(err)
			}
			<-l.Context().Done()
			if cause := context.Cause(l.Context()); !errors.Is(cause, soloist.ErrLost) || !strings.Contains(cause.Error(), want) || !errors.Is(l.Err(), cause) {
				t.Errorf("cause %v, want one that says %q; %v", cause, want, l.Err())
			}
			s.Heal()
		})
	}
}

// How long a lease is held counts from when its renewal was asked for, and not from when the reply came: the store may have renewed it at once.
func TestARenewalCountsFromItsRequest(t *testing.T) {
	for what, renew := range map[string]func(l *soloist.Lease) error{
		"Check":           func(l *soloist.Lease) error { return l.Check(background) },
		"Extend":          func(l *soloist.Lease) error { return l.Extend(background, 30*time.Second) },
		"SetState":        func(l *soloist.Lease) error { return l.SetState(background, []byte("x")) },
		"of the client's": func(*soloist.Lease) error { time.Sleep(13 * time.Second); return nil }, // it is asked for after a third of the TTL
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
				l := mustLock(t, a, "x")
				s.Slow(3 * time.Second)
				must(t, renew(l))
				synctest.Wait()
				check(t, "surely held for", l.Left(), 24*time.Second) // the TTL less the margin and the request
			})
		})
	}
}

// A renewal that has failed is tried again after a twelfth of the TTL: a store that is away for a moment costs a short lease little of its time.
func TestAFailedRenewalOfAShortLeaseIsTriedAgainSoon(t *testing.T) {
	inBubble(t, func(t *testing.T, s *soloisttest.Store, a, _ *soloist.Client) {
		l := mustLock(t, a.With(soloist.Options{TTL: 3 * time.Second}), "x")
		time.Sleep(900 * time.Millisecond)
		s.Break(errors.New("away"))
		time.Sleep(200 * time.Millisecond) // it is due after a second
		s.Heal()
		time.Sleep(200 * time.Millisecond)
		if left := l.Left(); left < 2500*time.Millisecond {
			t.Errorf("%v are left", left)
		}
	})
}
