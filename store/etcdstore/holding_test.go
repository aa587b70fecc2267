package etcdstore

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// bare returns a store of which nothing runs, with sessions that last for an hour.
func bare(sessions ...string) *Store {
	s := &Store{held: map[string]*holding{}, sessions: map[string]*session{}, classes: map[int64]*session{}, poked: make(chan struct{}, 1), lapsing: true, renewing: true}
	s.size.Store(mostNames)
	for _, name := range sessions {
		s.sessions[name] = &session{name: name, class: 60, ttl: time.Hour}
		s.sessions[name].keptUntil(time.Now().Add(time.Hour))
	}
	return s
}

// TestWhatIsHeldNow: what is read of a lease does not shorten what was read of it before, in whatever order it comes. Another lease has nothing of the one before.
func TestWhatIsHeldNow(t *testing.T) {
	now := time.Now()
	first := holding{holder: "x", token: 5, revision: 5, until: now.Add(time.Hour), noted: true, line: []ticket{{Holder: "next"}}}
	for what, test := range map[string]struct {
		h     holding
		until time.Time
		noted bool
	}{
		"an extension heard of late": {holding{holder: "x", token: 5, revision: 6, until: now.Add(time.Minute)}, now.Add(time.Hour), true},
		"an extension":               {holding{holder: "x", token: 5, revision: 6, until: now.Add(2 * time.Hour)}, now.Add(2 * time.Hour), true},
		"the next lease":             {holding{holder: "x", token: 7, revision: 7, until: now.Add(time.Minute)}, now.Add(time.Minute), true},
		"another holder":             {holding{holder: "y", token: 7, revision: 7, until: now.Add(time.Minute)}, now.Add(time.Minute), false},
		"another note":               {holding{holder: "x", token: 7, revision: 7, until: now.Add(time.Minute), noted: true}, now.Add(time.Minute), true},
		"an unknown claim":           {holding{holder: "y", until: now.Add(time.Minute)}, now.Add(time.Minute), false},
	} {
		s := bare("1.a", "1.b")
		before, h := first, test.h
		before.session, h.session = s.sessions["1.a"], s.sessions["1.b"]
		s.hold("name", &before)
		s.hold("name", &h)
		got := s.held["name"]
		if got != &h || !got.until.Equal(test.until) || got.noted != test.noted || (len(got.line) > 0) != (test.noted && !test.h.noted) {
			t.Errorf("after %s: %+v, want it until %v", what, got, test.until.Sub(now))
		}
		if a, b := s.sessions["1.a"].names, s.sessions["1.b"].names; a != 0 || b != 1 {
			t.Errorf("after %s %d and %d names are attached to the sessions, want 0 and 1", what, a, b)
		}
		if len(s.ends) != 2 || len(s.poked) != 1 {
			t.Errorf("after %s its end is not looked for: %v", what, s.ends)
		}
	}
}

