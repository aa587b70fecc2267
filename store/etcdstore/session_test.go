package etcdstore

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// TestSessionNames: sessions of a lease of etcd whose ID is used again have different names, from which the lease can be told.
func TestSessionNames(t *testing.T) {
	a, b := newSession(0x1234567890abcdef), newSession(0x1234567890abcdef)
	if a == b || leaseOf(a) != 0x1234567890abcdef || leaseOf(b) != leaseOf(a) {
		t.Errorf("%q of %x and %q of %x", a, leaseOf(a), b, leaseOf(b))
	}
	for _, other := range []string{"", "x", "12", "12.", ".x", "0.x", "g.x", "-1.x", "1." + strings.Repeat("x", mostOfID-1)} {
		if id := leaseOf(other); id != clientv3.NoLease {
			t.Errorf("%q is the name of a session of the lease %x", other, id)
		}
	}
	if id := leaseOf("1." + strings.Repeat("x", mostOfID-2)); id != 1 {
		t.Errorf("the longest name of a session is that of the lease %x", id)
	}
}

// TestClasses: leases of about the same TTL share a lease of etcd, which is long enough for all of them and not much longer.
func TestClasses(t *testing.T) {
	for ttl, want := range map[time.Duration]int64{
		1: 1, time.Second: 1, time.Second + 1: 2, 15 * time.Second: 15, 16 * time.Second: 16, 16*time.Second + 1: 18, 17 * time.Second: 18, time.Minute: 60, time.Hour: 3840,
	} {
		if got := classOf(ttl); got != want {
			t.Errorf("the class of %v is %d, want %d", ttl, got, want)
		}
	}
	classes := map[int64]bool{}
	for ttl := time.Second; ttl <= 24*time.Hour; ttl += 777 * time.Millisecond {
		class := classOf(ttl)
		classes[class] = true
		if long := time.Duration(class) * time.Second; long < ttl || long > ttl+max(time.Second, ttl/8+time.Second) {
			t.Errorf("the class of %v is %v", ttl, long)
		}
	}
	if n := len(classes); n > 130 {
		t.Errorf("%d classes", n)
	}
	for class, want := range map[int64]int64{1: 2, 8: 2, 12: 3, 3600: 900} {
		if got := slackOf(class); got != want {
			t.Errorf("the slack of the class %d is %d, want %d", class, got, want)
		}
	}
}

// TestSessionsAreKeptAliveInTime: a session is kept alive when half of what it is longer than its leases has passed, the one first that ends first. So no lease that is extended has to wait for that.
func TestSessionsAreKeptAliveInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{sessions: map[string]*session{}, classes: map[int64]*session{}, renewing: true}
		make := func(name string, class, slack int64) *session {
			of := &session{name: name, class: class, ttl: time.Duration(class+slack) * time.Second, names: 1, used: time.Now()}
			of.keptUntil(time.Now().Add(of.ttl))
			s.sessions[name], s.classes[class] = of, of
			return of
		}
		due := func(when string, want time.Duration, those ...*session) {
			t.Helper()
			got, next := s.due()
			if !slices.Equal(got, those) || next != want {
				t.Errorf("%s %d sessions are to be kept alive, and the next in %v, want %d, and in %v", when, len(got), next, len(those), want)
			}
		}
		long := make("long", 48, 12)
		due("at first", 6*time.Second)
		short := make("short", 8, 2)
		due("with a shorter one", time.Second)
		time.Sleep(time.Second - 1)
		due("just before", 1)
		time.Sleep(time.Nanosecond)
		due("in time", 5*time.Second, short)
		time.Sleep(5 * time.Second)
		due("when both are due", 0, short, long)
		short.keptUntil(time.Now().Add(short.ttl))
		long.abandoned, long.names = true, 0
		if due("when one is given up", time.Second); s.sessions["long"] != long {
			t.Error("a session to which a name may be attached still is forgotten")
		}
		long.names = 1
		short.names, short.used = 0, time.Now().Add(-short.ttl)
		due("while the other was wanted not long ago", time.Second)
		short.used = short.used.Add(-1)
		if due("when nobody wants the other", 54*time.Second); !short.abandoned || s.sessions["short"] != nil || s.classes[8] != nil {
			t.Errorf("one is given up: %v, and %d and %d are left", short.abandoned, len(s.sessions), len(s.classes))
		}
		time.Sleep(54*time.Second + 1)
		due("while a name is attached to what has ended", again)
		if !s.renewing {
			t.Error("nobody looks at it again")
		}
		long.names = 0
		if due("at last", 0); len(s.sessions) != 0 || len(s.classes) != 0 || s.renewing {
			t.Errorf("%d sessions are left, and are kept alive: %v", len(s.sessions), s.renewing)
		}
	})
}

