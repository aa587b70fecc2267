package move_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/memstore"
	"github.com/soloist-dev/soloist/store/move"
)

// A visit is what a replica of the phase does with each name that it gets, between two requests of a copy.
type visit struct {
	what    string
	ttl     time.Duration
	raises  bool // the mark
	leaves  bool // it releases the name
	lingers time.Duration
	dies    bool // its lease ends while the copy goes on
}

var visits = []visit{
	{what: "works", ttl: time.Minute, leaves: true},
	{what: "raises the mark", ttl: time.Minute, raises: true, leaves: true},
	{what: "lets it linger", ttl: time.Minute, leaves: true, lingers: time.Minute},
	{what: "holds", ttl: time.Minute},
	{what: "raises the mark and holds", ttl: time.Minute, raises: true},
	{what: "dies", ttl: time.Second, dies: true},
}

// A told record is what users have been told of a name.
type told struct {
	mark    int64
	state   string
	token   int64 // the greatest
	holder  string
	crashed bool // the last lease was not released
}

// TestCopyWhileAReplicaWorks: whatever a replica of the phase does with the names, and between whichever two requests of a copy, no mark, state or crash is lost and no token comes back.
func TestCopyWhileAReplicaWorks(t *testing.T) {
	for _, phase := range []move.Phase{move.OldDecides, move.NewDecides} {
		for _, to := range []move.Phase{phase - 1, phase + 1} {
			for _, next := range []move.Phase{0, to} {
				for _, fills := range []bool{false, true} {
					if fills && next != move.OldDecides && next != move.NewDecides {
						continue // nothing is made then
					}
					for _, v := range visits {
						t.Run(fmt.Sprintf("%v to %v, next %v, fills %t, %s", phase, to, next, fills, v.what), func(t *testing.T) {
							for at, more := int64(1), true; more && !t.Failed(); at++ {
								if at > 20 {
									at += 9 // the looks at a name that is held are all alike
								}
								synctest.Test(t, func(t *testing.T) {
									more = (&copyVisited{phase: phase, to: to, next: next, fills: fills, visit: v}).run(t, at)
								})
							}
						})
					}
				}
			}
		}
	}
}

// A copyVisited is a copy and a replica.
type copyVisited struct {
	phase, to, next move.Phase
	fills           bool
	visit           visit

	before, after *memstore.Store
	told          map[string]*told
}

// run reports whether the copy made so many requests.
func (c *copyVisited) run(t *testing.T, at int64) bool {
	t.Helper()
	c.before, c.after = differing(t)
	time.Sleep(2 * time.Second)
	c.told = map[string]*told{}
	for _, s := range []*memstore.Store{c.before, c.after} {
		decides := (s == c.before) == (c.phase == move.OldDecides)
		for name, r := range records(t, s) {
			if c.told[name] == nil {
				c.told[name] = &told{mark: -1}
			}
			is := c.told[name]
			if r.Mark > is.mark || r.Mark == is.mark && decides {
				is.mark, is.state = r.Mark, string(r.State)
			}
			is.token = max(is.token, r.Token)
			is.crashed = is.crashed || decides && r.Holder != ""
		}
	}
	c.othersRelease(t)
	var requests atomic.Int64
	stores := func(s *memstore.Store) store.Store {
		f := &faulty{Store: s, requests: &requests, first: func(n int64) {
			if n == at {
				c.comes(t)
			}
			if n >= at && c.visit.dies {
				time.Sleep(c.visit.ttl * 2 / 3)
			}
		}}
		if c.fills {
			return faultyFiller{f}
		}
		return f
	}
	report, err := move.Copy(background, stores(c.before), stores(c.after), c.phase, move.Options{Next: c.next})
	if err != nil {
		t.Errorf("before request %d: %v", at, err)
	}
	if report.Names != len(c.told) || report.Names != report.Same+report.Copied+report.Taken+report.Abandoned {
		t.Errorf("before request %d: the numbers do not add up: %+v", at, report)
	}
	if !report.Complete() {
		time.Sleep(2 * time.Minute)
		for name, is := range c.told {
			is.crashed = is.crashed || is.holder != ""
			c.takes(t, c.phase, name, is)
		}
		if report, err = move.Copy(background, c.before, c.after, c.phase, move.Options{Next: c.next}); err != nil || !report.Complete() || report.Names != len(c.told) {
			t.Errorf("before request %d, and the next copy: %+v, %v", at, report, err)
		}
	}
	for name, is := range c.told {
		if is.holder != "" && !is.crashed {
			if out := claimOnce(t, in(t, c.before, c.after, c.to), name, "other"); !errors.Is(out.Err, store.ErrHeld) {
				t.Errorf("before request %d: %s is held by %s, and %+v", at, name, is.holder, out)
			}
			leave(t, in(t, c.before, c.after, c.phase), store.Release{Name: name, Holder: is.holder, Token: is.token, Retain: store.Forever})
		}
	}
	time.Sleep(1000 * time.Hour)
	for _, s := range []*memstore.Store{c.before, c.after} {
		if _, err := s.Sweep(background, 1000); err != nil {
			t.Error(err)
		}
	}
	for name, is := range c.told {
		c.takes(t, c.to, name, is)
	}
	if t.Failed() {
		t.Logf("before request %d", at)
	}
	return requests.Load() >= at
}

