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
	id      string
	opening chan struct{} // has a value while a call begins the watch

	mu     sync.Mutex
	open   bool
	places map[placeKey]*place
}

// openInbox begins the watch of the inbox, unless it runs.
func (s *Store) openInbox(ctx context.Context, client *clientv3.Client) error {
	select {
	case s.inbox.opening <- struct{}{}:
		defer func() { <-s.inbox.opening }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.inbox.mu.Lock()
	open := s.inbox.open
	s.inbox.mu.Unlock()
	if open {
		return nil
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosedMeanwhile
	}
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(s.ctx))
	begun := make(chan error, 1)
	s.work.Go(func() {
		defer cancel()
		s.readInbox(watching, client, begun)
	})
	s.mu.Unlock()
	select {
	case err := <-begun:
		return s.wrap("watching", err)
	case <-ctx.Done():
		cancel()
		return s.wrap("watching", ctx.Err())
	}
}

// readInbox reports to the places what was handed over to them. When the watch has ended, all of them must look again. begun receives whether it has begun.
func (s *Store) readInbox(ctx context.Context, client *clientv3.Client, begun chan<- error) {
	from, to := s.keys.inbox(s.inbox.id)
	waiting, err := true, context.Canceled
	for reply := range client.Watch(ctx, from, clientv3.WithRange(to), clientv3.WithFilterDelete(), clientv3.WithCreatedNotify()) {
		if failure := reply.Err(); failure != nil {
			err = failure
			break
		}
		if reply.Created && waiting {
			waiting = false
			s.inbox.set(true)
			begun <- nil
		}
		for _, e := range reply.Events {
			s.heard(strings.TrimPrefix(string(e.Kv.Key), from), e.Kv)
		}
	}
	if waiting {
		begun <- err
		return
	}
	s.inbox.set(false)
}

// set notes whether the inbox is watched. If it is not, all places look again.
func (i *inbox) set(open bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.open = open; open {
		return
	}
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
	p := pair{record: n.Record, revision: kv.ModRevision, taken: kv.ModRevision, lease: clientv3.LeaseID(kv.Lease), line: n.Line}
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	at := s.inbox.places[placeKey{name, n.Record.Holder}]
	switch {
	case at == nil, kv.ModRevision <= at.since: // the watch may report later than a reply
	case at.calls > 0:
		at.handed = &p
		at.wake()
	default:
		s.begin(name, p)
		s.removePlace(at)
	}
}