// While the machine is suspended the monotonic clock stands still and etcd does not: no name is attached to a lease that only the
// monotonic clock believes in, and such a lease is kept alive at once.
func TestSuspendedMachineOutlivesItsSessions(t *testing.T) {
	of := &session{name: "1.x", id: 1, ttl: time.Minute, class: 48, names: 1, used: time.Now()}
	of.keptUntil(time.Now().Add(of.ttl))
	s := &Store{sessions: map[string]*session{of.name: of}, classes: map[int64]*session{of.class: of}}
	want := func(lasts bool, what string) {
		t.Helper()
		if s.current(of.class, 10*time.Second) != nil != lasts {
			t.Errorf("%s: the session counts as one that lasts: %v", what, !lasts)
		}
		if due, _ := s.due(); (len(due) == 0) != lasts {
			t.Errorf("%s: %d sessions are to be kept alive", what, len(due))
		}
	}
	want(true, "a new session")
	of.wall = of.wall.Add(-time.Hour) // as after an hour in which the machine was suspended
	want(false, "after a suspend")
	of.keptUntil(time.Now().Add(of.ttl))
	want(true, "kept alive again")
	of.bound, of.wall = of.bound.Add(-time.Hour), of.wall.Add(time.Hour)
	want(false, "ended, and the wall clock was set back")
}

// A session that names are attached to is kept alive however long ago it was last wanted: a waiter's place is in it. One without names is left to etcd.
func TestSessionsWithNamesAreKept(t *testing.T) {
	for names, kept := range []bool{false, true} {
		of := &session{name: "1.x", id: 1, ttl: time.Minute, class: 48, names: names, used: time.Now().Add(-time.Hour)}
		of.keptUntil(time.Now().Add(time.Second))
		s := &Store{sessions: map[string]*session{of.name: of}, classes: map[int64]*session{of.class: of}}
		if due, _ := s.due(); (len(due) == 1) != kept || of.abandoned == kept {
			t.Errorf("with %d names %d sessions are to be kept alive, and it is given up: %v", names, len(due), of.abandoned)
		}
	}
}

// A session is kept alive for a place in a queue, until that is given up.
func TestPlacesKeepTheirSession(t *testing.T) {
	of := &session{name: "1.x", id: 1, ttl: time.Minute, class: 48, used: time.Now().Add(-time.Hour)}
	of.keptUntil(time.Now().Add(time.Second))
	s := &Store{sessions: map[string]*session{of.name: of}, classes: map[int64]*session{of.class: of}}
	at := &place{}
	s.attach(at, of)
	if due, _ := s.due(); len(due) != 1 || of.abandoned {
		t.Errorf("for a place %d sessions are to be kept alive, and it is given up: %v", len(due), of.abandoned)
	}
	s.attach(at, nil)
	if due, _ := s.due(); len(due) != 0 || !of.abandoned {
		t.Errorf("without a place %d sessions are to be kept alive, and it is given up: %v", len(due), of.abandoned)
	}
}

