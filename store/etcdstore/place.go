package etcdstore

import (
	"time"

	"github.com/soloist-dev/soloist/store"
)

type placeKey struct{ name, holder string }

// A place is that of one holder of this handle in the queue of a name. It is kept between the calls of Queue, until one of them is granted the name or the
// holder leaves. Its fields are guarded by inbox.mu.
type place struct {
	placeKey
	ttl     time.Duration // as in the ticket
	session *session      // that the ticket is attached to, and the name will be; nil if there is no ticket
	again   bool          // the ticket may be gone, and is to be written again
	freed   time.Time     // when the name was first seen free while others were before this place; zero if it was taken since
	since   int64         // the revision that etcd had reached when the place began: notes up to it are of a lease that the holder had before
	calls   int           // of Queue, now
	idle    *time.Timer   // while there is none

	handed *pair         // what was handed over, and no call has taken yet
	lost   bool          // the watch was lost
	woken  chan struct{} // closed when one of these was set, and replaced
}

func (at *place) wake() {
	close(at.woken)
	at.woken = make(chan struct{})
}

// enter begins a call of Queue.
func (s *Store) enter(c store.Claim) *place {
	i := &s.inbox
	i.mu.Lock()
	defer i.mu.Unlock()
	key := placeKey{c.Name, c.Holder}
	at := i.places[key]
	if at == nil {
		at = &place{placeKey: key, since: s.height.high.Load(), woken: make(chan struct{})}
		if i.places == nil {
			i.places = map[placeKey]*place{}
		}
		i.places[key] = at
	}
	if at.idle != nil {
		at.idle.Stop()
		at.idle = nil
	}
	at.lost = !i.watch.isOpen() // it may have been lost before the place was there
	at.calls++
	return at
}

// exit ends a call of Queue. It returns what was handed over since the call looked last. A place whose holder does not call again is given up after a while.
func (s *Store) exit(at *place, granted bool) (handed *pair) {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	at.calls--
	handed, at.handed = at.handed, nil
	if granted { // another call may continue the place
		at.since = s.height.high.Load()
	}
	switch {
	case s.inbox.places[at.placeKey] != at || at.calls > 0:
	case granted || handed != nil || at.session == nil && at.freed.IsZero():
		s.removePlace(at)
	default:
		at.idle = time.AfterFunc(at.ttl+patience, func() { s.forsake(at.placeKey) })
	}
	return handed
}

// took returns what was handed over to a place, nil if nothing was.
func (s *Store) took(at *place) (handed *pair, lost bool, woken chan struct{}) {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	handed, at.handed = at.handed, nil
	return handed, at.lost, at.woken
}

// seenFree returns when the name of a place was first seen free, see place.freed.
func (s *Store) seenFree(at *place) time.Time {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	return at.freed
}

// seenTaken notes that the name of a place is taken.
func (s *Store) seenTaken(at *place) {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	at.freed = time.Time{}
}

// removePlace forgets a place. inbox.mu is held.
func (s *Store) removePlace(at *place) {
	if s.inbox.places[at.placeKey] == at {
		delete(s.inbox.places, at.placeKey)
	}
	if at.idle != nil {
		at.idle.Stop()
		at.idle = nil
	}
	s.attach(at, nil)
}

// forsake forgets a place whose ticket may still be there, or whose name may be handed over without anybody noticing. Its session is given up, so that
// etcd ends both.
func (s *Store) forsake(key placeKey) {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	if at := s.inbox.places[key]; at != nil && at.calls == 0 {
		if at.session != nil {
			s.abandon(at.session)
		}
		s.removePlace(at)
	}
}

// writeAgain has the ticket of a place written again, which may be there still.
func (s *Store) writeAgain(at *place) {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	at.again = true
}

// ticketGone forgets a place whose ticket is not there any more.
func (s *Store) ticketGone(key placeKey) {
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	if at := s.inbox.places[key]; at != nil {
		s.attach(at, nil)
		if at.calls == 0 {
			s.removePlace(at)
		}
	}
}

// attach notes to which session the ticket of a place is attached, which is kept alive while it has one. inbox.mu is held.
func (s *Store) attach(at *place, to *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.session != nil {
		at.session.names--
	}
	if at.session = to; to != nil {
		to.names++
	}
}

// beginLease counts the time of a lease that was handed over, from now. It returns its session, nil if that is not one of this handle any more.
func (s *Store) beginLease(name string, p pair) (of *session, began time.Time) {
	s.mu.Lock()
	of, began = s.sessions[p.record.Session], time.Now()
	s.mu.Unlock()
	if of != nil {
		s.sights.see(name, p)
		h := s.holding(p, of, began.Add(p.record.TTL))
		h.noted, h.line = true, p.line
		s.hold(name, h)
	}
	return of, began
}
