package etcdstore

import (
	"context"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// watches are the watches of a handle. All of them are on one stream of the client.
type watches struct {
	mu     sync.Mutex
	names  map[string]*watched
	closed bool
}

// A watched is a name with those who wait for its release.
type watched struct {
	wakes  []*wake
	cancel context.CancelFunc
	begun  chan struct{} // closed when etcd has subscribed, or err is set
	err    error
}

// A wake is the channel of one call of Watch.
type wake struct {
	ch     chan struct{}
	names  []string
	stop   func() bool
	closed bool
}

// Watch implements store.Watcher. It also sends a value when a lease has expired.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	client, err := s.clients.get(ctx)
	if err != nil {
		return nil, err
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	w := &wake{ch: make(chan struct{}, 1), names: names}
	all, err := s.subscribe(client, w)
	if err != nil {
		return nil, err
	}
	for _, of := range all {
		select {
		case <-of.begun:
			err = of.err
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.ctx.Done():
			err = store.ErrClosed
		}
		if err != nil {
			s.watches.end(w)
			return nil, s.wrap("watching", err)
		}
	}
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if !w.closed {
		w.stop = context.AfterFunc(ctx, func() { s.watches.end(w) })
	}
	return w.ch, nil
}

// subscribe adds a wake to its names, and has etcd report those that nobody has watched.
func (s *Store) subscribe(client *clientv3.Client, w *wake) (all []*watched, err error) {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if s.watches.closed {
		return nil, store.ErrClosed
	}
	if s.watches.names == nil {
		s.watches.names = map[string]*watched{}
	}
	for _, name := range w.names {
		of := s.watches.names[name]
		if of == nil {
			ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(s.ctx))
			of = &watched{cancel: cancel, begun: make(chan struct{})}
			s.watches.names[name] = of
			s.work.Go(func() { s.follow(ctx, client, name, of) })
		}
		of.wakes = append(of.wakes, w)
		all = append(all, of)
	}
	return all, nil
}

// follow wakes those who watch a name, until nobody does.
func (s *Store) follow(ctx context.Context, client *clientv3.Client, name string, of *watched) {
	from, to := s.keys.both(name)
	begun := false
	for reply := range client.Watch(ctx, from, clientv3.WithRange(to), clientv3.WithCreatedNotify()) {
		if err := reply.Err(); err != nil {
			if !begun {
				of.err = err
			}
			break
		}
		if reply.Created && !begun {
			begun = true
			close(of.begun)
		}
		if s.changed(name, reply.Events) {
			s.watches.wake(of)
		}
	}
	of.cancel()
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if !begun {
		if of.err == nil {
			of.err = context.Canceled
		}
		close(of.begun)
	}
	if s.watches.names[name] == of {
		delete(s.watches.names, name)
	}
	for _, w := range of.wakes {
		s.watches.endLocked(w)
	}
}

// changed remembers what a watch has reported, and reports whether the name may be free, or lingers now.
func (s *Store) changed(name string, events []*clientv3.Event) (freed bool) {
	for _, e := range events {
		_, kind, _ := s.keys.name(e.Kv.Key)
		s.sights.event(s.keys, name, kind, e.Kv, e.Type == mvccpb.DELETE)
		freed = freed || kind == takenKey && (e.Type == mvccpb.DELETE || e.IsModify())
	}
	return freed
}

// wake sends a value to those who watch a name.
func (w *watches) wake(of *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range of.wakes {
		if one.closed {
			continue
		}
		select {
		case one.ch <- struct{}{}:
		default: // it has a value that has not been received
		}
	}
}

// end ends one watch.
func (w *watches) end(one *wake) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLocked(one)
}

func (w *watches) endLocked(one *wake) {
	if one.closed {
		return
	}
	one.closed = true
	close(one.ch)
	if one.stop != nil {
		one.stop()
	}
	for _, name := range one.names {
		of := w.names[name]
		if of == nil {
			continue
		}
		of.wakes = slices.DeleteFunc(slices.Clone(of.wakes), func(other *wake) bool { return other == one })
		if len(of.wakes) == 0 {
			of.cancel()
			delete(w.names, name)
		}
	}
}

// close ends all watches and refuses new ones.
func (w *watches) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, of := range w.names {
		for _, one := range slices.Clone(of.wakes) {
			w.endLocked(one)
		}
	}
}
