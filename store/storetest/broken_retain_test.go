package storetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
)

// retaining bends how long a release retains.
func retaining(f func(time.Duration) time.Duration) func(testing.TB) bend {
	return always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Retain = f(r.Retain)
		return release(s, r)
	}})
}

var retainFlaws = []flaw{
	{"retain-forever", "forever is a day that is over", retaining(func(retain time.Duration) time.Duration {
		if retain == store.Forever {
			return 0
		}
		return retain
	})},
	{"retain-forever", "a sweep goes by the end of the lease", shortLived},
	{"retain-for-a-time", "a sweep goes by the end of the lease", shortLived},
	{"retain-for-a-time", "a record is forgotten after a quarter of the time", retaining(func(retain time.Duration) time.Duration { return retain / 4 })},
	{"retain-for-a-time", "no record is retained", retaining(func(time.Duration) time.Duration { return 0 })},
	{"retain-last-release-decides", "the first release decides", func(testing.TB) bend {
		first := map[string]time.Duration{}
		return bend{release: func(s *memstore.Store, r store.Release) error {
			if retain, ok := first[r.Name]; ok {
				r.Retain = retain
			}
			first[r.Name] = r.Retain
			return release(s, r)
		}}
	}},
	{"retain-last-release-decides", "the longest decides", func(testing.TB) bend {
		longest := map[string]time.Duration{}
		return bend{release: func(s *memstore.Store, r store.Release) error {
			longest[r.Name] = max(longest[r.Name], r.Retain)
			r.Retain = longest[r.Name]
			return release(s, r)
		}}
	}},
	{"sweep-forgets-released", "a sweep does nothing", always(bend{sweep: func(*memstore.Store, int) int { return 0 }})},
	{"sweep-forgets-released", "a sweep does not count", always(bend{sweep: func(s *memstore.Store, limit int) int { return min(1, sweep(s, limit)) }})},
	{"sweep-forgets-released", "a forgotten mark comes back", func(testing.TB) bend {
		marks := map[string]int64{}
		return bend{
			release: func(s *memstore.Store, r store.Release) error {
				marks[r.Name] = r.Mark
				return release(s, r)
			},
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				o := acquire(s, c)
				o.Grant.Mark = marks[c.Name]
				return o
			},
		}
	}},
	{"sweep-keeps-taken", "a linger lasts no longer than the record is retained", always(bend{release: func(s *memstore.Store, r store.Release) error {
		r.Linger = min(r.Linger, r.Retain)
		return release(s, r)
	}})},
	{"sweep-keeps-taken", "a sweep passes over who has the name", always(bend{sweep: func(s *memstore.Store, limit int) int {
		for _, r := range list(s, "") {
			if r.Holder != "" {
				_ = release(s, store.Release{Name: r.Name, Holder: r.Holder, Token: r.Token})
			}
		}
		return sweep(s, limit)
	}})},
	{"sweep-keeps-abandoned", "an abandoned lease without mark and state is forgotten", always(bend{sweep: func(s *memstore.Store, limit int) int {
		for _, r := range list(s, "") {
			if r.Free() && r.Holder != "" && r.Mark == 0 && len(r.State) == 0 {
				forget(s, r.Name)
			}
		}
		return sweep(s, limit)
	}})},
	{"sweep-keeps-abandoned", "an abandoned lease is told as released", func(testing.TB) bend {
		swept := false
		return bend{
			sweep: func(s *memstore.Store, limit int) int { swept = true; return sweep(s, limit) },
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				o := acquire(s, c)
				if swept {
					o.Grant.ExpiredAge = 0
				}
				return o
			},
		}
	}},
	{"sweep-keeps-abandoned", "whatever is free is forgotten", always(bend{sweep: func(s *memstore.Store, limit int) int {
		for _, r := range list(s, "") {
			if r.Free() {
				forget(s, r.Name)
			}
		}
		return sweep(s, limit)
	}})},
	{"sweep-limit", "a sweep forgets all", always(bend{sweep: func(s *memstore.Store, _ int) int { return sweep(s, 1000) }})},
	{"sweep-limit", "a sweep forgets all and says the limit", always(bend{sweep: func(s *memstore.Store, limit int) int { return min(limit, sweep(s, 1000)) }})},
}

// shortLived sweeps away what a lease of a short TTL has left, when that is over.
func shortLived(testing.TB) bend {
	ends := map[string]time.Time{}
	return bend{
		acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
			o := acquire(s, c)
			if o.Err == nil {
				ends[c.Name] = time.Now().Add(c.TTL)
			}
			return o
		},
		sweep: func(s *memstore.Store, limit int) int {
			for _, r := range list(s, "") {
				if r.Free() && r.Holder == "" && time.Now().After(ends[r.Name]) {
					forget(s, r.Name)
				}
			}
			return sweep(s, limit)
		},
	}
}

func sweep(s *memstore.Store, limit int) int {
	n, _ := s.Sweep(context.Background(), limit)
	return n
}

// forget has a free name forgotten by the next sweep.
func forget(s *memstore.Store, name string) {
	o := acquire(s, store.Claim{Name: name, Holder: "sweeper", TTL: time.Second})
	_ = release(s, store.Release{Name: name, Holder: "sweeper", Token: o.Grant.Token})
}