// TestWhoseRecordItIs: a record is that of a lease of this handle only if nobody else can have written it since. One that this handle has extended, and has no reply about, is.
func TestWhoseRecordItIs(t *testing.T) {
	now := time.Now()
	mine := record{Holder: "x", Token: 5, TTL: time.Hour, Session: "1.a"}
	with := func(do func(*record)) record { r := mine; do(&r); return r }
	for what, test := range map[string]struct {
		h    holding
		p    pair
		want string // mine, before, extended or ""
	}{
		"as it was":                  {holding{revision: 7, token: 5}, pair{revision: 7, taken: true, record: mine}, "mine"},
		"free":                       {holding{revision: 7, token: 5}, pair{revision: 7, record: mine}, ""},
		"released":                   {holding{revision: 7, token: 5}, pair{revision: 7, taken: true, record: with(func(r *record) { r.Released = true })}, ""},
		"extended":                   {holding{revision: 7, token: 5}, pair{revision: 8, taken: true, record: mine, at: now}, "extended"},
		"of another holder":          {holding{revision: 7, token: 5}, pair{revision: 8, taken: true, record: with(func(r *record) { r.Holder = "y" })}, ""},
		"with another token":         {holding{revision: 7, token: 5}, pair{revision: 8, taken: true, record: with(func(r *record) { r.Token = 8 })}, ""},
		"of another process":         {holding{revision: 7, token: 5}, pair{revision: 8, taken: true, record: with(func(r *record) { r.Session = "2.b" })}, ""},
		"read before":                {holding{revision: 7, token: 5}, pair{revision: 6, taken: true, record: mine}, "mine"},
		"ended":                      {holding{revision: 7, token: 5, ended: true}, pair{revision: 8, taken: true, record: mine}, "mine"},
		"claimed, unknown":           {holding{}, pair{revision: 8, taken: true, record: mine}, "mine"},
		"claimed in another session": {holding{}, pair{revision: 8, taken: true, record: with(func(r *record) { r.Session = "1.c" })}, ""},
		"claimed over another's": {holding{over: &holding{revision: 7, token: 5}}, pair{revision: 9, taken: true,
			record: record{Holder: "y", Token: 9, TTL: time.Hour, Session: "2.b"}}, ""},
		"claimed, and found over": {holding{over: &holding{revision: 7, token: 5}}, pair{revision: 7, taken: true,
			record: with(func(r *record) { r.Holder = "y" })}, "before"},
	} {
		s := bare("1.a", "1.c")
		h := test.h
		h.holder, h.session, h.until, h.changing = "x", s.sessions["1.a"], now.Add(time.Minute), true
		s.hold("name", &h)
		got := s.holdingOf("name", test.p)
		is := ""
		switch {
		case got == nil:
		case got == &h:
			is = "mine"
		case got == h.over:
			is = "before"
		case got == s.held["name"] && got.revision == test.p.revision && got.until.Equal(now.Add(time.Hour)) && got.changing:
			is = "extended"
		default:
			is = "wrong"
		}
		if is != test.want {
			t.Errorf("a record that is %s is taken for %q, want %q: %+v", what, is, test.want, got)
		}
	}
}

// TestExtendedUnseen: an extension that etcd has carried out lasts for its TTL from now, if it is not known when that
// was first seen, and not from the beginning of time.
func TestExtendedUnseen(t *testing.T) {
	s, now := bare("1.a"), time.Now()
	s.hold("name", &holding{holder: "x", token: 5, revision: 7, session: s.sessions["1.a"], until: now})
	p := pair{revision: 8, taken: true, record: record{Holder: "x", Token: 5, TTL: time.Hour, Session: "1.a"}}
	if h := s.holdingOf("name", p); h == nil || h.revision != 8 || h.until.Before(now.Add(time.Hour)) {
		t.Errorf("the lease is taken for %+v, want it for an hour from now", h)
	}
}

// TestUnknownClaims: a claim whose outcome is unknown keeps what it found over, so that this is ended if the claim was not carried out, and takes the place of nothing later.
func TestUnknownClaims(t *testing.T) {
	s := bare("1.a", "1.b")
	a, b := s.sessions["1.a"], s.sessions["1.b"]
	over := &holding{holder: "x", token: 5, revision: 5, session: a}
	s.hold("name", over)
	claim := func() *holding { return &holding{holder: "y", session: b} }
	if s.suspect("name", claim(), 4); s.held["name"] != over {
		t.Error("it takes the place of what is later")
	}
	first, second := claim(), claim()
	if s.suspect("name", first, 5); s.held["name"] != first || first.over != over {
		t.Errorf("%+v is held over %+v", s.held["name"], first.over)
	}
	if s.suspect("name", second, 5); s.held["name"] != second || second.over != over || !s.knowsLocked("name", over) || s.knowsLocked("name", first) {
		t.Errorf("%+v is held over %+v", s.held["name"], second.over)
	}
	if s.forgetLocked("name", second); s.held["name"] != over || a.names != 1 || b.names != 0 {
		t.Errorf("after its end %+v is held, and %d and %d names are attached to the sessions", s.held["name"], a.names, b.names)
	}
	if s.forgetLocked("name", over); len(s.held) != 0 || a.names != 0 {
		t.Errorf("%d names are held, and %d are attached to a session", len(s.held), a.names)
	}
	s.suspect("name", first, 5)
	first.over = over
	if s.forgetLocked("name", over); s.held["name"] != first || first.over != nil {
		t.Errorf("%+v is held over %+v", s.held["name"], first.over)
	}
}

