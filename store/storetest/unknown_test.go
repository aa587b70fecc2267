package storetest_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/storetest"
)

// TestUnknownOutcomes: a crowd can ask a store that tells every third outcome as unknown, whether it has taken effect or not.
func TestUnknownOutcomes(t *testing.T) {
	for _, law := range []string{"crowd-excludes", "crowd-one-winner"} {
		t.Run(law, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests, claims, releases atomic.Int64
				err := storetest.Check(t, law, harness(bend{
					acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
						switch requests.Add(1) % 6 {
						case 0:
							return store.Outcome{Err: store.ErrUnknown}
						case 3:
							if o := acquire(s, c); o.Err != nil {
								return o
							}
							claims.Add(1)
							return store.Outcome{Err: store.ErrUnknown}
						}
						return acquire(s, c)
					},
					release: func(s *memstore.Store, r store.Release) error {
						switch releases.Add(1) % 6 {
						case 0:
							return store.ErrUnknown
						case 3:
							_ = release(s, r)
							return store.ErrUnknown
						}
						return release(s, r)
					},
				}))
				if err != nil {
					t.Error(err)
				}
				if law == "crowd-excludes" && (claims.Load() == 0 || releases.Load() < 3) {
					t.Errorf("%d grants were told as unknown, of %d releases", claims.Load(), releases.Load())
				}
			})
		})
	}
}