// othersRelease lets a replica of the other middle phase hold a name, whose token is the shadow's and the greater one, for some seconds more.
func (c *copyVisited) othersRelease(t *testing.T) {
	t.Helper()
	shadow, truth := c.after, c.before
	if c.phase == move.NewDecides {
		shadow, truth = truth, shadow
	}
	var ends []func()
	for _, s := range []store.Store{truth, shadow} {
		claim := store.Claim{Name: "released by others", Holder: "other", TTL: 30 * time.Second}
		if s == shadow {
			claim.Above = 1 << 56
		}
		out, err := s.Acquire(background, []store.Claim{claim})
		if err = errors.Join(err, out[0].Err); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, func() {
			leave(t, s, store.Release{Name: claim.Name, Holder: claim.Holder, Token: out[0].Grant.Token, Retain: store.Forever})
		})
		c.told[claim.Name] = &told{token: out[0].Grant.Token}
	}
	time.AfterFunc(10*time.Second, func() {
		ends[1]()
		ends[0]()
	})
}

// comes is the replica's visit.
func (c *copyVisited) comes(t *testing.T) {
	t.Helper()
	s := in(t, c.before, c.after, c.phase)
	for name, is := range c.told {
		out, err := s.Acquire(background, []store.Claim{{Name: name, Holder: "replica", TTL: c.visit.ttl}})
		if err != nil {
			t.Error(err)
			return
		}
		if out[0].Err != nil {
			if !errors.Is(out[0].Err, store.ErrHeld) {
				t.Errorf("%s: %v", name, out[0].Err)
			}
			continue
		}
		g := out[0].Grant
		is.check(t, name, g)
		*is = told{mark: g.Mark, state: "by the replica", token: g.Token, holder: "replica"}
		if c.visit.raises {
			is.mark++
		}
		if c.visit.leaves {
			leave(t, s, store.Release{
				Name: name, Holder: "replica", Token: g.Token, Mark: is.mark, State: []byte(is.state), Linger: c.visit.lingers, Retain: store.Forever,
			})
			is.holder = ""
			continue
		}
		errs, err := s.Extend(background, []store.Extension{{Name: name, Holder: "replica", Token: g.Token, TTL: c.visit.ttl, Mark: is.mark, State: []byte(is.state)}})
		if err = errors.Join(err, errs[0]); err != nil {
			t.Error(err)
		}
		is.crashed = c.visit.dies
	}
}

// takes takes a name in a phase, sees that it is as users were told, and leaves it so.
func (c *copyVisited) takes(t *testing.T, phase move.Phase, name string, is *told) {
	t.Helper()
	s := in(t, c.before, c.after, phase)
	g := take(t, s, name, "next")
	is.check(t, name, g)
	is.token, is.holder, is.crashed = g.Token, "", false
	leave(t, s, store.Release{Name: name, Holder: "next", Token: g.Token, Retain: store.Forever})
}

// check sees that a grant goes on from what users were told.
func (is *told) check(t *testing.T, name string, g store.Grant) {
	t.Helper()
	if g.Token <= is.token || g.Mark != is.mark || string(g.State) != is.state || g.ExpiredAge > 0 != is.crashed {
		t.Errorf("%s is granted with %+v, want more than %+v", name, g, *is)
	}
}
