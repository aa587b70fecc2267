package etcdstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/soloist-dev/soloist/store"
)

// TestWhichExtensionsWriteNothing: an extension writes nothing only if its lease is as it was, goes on, and needs no other session. Then the lease is not ended until that is decided.
func TestWhichExtensionsWriteNothing(t *testing.T) {
	now := time.Now()
	for what, test := range map[string]struct {
		change func(h *holding, e *store.Extension)
		alone  bool
		light  bool
	}{
		"as it was":                  {func(*holding, *store.Extension) {}, true, true},
		"one of several of its name": {func(*holding, *store.Extension) {}, false, false},
		"a state":                    {func(_ *holding, e *store.Extension) { e.State = []byte("s") }, true, false},
		"an empty state":             {func(_ *holding, e *store.Extension) { e.State = []byte{} }, true, false},
		"another name":               {func(_ *holding, e *store.Extension) { e.Name = "other" }, true, false},
		"another holder":             {func(_ *holding, e *store.Extension) { e.Holder = "y" }, true, false},
		"another token":              {func(_ *holding, e *store.Extension) { e.Token = 4 }, true, false},
		"the same mark":              {func(_ *holding, e *store.Extension) { e.Mark = 3 }, true, true},
		"a higher mark":              {func(_ *holding, e *store.Extension) { e.Mark = 4 }, true, false},
		"an unknown outcome":         {func(h *holding, _ *store.Extension) { h.revision = 0 }, true, false},
		"a lease that is ended":      {func(h *holding, _ *store.Extension) { h.ending = true }, true, false},
		"a lease that is changed":    {func(h *holding, _ *store.Extension) { h.changing = true }, true, false},
		"a session that is given up": {func(h *holding, _ *store.Extension) { h.session.abandoned = true }, true, false},
		"a lease that is over":       {func(h *holding, _ *store.Extension) { h.until = now }, true, false},
		"a longer TTL":               {func(_ *holding, e *store.Extension) { e.TTL++ }, true, false},
		"a shorter TTL, and later":   {func(h *holding, e *store.Extension) { e.TTL, h.until = 29*time.Minute, now.Add(28*time.Minute) }, true, false},
		"half the TTL, and later":    {func(h *holding, e *store.Extension) { e.TTL, h.until = 30*time.Minute, now.Add(28*time.Minute) }, true, true},
		"a shorter TTL, and before":  {func(_ *holding, e *store.Extension) { e.TTL = time.Minute }, true, true},
	} {
		s := bare("1.a")
		h := &holding{holder: "x", token: 5, mark: 3, ttl: time.Hour, revision: 7, session: s.sessions["1.a"], until: now.Add(time.Hour)}
		e := store.Extension{Name: "name", Holder: "x", Token: 5, TTL: time.Hour}
		test.change(h, &e)
		s.held["name"] = h
		if got := s.pin(e, test.alone); (got == h) != test.light || (h.pins == 1) != test.light {
			t.Errorf("%s: it writes nothing: %v, want %v", what, got != nil, test.light)
		}
	}
}

// TestLeasesThatWereLookedAt: a lease that was found as it was goes on for longer, and never for less than before. One that was changed meanwhile was not extended.
func TestLeasesThatWereLookedAt(t *testing.T) {
	for what, test := range map[string]struct {
		same, changing, other bool
		ttl                   time.Duration
		extended              bool
		longer                bool
	}{
		"as it was":        {true, false, false, time.Hour, true, true},
		"for less":         {true, false, false, time.Second, true, false},
		"not as it was":    {false, false, false, time.Hour, false, false},
		"changed":          {true, true, false, time.Hour, false, false},
		"released and had": {true, false, true, time.Hour, false, false},
	} {
		s := bare("1.a")
		until := time.Now().Add(time.Minute)
		h := &holding{holder: "x", token: 5, revision: 7, session: s.sessions["1.a"], until: until, pins: 2, changing: test.changing}
		s.held["name"] = h
		if test.other {
			s.held["name"] = &holding{holder: "x", token: 8, revision: 8, session: h.session, until: until}
		}
		r := &renewal{e: store.Extension{Name: "name", Holder: "x", Token: 5, TTL: test.ttl}, h: h}
		s.unpin([]*renewal{r}, test.same)
		if r.extended != test.extended || h.until.After(until) != test.longer || h.until.Before(until) || h.pins != 1 {
			t.Errorf("%s: it was extended: %v, by %v, and %d wait still", what, r.extended, h.until.Sub(until), h.pins)
		}
	}
}

// TestHowManyAreTogether: as many leases are looked at with one request as etcd takes, of whatever sessions, and at least one of them itself.
func TestHowManyAreTogether(t *testing.T) {
	for _, test := range []struct{ size, leases, sessions, together, checks int }{
		{100, 60, 1, 60, 52}, {100, 10, 1, 10, 12}, {100, 30, 30, 25, 75}, {100, 60, 25, 60, 100}, {16, 60, 1, 60, 16}, {16, 60, 60, 4, 12}, {2, 5, 5, 1, 3},
	} {
		s := bare()
		s.size.Store(int64(test.size))
		of := make([]*session, test.sessions)
		for i := range of {
			of[i] = &session{name: fmt.Sprint(i)}
		}
		all := make([]*renewal, test.leases)
		for i := range all {
			all[i] = &renewal{h: &holding{session: of[i%len(of)]}}
		}
		if n := s.together(all); n != test.together || s.checks(all[:n]) != test.checks {
			t.Errorf("of %+v %d go together, with %d checks", test, n, s.checks(all[:n]))
		}
	}
}

