package etcdstore

import (
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A pair is the two keys of a name as they were seen in one reply. The zero value is a name without keys.
type pair struct {
	record   record
	revision int64 // of the last change of the record; 0 if there is none

	taken int64            // revision of the last change of the key whose existence means that the name is taken; 0 if there is none
	lease clientv3.LeaseID // that this key is attached to

	line  []ticket // the first of the name's queue, if the reply was about that, too
	asked bool     // it was

	err error     // the record cannot be read; only the name of the pair is known
	at  time.Time // when this process first saw the pair as it is
}

// pairOf reads the keys of a name from a reply.
func (k keys) pairOf(name string, kvs []*mvccpb.KeyValue) pair {
	p := pair{at: time.Now()}
	for _, kv := range kvs {
		switch _, kind, _ := k.name(kv.Key); kind {
		case recordKey:
			p.revision = kv.ModRevision
			p.record, p.err = decode(name, kv.Value, kv.ModRevision)
		case takenKey:
			p.taken, p.lease = kv.ModRevision, clientv3.LeaseID(kv.Lease)
		}
	}
	switch {
	case p.err != nil:
	case p.revision == 0 && p.taken != 0:
		p.err = foreign(name, "no record, although the name is taken")
	case p.taken != 0 && p.lease == clientv3.NoLease:
		p.err = foreign(name, "a key "+`"taken"`+" without a lease of etcd")
	}
	return p
}

// same reports whether two pairs are of the same keys.
func (p pair) same(q pair) bool { return p.revision == q.revision && p.taken == q.taken }

// How many names a handle remembers, at most twice as many, and how large their states may be.
const (
	remembered      = 20_000
	rememberedState = 1 << 10
)

// sights remember the names that were seen last. It is safe to forget one: it is read again.
type sights struct {
	mu       sync.Mutex
	now, old map[string]pair
}

// see records a pair from a reply, and returns it with the time at which this process first saw it.
func (s *sights) see(name string, p pair) pair {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.find(name); ok && before.same(p) && !before.at.IsZero() {
		p.at = before.at
	}
	s.put(name, p)
	return p
}

func (s *sights) put(name string, p pair) {
	p.line, p.asked = nil, false
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
	return p, ok
}

// event records a change of one key of a name, as a watch has reported it, if the other key is known.
func (s *sights) event(k keys, name, kind string, kv *mvccpb.KeyValue, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.find(name)
	known := map[string]int64{recordKey: p.revision, takenKey: p.taken}[kind]
	if !ok || p.err != nil || kv.ModRevision < max(p.revision, p.taken) || kv.ModRevision == known { // one transaction changes both
		return
	}
	switch {
	case kind == takenKey && deleted:
		p.taken, p.lease = 0, clientv3.NoLease
	case kind == takenKey:
		p.taken, p.lease = kv.ModRevision, clientv3.LeaseID(kv.Lease)
	case deleted:
		p.revision, p.record = 0, record{}
	default:
		p.revision = kv.ModRevision
		p.record, p.err = decode(name, kv.Value, kv.ModRevision)
	}
	p.at = time.Now()
	s.put(name, p)
}
