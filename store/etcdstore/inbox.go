package etcdstore

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// An inbox is where a handle reads what was handed over to it: keys that begin with its id. One watch reports them, from when the handle first waits in
// a queue.
type inbox struct {
	id    string
	watch standing

	mu     sync.Mutex
	places map[placeKey]*place
}

// openInbox begins the watch of the inbox, unless it runs.
func (s *Store) openInbox(ctx context.Context, client *clientv3.Client) error {
	from, to := s.keys.inbox(s.inbox.id)
	return s.begin(ctx, client, &s.inbox.watch, watcher{
		from: from, options: []clientv3.OpOption{clientv3.WithRange(to), clientv3.WithFilterDelete()},
		heard: func(kv *mvccpb.KeyValue) { s.heard(strings.TrimPrefix(string(kv.Key), from), kv) },
		lost:  s.inbox.lost,
	})
}

// lost lets all places look again, since the watch was lost.
func (i *inbox) lost() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, at := range i.places {
		at.lost = true
		at.wake()
	}
}

// heard takes a note that a name was handed over. If its holder is not calling now, the lease begins here, so that it ends if the holder does not call again.
func (s *Store) heard(name string, kv *mvccpb.KeyValue) {
	var n note
	if json.Unmarshal(kv.Value, &n) != nil {
		return // not of a store: the holder finds out when it calls again
	}
	n.Record.Token = kv.ModRevision
	if n.Record.credible(name, kv.ModRevision) != nil {
		return
	}
	p := pair{record: n.Record, revision: kv.ModRevision, taken: true, line: n.Line}
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	at := s.inbox.places[placeKey{name, n.Record.Holder}]
	switch {
	case at == nil, kv.ModRevision <= at.since: // the watch may report later than a reply
	case at.calls > 0:
		at.handed = &p
		at.wake()
	default:
		s.beginLease(name, p)
		s.removePlace(at)
	}
}