// TestHowManyChangesFit: as many changes go into one request as etcd takes, by their number and by their size. Those of names of another process go with others of its session only.
func TestHowManyChangesFit(t *testing.T) {
	s := bare("1.a")
	s.size.Store(10)
	of := func(session string, released bool, state int) *task {
		return &task{
			name: "name", pair: pair{taken: session != "", record: record{Session: session, Released: released}}, change: &change{record: &record{State: make([]byte, state)}},
		}
	}
	own, free, lingers, other, third := of("1.a", false, 0), of("", false, 0), of("2.b", true, 0), of("2.b", false, 0), of("3.c", false, 0)
	many := make([]*task, 12)
	for i := range many {
		many[i] = own
	}
	large := of("1.a", false, store.MaxState)
	for what, test := range map[string]struct {
		tasks []*task
		want  int
	}{
		"own and free ones":  {[]*task{own, free, lingers, own}, 4},
		"one of another":     {[]*task{own, own, other}, 2},
		"those of another":   {[]*task{other, other, own}, 2},
		"those of two":       {[]*task{other, third}, 1},
		"many":               {many, 10},
		"one that is large":  {[]*task{large}, 1},
		"one that is delete": {[]*task{{name: "name", change: &change{}}, own}, 2},
	} {
		if got := s.fitting(test.tasks); got != test.want {
			t.Errorf("%s: %d go into one request, want %d", what, got, test.want)
		}
	}
}

// TestLingersThatAreOver: lingers are ended when they are over, and those that etcd has ended are forgotten.
func TestLingersThatAreOver(t *testing.T) {
	now := time.Now()
	at := func(d time.Duration, gone bool) *linger { return &linger{until: now.Add(d), gone: gone} }
	over, next, last := at(0, false), at(time.Second, false), at(time.Hour, false)
	s := &Store{lingers: []*linger{last, over, at(time.Millisecond, true), next}}
	if got, wait := s.overLingers(now); len(got) != 1 || got[0] != over || wait != time.Second || len(s.lingers) != 2 {
		t.Errorf("%v are over, the next in %v, and %d are left", got, wait, len(s.lingers))
	}
	for d, want := range map[time.Duration]time.Duration{time.Second: time.Second / 16, time.Hour: time.Second} {
		if got := sharing(d); got != want {
			t.Errorf("what is to linger for %v may do so for %v longer, want %v", d, got, want)
		}
	}
}

// TestSessionsThatDoNotLast: a lease of etcd that is too short for what it is wanted for, or that etcd has ended, has no name attached to it.
func TestSessionsThatDoNotLast(t *testing.T) {
	server := &tardy{}
	s := server.store(t)
	s.renewing = true // nothing is kept alive in the background
	if of, err := s.session(t.Context(), time.Hour); !errors.Is(err, errTooSlow) || len(s.classes)+len(s.sessions) > 0 {
		t.Errorf("%+v, %v, want that ten seconds are too short for an hour", of, err)
	}
	of, err := s.session(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	asked := server.asked
	if lasts, err := s.lasts(t.Context(), of, time.Second); !lasts || err != nil || server.asked != asked {
		t.Errorf("it lasts: %v, %v, and etcd was asked: %v", lasts, err, server.asked != asked)
	}
	if lasts, err := s.lasts(t.Context(), of, granted*time.Second+1); lasts || err != nil {
		t.Errorf("it lasts for longer than it can: %v, %v", lasts, err)
	}
	of.keptUntil(time.Now())
	if lasts, err := s.lasts(t.Context(), of, time.Second); !lasts || err != nil || server.asked == asked {
		t.Errorf("kept alive, it lasts: %v, %v", lasts, err)
	}
	of.keptUntil(time.Now())
	server.ended = true
	if lasts, err := s.lasts(t.Context(), of, time.Second); lasts || err != nil || !of.gone || len(s.classes) > 0 {
		t.Errorf("after its end it lasts: %v, %v, it is gone: %v, and the next names are attached to it: %v", lasts, err, of.gone, len(s.classes) > 0)
	}
}

// TestWhatLeasesOfASessionNeed: leases that are checked together are extended if their session lasts for the longest of them, and was changed last before the first of their records was written.
func TestWhatLeasesOfASessionNeed(t *testing.T) {
	server := &tardy{}
	s, of := server.session(t)
	lease := func(ttl time.Duration, revision int64) *renewal {
		return &renewal{e: store.Extension{Name: "name", TTL: ttl}, h: &holding{session: of, revision: revision}}
	}
	short, long := lease(time.Second, 7), lease(granted*time.Second+1, 5)
	for _, all := range [][]*renewal{{short, long}, {long, short}} {
		if same, err := s.unchanged(t.Context(), all); same || err != nil || server.txn != nil {
			t.Errorf("a session that is too short for one of them: they are extended: %v, %v", same, err)
		}
	}
	first, last := lease(time.Second, 5), lease(time.Second, 7)
	for _, all := range [][]*renewal{{first, last}, {last, first}} {
		same, err := s.unchanged(t.Context(), all)
		if !same || err != nil {
			t.Fatal(same, err)
		}
		before := int64(0)
		for _, is := range server.txn.Compare {
			if is.Result == etcdserverpb.Compare_LESS {
				before = is.GetModRevision()
			}
		}
		if before != 5 {
			t.Errorf("the key of their session must not have changed since the revision %d, want 5", before)
		}
	}
}
