package etcdstore

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/soloist-dev/soloist/store"
)

// watches are the watches of a handle. All of them are on one stream of the client.
type watches struct {
	idle time.Duration // for how long a name is watched after its last wake has ended

	mu     sync.Mutex
	names  map[string]*watched
	idling int // names without a wake
	closed bool
}

// mostIdle is how many names are watched at most for which nobody waits.
const mostIdle = 100

// A watched is a name with those who wait for its release.
type watched struct {
	wakes  []*wake
	timer  *time.Timer // ends the watch; nil while there are wakes
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

// Watch implements store.Watcher. It also sends a value when a lease has expired: the holder's store writes that, or the session that has the name ends.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := store.CheckNames(names); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	client, err := s.clients.get(ctx)
	if err != nil {
		return nil, err
	}
	err = s.begin(ctx, client, &s.vanish, watcher{
		from: s.keys.sessions(), options: []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithFilterPut()},
		heard: func(kv *mvccpb.KeyValue) { s.vanished(strings.TrimPrefix(string(kv.Key), s.keys.sessions())) },
		lost:  s.watches.lost,
	})
	if err != nil {
		return nil, err
	}
	woken, err := s.watch(ctx, &s.watches, s.follow, names)
	if err == nil && !s.vanish.isOpen() { // it was lost before these names were there
		s.watches.lost()
	}
	return woken, err
}

// vanished wakes those who watch a name that a session had which has ended.
func (s *Store) vanished(session string) {
	s.sights.end(session)
	w := &s.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, of := range w.names {
		if p, known := s.sights.of(name); !known || p.record.Session == session {
			of.wake()
		}
	}
}

// A follower wakes those who watch a name, until nobody does.
type follower func(ctx context.Context, client *clientv3.Client, name string, of *watched)

func (s *Store) watch(ctx context.Context, all *watches, by follower, names []string) (<-chan struct{}, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	client, err := s.clients.get(ctx)
	if err != nil {
		return nil, err
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	w := &wake{ch: make(chan struct{}, 1), names: names}
	followed, err := s.subscribe(client, all, by, w)
	if err != nil {
		return nil, err
	}
	for _, of := range followed {
		select {
		case <-of.begun:
			err = of.err
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.ctx.Done():
			err = store.ErrClosed
		}
		if err != nil {
			all.end(w)
			if s.ctx.Err() != nil {
				err = store.ErrClosed
			}
			return nil, s.wrap("watching", err)
		}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if !w.closed {
		w.stop = context.AfterFunc(ctx, func() { all.end(w) })
	}
	return w.ch, nil
}

// subscribe adds a wake to its names, and has etcd report those that nobody has watched.
func (s *Store) subscribe(client *clientv3.Client, all *watches, by follower, w *wake) (followed []*watched, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		return nil, store.ErrClosed
	}
	if all.names == nil {
		all.names = map[string]*watched{}
	}
	for _, name := range w.names {
		of := all.names[name]
		if of == nil {
			ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(s.ctx))
			of = &watched{cancel: cancel, begun: make(chan struct{})}
			all.names[name] = of
			s.work.Go(func() { by(ctx, client, name, of) })
		}
		all.resume(of)
		of.wakes = append(of.wakes, w)
		followed = append(followed, of)
	}
	return followed, nil
}

// follow is the follower of Watch.
func (s *Store) follow(ctx context.Context, client *clientv3.Client, name string, of *watched) {
	s.watches.follow(name, of, client.Watch(ctx, s.keys.record(name), clientv3.WithCreatedNotify()),
		func(events []*clientv3.Event) bool { return s.changed(name, events) })
}

// follow wakes those who watch a name when etcd has reported changes of which freed is true.
func (w *watches) follow(name string, of *watched, replies clientv3.WatchChan, freed func([]*clientv3.Event) bool) {
	begun := false
	for reply := range replies {
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
		if freed(reply.Events) {
			w.wake(of)
		}
	}
	of.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !begun {
		if of.err == nil {
			of.err = errEnded
		}
		close(of.begun)
	}
	if w.names[name] == of {
		delete(w.names, name)
	}
	w.resume(of)
	for _, one := range of.wakes {
		w.endLocked(one)
	}
}

// changed remembers what a watch has reported of a record, and reports whether the name may be free, or lingers now.
func (s *Store) changed(name string, events []*clientv3.Event) (freed bool) {
	for _, e := range events {
		p := pair{at: time.Now()}
		if e.Type == mvccpb.PUT {
			p = pairOf(name, []*mvccpb.KeyValue{e.Kv}, presence{})
		}
		s.sights.event(name, e.Kv.ModRevision, p)
		freed = freed || !p.taken || p.record.Released || s.sights.gone(p.record.Session) // its end may have been reported before
	}
	return freed
}

// wake sends a value to those who watch a name.
func (w *watches) wake(of *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of.wake()
}

func (of *watched) wake() {
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
		w.left(name, of)
	}
}

// left ends the watch of a name that nobody waits for any more, or lets it idle. mu is held.
func (w *watches) left(name string, of *watched) {
	if len(of.wakes) > 0 {
		return
	}
	if w.idle == 0 || w.closed || w.idling >= mostIdle {
		of.cancel()
		delete(w.names, name)
		return
	}
	w.idling++
	var timer *time.Timer
	timer = time.AfterFunc(w.idle, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if of.timer == timer {
			w.resume(of)
			of.cancel()
			delete(w.names, name)
		}
	})
	of.timer = timer
}

// resume ends the time in which a name idles. mu is held.
func (w *watches) resume(of *watched) {
	if of.timer != nil {
		of.timer.Stop()
		of.timer = nil
		w.idling--
	}
}

// close ends all watches and refuses new ones.
func (w *watches) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.lostLocked()
}

// lost ends all watches.
func (w *watches) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lostLocked()
}

func (w *watches) lostLocked() {
	for _, of := range w.names {
		for _, one := range slices.Clone(of.wakes) {
			w.endLocked(one)
		}
	}
}
