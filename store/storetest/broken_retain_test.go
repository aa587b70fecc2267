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
	{"retain-forever", "forever is not kept without a mark and a state", releasing(func(r *store.Release) {
		if r.Retain == store.Forever && r.Mark == 0 && len(r.State) == 0 {
			r.Retain = 0
		}
	})},
	{"retain-forever", "forever is not kept with a mark", releasing(func(r *store.Release) {
		if r.Retain == store.Forever && r.Mark > 0 {
			r.Retain = 0
		}
	})},
	{"retain-forever", "almost forever is over", retaining(func(retain time.Duration) time.Duration {
		if retain > store.Forever/2 && retain < store.Forever {
			return 0
		}
		return retain
	})},
	{"retain-forever", "a sweep clears the mark of what it keeps", swept(func(r *store.Record) { r.Mark = 0 })},
	{"retain-forever", "a sweep clears the state of what it keeps", swept(func(r *store.Record) { r.State = nil })},
	{"retain-forever", "a sweep goes by the end of the lease", shortLived},
	{"retain-for-a-time", "a sweep goes by the end of the lease", shortLived},
	{"retain-for-a-time", "a record is forgotten after a quarter of the time", retaining(func(retain time.Duration) time.Duration { return retain / 4 })},
	{"retain-for-a-time", "no record is retained", retaining(func(time.Duration) time.Duration { return 0 })},
	{"retain-for-a-time", "an hour is not kept after a long lease", always(bend{release: func(s *memstore.Store, r store.Release) error {
		if r.Retain == time.Hour && look(s, r.Name).Left > time.Minute {
			r.Retain = 0
		}
		return release(s, r)
	}})},
	{"retain-for-a-time", "what is kept for less than an hour loses its mark", shortlyKept(func(r *store.Record) { r.Mark = 0 })},
	{"retain-for-a-time", "what is kept for less than an hour loses its state", shortlyKept(func(r *store.Record) { r.State = nil })},
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
	{"retain-last-release-decides", "what was to be forgotten once is", func(testing.TB) bend {
		once := map[string]bool{}
		return bend{release: func(s *memstore.Store, r store.Release) error {
			if once[r.Name] = once[r.Name] || r.Retain == 0; once[r.Name] {
				r.Retain = 0
			}
			return release(s, r)
		}}
	}},
	{"retain-last-release-decides", "a sweep goes by the end of the lease", shortLived},
	{"retain-last-release-decides", "the release before the last decides", func(testing.TB) bend {
		before := map[string]time.Duration{}
		return bend{release: func(s *memstore.Store, r store.Release) error {
			retain, again := before[r.Name]
			before[r.Name] = r.Retain
			if again {
				r.Retain = retain
			}
			return release(s, r)
		}}
	}},
	{"retain-last-release-decides", "forever is for good", func(testing.TB) bend {
		forever := map[string]bool{}
		return bend{release: func(s *memstore.Store, r store.Release) error {
			if forever[r.Name] = forever[r.Name] || r.Retain == store.Forever; forever[r.Name] {
				r.Retain = store.Forever
			}
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
	{"sweep-forgets-released", "what is kept for a time is kept forever", retaining(func(retain time.Duration) time.Duration {
		if retain > 0 {
			return store.Forever
		}
		return retain
	})},
	{"sweep-forgets-released", "what has a mark is kept forever", releasing(func(r *store.Release) {
		if r.Mark > 0 {
			r.Retain = store.Forever
		}
	})},
	{"sweep-forgets-released", "what has no mark is kept forever", releasing(func(r *store.Release) {
		if r.Mark == 0 {
			r.Retain = store.Forever
		}
	})},
	{"sweep-forgets-released", "a sweep counts one more", always(bend{sweep: func(s *memstore.Store, limit int) int { return sweep(s, limit) + 1 }})},
	{"sweep-forgets-released", "a forgotten state comes back", func(testing.TB) bend {
		states := map[string][]byte{}
		return bend{
			release: func(s *memstore.Store, r store.Release) error {
				states[r.Name] = r.State
				return release(s, r)
			},
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				o := acquire(s, c)
				o.Grant.State = states[c.Name]
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
	{"sweep-keeps-taken", "a sweep that forgets nothing says 1", always(bend{sweep: func(s *memstore.Store, limit int) int { return max(1, sweep(s, limit)) }})},
	{"sweep-keeps-taken", "after a sweep a live name is free", sweptAway(func(r store.Record) bool { return r.Holder == "a" })},
	{"sweep-keeps-taken", "after a sweep a live name is free that was released before", sweptAway(func(r store.Record) bool { return r.Holder == "b" })},
	{"sweep-keeps-taken", "after a sweep a name that lingered is free", sweptAway(func(r store.Record) bool { return r.Holder == "" })},
	{"sweep-keeps-taken", "after a sweep a lease is lost", func(testing.TB) bend {
		over := false
		return bend{
			sweep: func(s *memstore.Store, limit int) int { over = true; return sweep(s, limit) },
			extend: func(s *memstore.Store, e store.Extension) error {
				if over {
					return store.ErrLost
				}
				return extend(s, e)
			},
		}
	}},
	{"sweep-keeps-taken", "a sweep clears the mark of what lingers", swept(func(r *store.Record) { r.Mark = 0 })},
	{"sweep-keeps-abandoned", "an abandoned lease without mark and state is forgotten", abandonedForgotten(func(r store.Record) bool {
		return r.Mark == 0 && len(r.State) == 0
	})},
	{"sweep-keeps-abandoned", "an abandoned lease with a mark is forgotten", abandonedForgotten(func(r store.Record) bool { return r.Mark > 0 })},
	{"sweep-keeps-abandoned", "an abandoned lease with a state is forgotten", abandonedForgotten(func(r store.Record) bool { return len(r.State) > 0 })},
	{"sweep-keeps-abandoned", "an abandoned lease of a name that was released before is forgotten", func(testing.TB) bend {
		released := map[string]bool{}
		b := abandonedForgotten(func(r store.Record) bool { return released[r.Name] })(nil)
		b.release = func(s *memstore.Store, r store.Release) error { released[r.Name] = true; return release(s, r) }
		return b
	}},
	{"sweep-keeps-abandoned", "a sweep that forgets nothing says 1", always(bend{sweep: func(s *memstore.Store, limit int) int { return max(1, sweep(s, limit)) }})},
	{"sweep-keeps-abandoned", "an abandoned lease is said to be far older", granting(func(_ store.Record, g *store.Grant) { g.ExpiredAge *= 20 })},
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
	{"sweep-limit", "a sweep forgets one more than it says", always(bend{sweep: func(s *memstore.Store, limit int) int { return max(0, sweep(s, limit)-1) }})},
	{"sweep-limit", "a sweep forgets all and says the limit", always(bend{sweep: func(s *memstore.Store, limit int) int { return min(limit, sweep(s, 1000)) }})},
}

// releasing bends releases.
func releasing(f func(*store.Release)) func(testing.TB) bend {
	return always(bend{release: func(s *memstore.Store, r store.Release) error {
		f(&r)
		return release(s, r)
	}})
}

// swept is a store that lists what a function makes of each record once a sweep was made.
func swept(f func(*store.Record)) func(testing.TB) bend {
	return func(testing.TB) bend {
		over := false
		b := showing(func(r *store.Record) {
			if over {
				f(r)
			}
		})(nil)
		b.sweep = func(s *memstore.Store, limit int) int { over = true; return sweep(s, limit) }
		return b
	}
}

// shortlyKept is a store that lists what a function makes of the records that are kept for less than an hour.
func shortlyKept(f func(*store.Record)) func(testing.TB) bend {
	return func(testing.TB) bend {
		short := map[string]bool{}
		b := showing(func(r *store.Record) {
			if short[r.Name] {
				f(r)
			}
		})(nil)
		b.release = func(s *memstore.Store, r store.Release) error {
			short[r.Name] = r.Retain < time.Hour
			return release(s, r)
		}
		return b
	}
}

// sweptAway is a store in which a claim takes a name that is such from the one that has it, once a sweep was made.
func sweptAway(which func(store.Record) bool) func(testing.TB) bend {
	return func(testing.TB) bend {
		over := false
		return bend{
			sweep: func(s *memstore.Store, limit int) int { over = true; return sweep(s, limit) },
			acquire: func(s *memstore.Store, c store.Claim) store.Outcome {
				if r := look(s, c.Name); over && !r.Free() && which(r) {
					return store.Outcome{Grant: store.Grant{Token: r.Token + 1}}
				}
				return acquire(s, c)
			},
		}
	}
}

// abandonedForgotten is a store whose sweeps forget such records although their last leases were not released.
func abandonedForgotten(which func(store.Record) bool) func(testing.TB) bend {
	return always(bend{sweep: func(s *memstore.Store, limit int) int {
		for _, r := range list(s, "") {
			if r.Free() && r.Holder != "" && which(r) {
				forget(s, r.Name)
			}
		}
		return sweep(s, limit)
	}})
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
