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

// slow is a store whose requests and replies take the time that two functions take, which are called with the name of the method. The first Acquire of a name
// has its own name.
func slow(request, reply func(method string)) bend {
	var seen sync.Map
	return bend{
		claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			method := "Acquire again"
			for _, c := range claims {
				if _, before := seen.LoadOrStore(c.Name, true); !before {
					method = "Acquire"
				}
			}
			request(method)
			defer reply(method)
			return s.Acquire(ctx, claims)
		},
		extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
			request("Extend")
			defer reply("Extend")
			return s.Extend(ctx, extensions)
		},
		releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
			request("Release")
			defer reply("Release")
			return s.Release(ctx, releases)
		},
		lists: func(ctx context.Context, s *memstore.Store, prefix string) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				request("List")
				records := list(s, prefix)
				if ctx.Err() != nil || len(records) == 0 {
					for r, err := range s.List(ctx, prefix) { // for its error
						yield(r, err)
						return
					}
				}
				reply("List")
				for _, r := range records {
					if !yield(r, nil) {
						return
					}
				}
			}
		},
		queue: func(ctx context.Context, s *memstore.Store, c store.Claim) (store.Grant, time.Duration, error) {
			request("Queue")
			defer reply("Queue")
			return s.Queue(ctx, c)
		},
	}
}

// TestSlowStores shows that a right store is not called wrong for being slow, up to a TTL for each call: neither if all calls are, nor if a call is decided
// long after it was made, or long before it is answered, and the others are quick.
func TestSlowStores(t *testing.T) {
	const ttl = 150 * time.Millisecond
	none := func(string) {}
	for _, most := range []time.Duration{ttl / 20, ttl / 6, ttl / 2} {
		travel := func(string) { time.Sleep(time.Duration(rand.Int64N(int64(most)))) }
		stores := map[string]func() bend{"all": func() bend { return slow(travel, travel) }}
		for _, method := range []string{"Acquire", "Acquire again", "Extend", "Release", "List", "Queue"} {
			travel := func(called string) {
				if called == method {
					time.Sleep(most)
				}
			}
			stores["requests of "+method] = func() bend { return slow(travel, none) }
			stores["replies of "+method] = func() bend { return slow(none, travel) }
		}
		for what, open := range stores {
			for _, law := range storetest.Laws() {
				t.Run(fmt.Sprint(most, " for ", what, "/", law), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						h := harness(open())
						h.TTL = ttl
						if err := storetest.Check(t, law, h); err != nil {
							t.Error(err)
						}
					})
				})
			}
		}
	}
}

// lasting is a right store whose leases and lingers last as long as a function says, of how long they have to last at least.
func lasting(f func(time.Duration) time.Duration) bend {
	longer := func(d time.Duration) time.Duration { return min(f(d), store.MaxTTL) }
	return bend{
		claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
			claims = slices.Clone(claims)
			for i, c := range claims {
				if c.Check() == nil {
					claims[i].TTL = longer(c.TTL)
				}
			}
			return s.Acquire(ctx, claims)
		},
		extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
			extensions = slices.Clone(extensions)
			for i, e := range extensions {
				if e.Check() == nil {
					extensions[i].TTL = longer(e.TTL)
				}
			}
			return s.Extend(ctx, extensions)
		},
		releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
			releases = slices.Clone(releases)
			for i, r := range releases {
				if r.Check() == nil && r.Linger > 0 {
					releases[i].Linger = longer(r.Linger)
				}
			}
			return s.Release(ctx, releases)
		},
	}
}

// coarse is a right store whose clock is coarse: it tells ages and what is left in steps, and ends each lease and each linger after whole steps.
func coarse(step time.Duration) bend {
	up := func(d time.Duration) time.Duration { return (d + step - 1).Truncate(step) }
	b := lasting(up)
	b.lists = func(ctx context.Context, s *memstore.Store, prefix string) iter.Seq2[store.Record, error] {
		return func(yield func(store.Record, error) bool) {
			for r, err := range s.List(ctx, prefix) {
				r.Left, r.Age = up(r.Left), r.Age.Truncate(step)
				if !yield(r, err) {
					return
				}
			}
		}
	}
	return b
}

// unknownIfOver takes a millisecond to answer what was done, and does not know it if the context ends meanwhile.
func unknownIfOver[A any](ctx context.Context, answers []A, err error) ([]A, error) {
	time.Sleep(time.Millisecond)
	if err == nil && ctx.Err() != nil {
		return nil, store.AsUnknown(ctx.Err())
	}
	return answers, err
}

// TestUnusualStores shows that a right store is not called wrong for what it may do.
func TestUnusualStores(t *testing.T) {
	for what, bent := range map[string]bend{
		"its clock is coarse": coarse(10 * time.Millisecond),
		"what its context ends is done, and unknown": {
			claims: func(ctx context.Context, s *memstore.Store, claims []store.Claim) ([]store.Outcome, error) {
				out, err := s.Acquire(context.WithoutCancel(ctx), claims)
				return unknownIfOver(ctx, out, err)
			},
			extensions: func(ctx context.Context, s *memstore.Store, extensions []store.Extension) ([]error, error) {
				errs, err := s.Extend(context.WithoutCancel(ctx), extensions)
				return unknownIfOver(ctx, errs, err)
			},
			releases: func(ctx context.Context, s *memstore.Store, releases []store.Release) ([]error, error) {
				errs, err := s.Release(context.WithoutCancel(ctx), releases)
				return unknownIfOver(ctx, errs, err)
			},
		},
		"its leases end late": lasting(func(d time.Duration) time.Duration { return d + time.Second }),
		"its leases end early by the resolution of its clock": lasting(func(d time.Duration) time.Duration {
			return max(store.MinTTL, d-min(d/12, 10*time.Millisecond))
		}),
	} {
		for _, law := range storetest.Laws() {
			t.Run(what+"/"+law, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if err := storetest.Check(t, law, harness(bent)); err != nil {
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