// A lease is not ended while it is being extended, and is looked at again afterwards.
func TestEndOfALeaseThatIsBeingExtended(t *testing.T) {
	of := &session{name: "1.x", id: 1, ttl: time.Minute, class: 48}
	of.keptUntil(time.Now().Add(of.ttl))
	h := &holding{holder: "x", token: 5, ttl: time.Minute, revision: 5, session: of, until: time.Now(), pins: 1}
	s := &Store{sessions: map[string]*session{of.name: of}, held: map[string]*holding{"name": h}, ends: ends{{h.until, "name", h}}, ctx: t.Context()}
	s.size.Store(mostNames)
	if over, _, _, more := s.overdue(); len(over) != 0 || !more || len(s.ends) != 1 {
		t.Errorf("%d leases are to be ended, and %d are looked at again", len(over), len(s.ends))
	}
	s.ends = nil
	p := pair{record: record{Holder: "x", Token: 5, TTL: time.Minute, Session: of.name}, revision: 5, taken: true}
	if c, err := s.lapsed(end{h.until, "name", h}).decide(p); c != nil || err == nil || h.ending {
		t.Errorf("it is ended by %+v, %v, although its extension has begun meanwhile", c, err)
	}
}

// A place whose holder does not wait any more may still have its ticket, or be handed the name. No other name is attached to its session from then on, and that is not kept alive, so that
// etcd ends both.
func TestForsakenPlaceEndsWithItsSession(t *testing.T) {
	of := &session{name: "1.x", id: 1, ttl: time.Minute, class: 48, used: time.Now()}
	of.keptUntil(time.Now().Add(time.Second))
	s := &Store{sessions: map[string]*session{of.name: of}, classes: map[int64]*session{of.class: of}}
	claim := store.Claim{Name: "name", Holder: "x", TTL: time.Hour}
	at := s.enter(claim)
	s.attach(at, of)
	s.forsake(at.placeKey) // a call waits still
	if of.abandoned || s.inbox.places[at.placeKey] != at {
		t.Error("a place at which a call waits is given up")
	}
	s.exit(at, false)
	s.forsake(at.placeKey)
	if due, _ := s.due(); !of.abandoned || len(due) != 0 || s.classes[of.class] != nil {
		t.Errorf("the session is given up: %v, %d sessions are to be kept alive, and the next names are attached to it: %v", of.abandoned, len(due), s.classes[of.class] == of)
	}
	if len(s.inbox.places) != 0 || of.names != 0 {
		t.Errorf("%d places are left, and %d names are attached to the session", len(s.inbox.places), of.names)
	}
}

// A place is kept for a holder that calls again, and given up when it has not done so for as long as the lease that it asked for would have lasted.
func TestPlaceOfAHolderThatDoesNotCallAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{}
		claim := store.Claim{Name: "name", Holder: "x", TTL: time.Hour}
		of := &session{name: "1.x", id: 1, ttl: time.Minute, class: 48}
		at := s.enter(claim)
		s.writes(claim, at, of)
		s.exit(at, false)
		kept := func(what string, want bool) {
			t.Helper()
			synctest.Wait()
			s.inbox.mu.Lock()
			defer s.inbox.mu.Unlock()
			if (s.inbox.places[at.placeKey] == at) != want || of.abandoned == want {
				t.Errorf("%s there are %d places, and the session is given up: %v", what, len(s.inbox.places), of.abandoned)
			}
		}
		time.Sleep(claim.TTL)
		kept("after the TTL", true)
		s.enter(claim)
		time.Sleep(2 * claim.TTL)
		kept("while it waits again", true)
		s.exit(at, false)
		time.Sleep(claim.TTL + patience)
		kept("after a while without it", false)
	})
}

