package storetest_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
	"github.com/soloist-dev/soloist/store/storetest"
)

// slow is a store whose requests and replies each take up to most.
func slow(most time.Duration) bend {
	travel := func() { time.Sleep(time.Duration(rand.Int64N(int64(most)))) }
	return bend{
		claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			travel()
			defer travel()
			return s.Acquire(ctx, claims)
		},
		extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
			travel()
			defer travel()
			return s.Extend(ctx, extensions)
		},
		releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
			travel()
			defer travel()
			return s.Release(ctx, releases)
		},
		lists: func(ctx context.Context, s *memstore.Store, prefix string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				travel()
				records := list(s, prefix)
				if ctx.Err() != nil || len(records) == 0 {
					for r, err := range s.List(ctx, prefix) { // for its error
						yield(r, err)
						return
					}
				}
				travel()
				for _, r := range records {
					if !yield(r, nil) {
						return
					}
				}
			}
		},
	}
}

// TestSlowStores shows that a right store is not called wrong for being slow, up to a TTL for each call.
func TestSlowStores(t *testing.T) {
	const ttl = 150 * time.Millisecond
	for _, most := range []time.Duration{ttl / 20, ttl / 6, ttl / 2} {
		for _, law := range storetest.Laws() {
			t.Run(fmt.Sprint(most, "/", law), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := harness(slow(most))
					h.TTL = ttl
					if err := storetest.Check(t, law, h); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestSlowStoreWhoseLeasesEndEarly: a store is not called right because it is too slow to be judged: it is given longer TTLs until it can be.
func TestSlowStoreWhoseLeasesEndEarly(t *testing.T) {
	const ttl = 150 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		h := harness(bend{claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			time.Sleep(ttl / 2)
			defer time.Sleep(ttl / 2)
			early := slices.Clone(claims)
			for i := range early {
				early[i].TTL /= 4
			}
			return s.Acquire(ctx, early)
		}})
		h.TTL = ttl
		if err := storetest.Check(t, "expiry-not-early", h); err == nil {
			t.Error("nothing is found")
		}
	})
}

// TestSlowMove: of two stores, of which one is slow with the first claim of each name and quick after that, a claim is unknown until its
// leases have ended. The suite waits for that, and calls it right.
func TestSlowMove(t *testing.T) {
	const ttl = 150 * time.Millisecond
	for _, law := range []string{"exclusion", "stale-never-revives", "reask-keeps-deadline"} {
		t.Run(law, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen sync.Map
				truth := &bent{memstore.New(), bend{
					claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
						if _, before := seen.LoadOrStore(claims[0].Name, true); !before {
							time.Sleep(ttl * 2 / 3)
						}
						return s.Acquire(ctx, claims)
					},
				}}
				h := storetest.Harness{TTL: ttl, LateIsUnknown: true}
				h.Open = func(t testing.TB) store.Store {
					both, err := move.New(truth, memstore.New(), move.OldDecides)
					if err != nil {
						t.Fatal(err)
					}
					return both
				}
				if err := storetest.Check(t, law, h); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestQueueEndsBeforeItsContext: a connection whose deadline is that of the context notices it first. The suite calls that right.
func TestQueueEndsBeforeItsContext(t *testing.T) {
	for _, law := range []string{"queue-order", "queue-shorter"} {
		t.Run(law, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var early sync.Map // the holders whose first call has ended so
				h := harness(bend{queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
					if _, before := early.LoadOrStore(c.Holder, true); !before {
						return store.Grant{}, 0, store.AsUnknown(fmt.Errorf("i/o timeout: %w", context.DeadlineExceeded))
					}
					return s.Queue(ctx, c)
				}})
				if err := storetest.Check(t, law, h); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