// TestWhatIsLeft: the lease of another process is counted from when it was first seen. When that is over its end is not known, so who waits looks again after a while: a quarter of the TTL, within bounds.
func TestWhatIsLeft(t *testing.T) {
	now := time.Now()
	for _, test := range []struct{ ttl, seen, want time.Duration }{
		{time.Hour, 0, time.Hour},
		{time.Hour, time.Hour - 1, 1},
		{time.Hour, time.Hour, time.Minute},
		{time.Minute, 2 * time.Minute, 15 * time.Second},
		{time.Millisecond, time.Second, 100 * time.Millisecond},
	} {
		p := pair{revision: 5, taken: true, at: now.Add(-test.seen), record: record{Holder: "y", TTL: test.ttl, Session: "2.b"}}
		if got := bare().left("name", p, now); got != test.want {
			t.Errorf("of a TTL of %v that was seen %v ago %v is left, want %v", test.ttl, test.seen, got, test.want)
		}
		if p.taken = false; bare().left("name", p, now) != 0 {
			t.Error("of a name that is free something is left")
		}
	}
	s := bare("1.a")
	s.hold("name", &holding{holder: "x", token: 5, revision: 5, session: s.sessions["1.a"], until: now.Add(time.Minute)})
	own := pair{revision: 5, taken: true, at: now, record: record{Holder: "x", Token: 5, TTL: time.Hour, Session: "1.a"}}
	for after, want := range map[time.Duration]time.Duration{0: time.Minute, time.Minute: 0, 2 * time.Minute: 0} {
		if got := s.left("name", own, now.Add(after)); got != want || s.over("name", own, now.Add(after)) != (want == 0) {
			t.Errorf("of an own lease %v is left after %v, want %v", got, after, want)
		}
	}
	s.held["name"].pins = 1
	if s.over("name", own, now.Add(time.Hour)) {
		t.Error("a lease that is being extended is over")
	}
	s.held["name"].ending = true
	if !s.over("name", own, now) {
		t.Error("a lease that is being ended goes on")
	}
}

// TestEndsInTheirOrder: leases are ended when they are over and not before, as many at once as go into one transaction. What was extended, or is being extended, or has ended, is not.
func TestEndsInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bare("1.a")
		s.size.Store(2)
		of, now := s.sessions["1.a"], time.Now()
		for name, until := range map[string]time.Duration{"a": time.Second, "b": 2 * time.Second, "c": 2 * time.Second, "d": 2 * time.Second, "e": time.Minute} {
			s.hold(name, &holding{holder: "x", token: 5, revision: 5, session: of, until: now.Add(until)})
		}
		check := func(when string, wait time.Duration, want ...string) {
			t.Helper()
			over, _, next, more := s.overdue()
			var names []string
			for _, e := range over {
				names = append(names, e.name)
				delete(s.held, e.name)
			}
			slices.Sort(names)
			if !slices.Equal(names, want) || len(over) == 0 && next != wait || !more {
				t.Errorf("%s %v are over, and the next in %v (%v), want %v, and in %v", when, names, next, more, want, wait)
			}
		}
		check("at first", time.Second)
		time.Sleep(time.Second - 1)
		check("just before the first is", time.Millisecond)
		time.Sleep(time.Nanosecond)
		check("in time", 0, "a")
		s.held["b"].until = now.Add(3 * time.Second) // extended
		s.held["c"].pins = 1                         // is being extended
		s.held["d"].ended = true
		time.Sleep(time.Second)
		if check("later", 10*time.Millisecond); s.held["d"] != nil || of.names != 4 { // that of a is still counted here
			t.Errorf("what has ended is held still: %v, %d names are attached", s.held["d"], of.names)
		}
		time.Sleep(time.Second)
		s.held["c"].pins = 0
		check("when the extension is decided", 0, "b", "c")
		check("after that", 57*time.Second)
		s.hold("f", &holding{holder: "x", token: 5, revision: 5, session: of, until: time.Now().Add(-2)})
		s.hold("g", &holding{holder: "x", token: 5, revision: 5, session: of, until: time.Now().Add(-1)})
		s.hold("h", &holding{holder: "x", token: 5, revision: 5, session: of, until: time.Now()})
		check("of three", 0, "f", "g")
		check("then", 0, "h")
		delete(s.held, "e")
		time.Sleep(time.Hour)
		if over, _, _, more := s.overdue(); len(over) != 0 || more || s.lapsing {
			t.Errorf("at last %d are over, and there are more: %v", len(over), more)
		}
	})
}

