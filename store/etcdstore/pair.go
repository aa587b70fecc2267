package etcdstore

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// A pair is the record of a name and whether the session that it names is there, as they were seen in one reply. The zero value is a name without a record.
//
// A record that names a session was written on the condition that the key of the session is there, which is deleted with its lease of etcd, and never written again. So the
// session was there at the revision of the record, and once it is not, it never is.
type pair struct {
	record   record
	revision int64 // of the last change of the record; 0 if there is none
	taken    bool  // the record names a session, and that was there when it was last looked for
	unsure   bool  // it was there when the record was written, and was not looked for since
	stray    int64 // the revision of its key, if that is not attached to the lease of etcd of the session; 0 otherwise

	line  []ticket // the first of the name's queue, if the reply was about that, too
	asked bool     // it was

	err error     // the record cannot be read; only the name of the pair is known
	at  time.Time // when this process first saw the pair as it is
}

// pairOf reads the record of a name from a reply.
func pairOf(name string, kvs []*mvccpb.KeyValue, now presence) pair {
	p := pair{at: time.Now()}
	for _, kv := range kvs {
		p.revision = kv.ModRevision
		if p.record, p.err = decode(name, kv.Value, kv.ModRevision); p.err == nil && kv.Lease != 0 {
			p.record, p.err = record{}, foreign(name, fmt.Sprintf("a lease of etcd, %x, with which it would end", kv.Lease))
		}
	}
	if p.record.Session != "" {
		there, known := now.of(p.record.Session)
		p.taken, p.unsure, p.stray = there || !known, !known, now.stray[p.record.Session]
	}
	return p
}

// same reports whether two pairs are of the same keys.
func (p pair) same(q pair) bool { return p.revision == q.revision && p.taken == q.taken }

// madeBy returns the sending that has written the record, nil if none has.
func (p pair) madeBy(sent []*sending) *sending {
	if len(sent) == 0 || p.err != nil || p.revision == 0 || p.record.Session != "" && !p.taken {
		return nil
	}
	if p.record.Token == p.revision {
		p.record.Token = 0
	}
	text, err := p.record.encode()
	if i := slices.IndexFunc(sent, func(a *sending) bool { return a.record == text }); err == nil && i >= 0 {
		return sent[i]
	}
	return nil
}

// A presence is what a reply says of sessions.
type presence struct {
	there map[string]bool
	stray map[string]int64 // the revisions of those whose keys are not attached to their leases of etcd
	upTo  string           // those before it in the order of their names which are not in the map are not there
	all   bool             // nor are those after it
}

func newPresence() presence { return presence{there: map[string]bool{}, stray: map[string]int64{}} }

func (p presence) of(session string) (there, known bool) {
	there, known = p.there[session]
	return there, known || p.all || session <= p.upTo
}

// How many names a handle remembers, at most twice as many, and how large their states may be. So many sessions that have ended it remembers, too.
const (
	remembered      = 20_000
	rememberedState = 1 << 10
)

// sights remember the names that were seen last, and sessions that have ended. It is safe to forget one: it is read again.
type sights struct {
	mu       sync.Mutex
	now, old map[string]pair

	ended, endedBefore map[string]struct{}
}

// see records a pair from a reply, and returns it with the time at which this process first saw it, and with what is known of its session.
func (s *sights) see(name string, p pair) pair {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.taken && s.hasEnded(p.record.Session) {
		p.taken, p.unsure = false, false
	}
	if before, ok := s.find(name); ok && before.same(p) && !before.at.IsZero() {
		p.at = before.at
	}
	s.put(name, p)
	return p
}

func (s *sights) put(name string, p pair) {
	p.line, p.asked, p.unsure, p.stray = nil, false, false, 0
	if len(p.record.State) > rememberedState {
		delete(s.now, name)
		delete(s.old, name)
		return
	}
	if len(s.now) >= remembered {
		s.old, s.now = s.now, nil
	}
	if s.now == nil {
		s.now = map[string]pair{}
	}
	s.now[name] = p
}

// of returns what was seen of a name last.
func (s *sights) of(name string) (pair, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(name)
}

func (s *sights) find(name string) (pair, bool) {
	p, ok := s.now[name]
	if !ok {
		p, ok = s.old[name]
	}
	if ok && p.taken && s.hasEnded(p.record.Session) {
		p.taken, p.at = false, time.Now()
	}
	return p, ok
}

// end notes that a session has ended.
func (s *sights) end(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ended) >= remembered {
		s.endedBefore, s.ended = s.ended, nil
	}
	if s.ended == nil {
		s.ended = map[string]struct{}{}
	}
	s.ended[session] = struct{}{}
}

func (s *sights) hasEnded(session string) bool {
	_, now := s.ended[session]
	_, before := s.endedBefore[session]
	return now || before
}

// gone reports whether a session is known to have ended.
func (s *sights) gone(session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasEnded(session)
}

// event records a change of a record, as a watch has reported it, if the name is known and nothing later is.
func (s *sights) event(name string, revision int64, p pair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.find(name); ok && before.err == nil && revision > before.revision {
		s.put(name, p)
	}
}