// A session that a name is to be attached to, or whose leases are extended, is kept: it is wanted, however long ago it was wanted before.
func TestWantedSessionIsKept(t *testing.T) {
	for what, want := range map[string]func(*Store, *session) bool{
		"a new name": func(s *Store, of *session) bool { return s.current(of.class, time.Second) == of },
		"an extension": func(s *Store, of *session) bool {
			ok, err := s.lasts(t.Context(), of, time.Second)
			return ok && err == nil
		},
	} {
		of := &session{name: "1.x", id: 1, ttl: time.Minute, class: 48, used: time.Now().Add(-time.Hour)}
		of.keptUntil(time.Now().Add(of.ttl))
		s := &Store{sessions: map[string]*session{of.name: of}, classes: map[int64]*session{of.class: of}}
		if !want(s, of) {
			t.Errorf("%s cannot have it", what)
		}
		if s.due(); of.abandoned || s.sessions[of.name] != of {
			t.Errorf("it is given up while %s is to have it", what)
		}
	}
}

// A counting etcd cannot be reached, and counts how often that was tried. Who tries it a hundred times has ended.
type counting struct {
	given
	n int
}

func (c *counting) get(context.Context) (*clientv3.Client, error) {
	if c.n++; c.n == 100 {
		runtime.Goexit()
	}
	return nil, errTooSlow
}

// While etcd cannot be reached, a session that is to be kept alive is tried again once a second, and not without a pause.
func TestSessionThatCannotBeKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bare("1.a")
		of := s.sessions["1.a"]
		of.names, of.class = 1, 3000
		of.keptUntil(time.Now().Add(time.Minute))
		ctx, cancel := context.WithCancel(t.Context())
		c := &counting{}
		s.ctx, s.clients = ctx, c
		s.work.Go(s.keepAlive)
		time.Sleep(10*again + 1)
		cancel()
		s.work.Wait()
		if c.n != 11 {
			t.Errorf("it was tried %d times in ten seconds, want 11 times", c.n)
		}
	})
}

// TestSessionLastsAsEtcdSays: for how long a session lasts is what etcd says when it is kept alive, counted from the request. That it lasts longer already is not forgotten.
func TestSessionLastsAsEtcdSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &tardy{}
		s, of := server.session(t)
		of.ttl = time.Hour // as it was granted for
		of.keptUntil(time.Now())
		asked := time.Now()
		if err := s.renew(t.Context(), of); err != nil || of.ttl != granted*time.Second || !of.bound.Equal(asked.Add(of.ttl)) {
			t.Errorf("%v; it lasts for %v, until %v after the request; want %d s", err, of.ttl, of.bound.Sub(asked), granted)
		}
		later := time.Now().Add(time.Hour)
		of.keptUntil(later)
		if err := s.renew(t.Context(), of); err != nil || !of.bound.Equal(later) {
			t.Errorf("%v; it lasts for %v less than before", err, later.Sub(of.bound))
		}
	})
}

// TestSessionThatCannotBeLookedFor: a session of which it cannot be found out whether it is there still gets no more
// names, and does not count as gone. One that is gone is never there again.
func TestSessionThatCannotBeLookedFor(t *testing.T) {
	for _, gone := range []bool{false, true} {
		s := bare("1.a", "1.b")
		s.clients = unreachable{err: errTooSlow}
		of := s.sessions["1.a"]
		of.gone, s.classes[of.class] = gone, of
		l := &linger{name: "1.b"}
		s.check(t.Context(), []*task{{session: of}, {linger: l}, {session: of}, {}})
		if of.gone != gone || !of.abandoned || len(s.classes) > 0 || !l.gone || s.sessions["1.b"].abandoned {
			t.Errorf("it is gone: %v, want %v; given up: %v; the next names are attached to it: %v; a linger is gone: %v",
				of.gone, gone, of.abandoned, len(s.classes) > 0, l.gone)
		}
	}
}

// TestSessionThatIsBeingMade: who waits until somebody else has made a session waits no longer than there is time, and
// the next one has it.
func TestSessionThatIsBeingMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&tardy{lasting: true}).store(t)
		gate := s.gate(classOf(time.Hour))
		gate <- struct{}{}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if of, err := s.session(short, time.Hour); of != nil || !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(begun) != time.Second {
			t.Errorf("after %v: %+v, %v, want that its time is over after a second", time.Since(begun), of, err)
		}
		<-gate
		if of, err := s.session(t.Context(), time.Hour); err != nil || of == nil || len(gate) > 0 {
			t.Errorf("when it can be made: %+v, %v", of, err)
		}
	})
}