// An unreachable etcd has no client.
type unreachable struct {
	given
	err error
}

func (u unreachable) get(context.Context) (*clientv3.Client, error) { return nil, u.err }

// TestLeasesThatCannotBeEnded: a lease that could not be ended is tried again, and its session is not kept alive for it, so that etcd ends it; unless the database is full. When etcd must have ended it, it is over.
func TestLeasesThatCannotBeEnded(t *testing.T) {
	for what, test := range map[string]struct {
		err                      error
		change                   func(*session)
		abandoned, ended, forgot bool
	}{
		"etcd cannot be reached":         {errTooSlow, func(*session) {}, true, false, false},
		"its database is full":           {rpctypes.ErrNoSpace, func(*session) {}, false, false, false},
		"the session has ended":          {errTooSlow, func(of *session) { of.gone = true }, false, true, false},
		"the session must have ended":    {errTooSlow, func(of *session) { of.keptUntil(time.Now().Add(-patience - 1)) }, false, true, false},
		"the session may have ended":     {errTooSlow, func(of *session) { of.keptUntil(time.Now().Add(-patience / 2)) }, true, false, false},
		"it was granted anew, or is not": {errTooSlow, func(*session) {}, false, false, true},
	} {
		s := bare("1.a")
		s.ctx, s.clients = t.Context(), unreachable{err: test.err}
		of := s.sessions["1.a"]
		test.change(of)
		h := &holding{holder: "x", token: 5, revision: 5, session: of, until: time.Now(), ending: true}
		if !test.forgot {
			s.held["name"] = h
		}
		s.endLeases([]end{{h.until, "name", h}})
		if of.abandoned != test.abandoned || h.ended != test.ended || h.ending != (test.ended || test.forgot) || len(s.ends) == 0 != test.forgot {
			t.Errorf("%s: the session is given up: %v, the lease is over: %v, and is being ended: %v; %d ends are looked for", what, of.abandoned, h.ended, h.ending, len(s.ends))
		}
		if len(s.ends) > 0 && !s.ends[0].at.After(h.until) {
			t.Errorf("%s: it is tried again at once", what)
		}
	}
}

// TestWhatIsForgotten: the end of a lease ends nothing that this handle holds of the name for another holder, or by a later grant.
func TestWhatIsForgotten(t *testing.T) {
	for what, test := range map[string]struct {
		h    holding
		kept bool
	}{
		"the lease itself":                {holding{holder: "x", token: 5, revision: 7}, false},
		"an earlier one":                  {holding{holder: "x", token: 4, revision: 4}, false},
		"the next one of its holder":      {holding{holder: "x", token: 8, revision: 8}, true},
		"the next one of another":         {holding{holder: "y", token: 8, revision: 8}, true},
		"a claim whose reply was not had": {holding{holder: "y"}, true},
	} {
		s := bare("1.a")
		test.h.session = s.sessions["1.a"]
		s.hold("name", &test.h)
		s.drop(lease{"name", "x", 5})
		if kept := s.held["name"] == &test.h; kept != test.kept || test.h.session.names == 0 == test.kept {
			t.Errorf("%s is held still: %v, and its session has %d names", what, kept, test.h.session.names)
		}
	}
}
