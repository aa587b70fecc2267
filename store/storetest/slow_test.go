package storetest_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
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