// TestSessionOfAStoreThatIsClosed: a session that etcd grants to a store that was closed meanwhile is not used, and no
// other one is asked for.
func TestSessionOfAStoreThatIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &tardy{lasting: true}
		s := server.store(t)
		failed := make(chan error, 1)
		go func() { _, err := s.session(t.Context(), time.Hour); failed <- err }()
		time.Sleep(late / 2)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		asked := time.Now().Add(-late / 2)
		if err := <-failed; !errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrUnknown) ||
			len(s.sessions) > 0 || !server.asked.Equal(asked) {
			t.Errorf("%v; %d sessions, and the last was asked for %v after the first; want that the store is closed",
				err, len(s.sessions), server.asked.Sub(asked))
		}
	})
}

// TestSessionThatIsReplaced: a session that has ended, or cannot be made to last for long enough, is replaced by a new
// one. After another error it stays: etcd may have heard the request.
func TestSessionThatIsReplaced(t *testing.T) {
	for what, test := range map[string]struct {
		change   func(*tardy)
		ttl      time.Duration
		replaced bool
	}{
		"it lasts":                {func(*tardy) {}, time.Second, false},
		"it has ended":            {func(s *tardy) { s.ended = true }, time.Second, true},
		"it is too short by then": {func(s *tardy) { s.lasting = true }, granted*time.Second + time.Second/2, true},
		"a nonsensical reply":     {func(s *tardy) { s.off = 1 }, time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) { // else it may have ended again when it is looked at
			server := &tardy{}
			s, of := server.session(t)
			of.keptUntil(time.Now())
			delete(s.classes, of.class)
			of.class = classOf(test.ttl)
			s.classes[of.class] = of
			test.change(server)
			asked := server.ttl
			server.ttl = 0
			now, err := s.session(t.Context(), test.ttl)
			switch {
			case server.off != 0:
				if err == nil || errors.Is(err, errTooSlow) || server.ttl != 0 || s.classes[of.class] != of ||
					of.abandoned {
					t.Errorf("%s: %+v, %v, want an error, and that the session stays", what, now, err)
				}
			case err != nil || (now != of) != test.replaced || (server.ttl != 0) != test.replaced ||
				s.classes[of.class] != now || !now.lastsFor(0):
				t.Errorf("%s: %+v, %v, of %d seconds first and %d then; want that it is replaced: %v", what, now, err,
					asked, server.ttl, test.replaced)
			case test.replaced && !of.abandoned:
				t.Errorf("%s: the old one is kept alive still", what)
			}
		})
	}
}

// TestNoSessionIsKeptAlive: what keeps sessions alive ends when there is none, and begins again with the next.
func TestNoSessionIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&tardy{lasting: true}).store(t)
		for range 2 {
			if _, err := s.session(t.Context(), 10*time.Second); err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			if !s.renewing {
				t.Error("nothing keeps the session alive")
			}
			s.mu.Unlock()
			time.Sleep(time.Minute) // nobody wants it
			s.work.Wait()           // or this test does not end
			if s.renewing || len(s.sessions)+len(s.classes) > 0 {
				t.Errorf("%d sessions are left", len(s.sessions))
			}
		}
	})
}

// TestSessionThatWasGivenUp: a session that was given up is not made to last for the leases that it has, not even if
// etcd still keeps it: these go on in another one.
func TestSessionThatWasGivenUp(t *testing.T) {
	server := &tardy{}
	s, of := server.session(t)
	of.abandoned, of.used = true, time.Time{}
	for _, until := range []time.Time{time.Now().Add(time.Hour), time.Now()} {
		of.keptUntil(until)
		asked := server.asked
		if lasts, err := s.lasts(t.Context(), of, time.Second); lasts || err != nil || server.asked != asked {
			t.Errorf("it lasts: %v, %v, and etcd was asked: %v", lasts, err, server.asked != asked)
		}
	}
}
