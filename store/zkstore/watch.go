package zkstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/stepback"
)

// watches are the watches of a store. ZooKeeper reports each change of a node, renewals too, once; so a watch is followed by a read that sets it again. After a release all
// who wait claim the name; those who are refused let some changes pass before they read, if they are many.
// The client cannot take a watch back. So one that nobody waits for stays until the node changes, and serves whoever waits for the name next.
type watches struct {
	store  *Store
	ctx    context.Context
	cancel context.CancelFunc

	contests stepback.Names

	mu    sync.Mutex
	names map[string]*watched
}

// A watched is a name with those who wait for its release.
type watched struct {
	wakes []*wake
	left  chan struct{} // closed while nobody waits
	away  bool          // ZooKeeper does not watch the node, and is not asked to yet
	set   chan struct{} // closed while ZooKeeper watches the node, or the name is left to others for a moment
}

// A wake is the channel of one call of Watch.
type wake struct {
	ch     chan struct{}
	names  []string
	stop   func() bool
	closed bool
}

func newWatches(s *Store) *watches {
	w := &watches{store: s, names: map[string]*watched{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Watch implements store.Watcher.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := store.CheckNames(names); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	conn, err := s.backend.conns.get(ctx)
	if err != nil {
		return nil, wrap("watching", err)
	}
	if len(names) == 1 {
		s.watches.contests.Enter(names[0], ctx.Done())
	}
	one := &wake{ch: make(chan struct{}, 1), names: slices.Compact(slices.Sorted(slices.Values(names)))}
	all, err := s.watches.join(conn, one)
	if err != nil {
		return nil, err
	}
	for _, set := range all {
		select {
		case <-set:
		case <-ctx.Done():
			s.watches.end(one)
			return nil, wrap("watching", ctx.Err())
		case <-s.watches.ctx.Done():
			return nil, store.ErrClosed
		}
	}
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if !one.closed { // otherwise a watch could not be set: the closed channel says so
		one.stop = context.AfterFunc(ctx, func() { s.watches.end(one) })
	}
	return one.ch, nil
}

// join adds a wake to its names, and follows those that nobody has followed. It returns the channels that are closed when the watches are set.
func (w *watches) join(conn *zk.Conn, one *wake) (all []chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range one.names {
		of := w.names[name]
		if of == nil {
			of = &watched{set: make(chan struct{})}
			if w.ctx.Err() != nil || !w.store.backend.background(func() { w.follow(conn, name, of) }) {
				w.endLocked(one)
				return nil, store.ErrClosed
			}
			w.names[name] = of
		}
		if len(of.wakes) == 0 {
			of.left = make(chan struct{})
		}
		of.wakes = append(of.wakes, one)
		all = append(all, of.set)
	}
	return all, nil
}

// follow wakes those who wait for a name, until the node changes while nobody does, or the watch is lost.
func (w *watches) follow(conn *zk.Conn, name string, of *watched) {
	defer w.lose(name, of)
	var last casstore.Item
	for first := true; ; first = false {
		item, events, err := w.store.backend.watch(conn, name)
		if err != nil {
			return
		}
		w.store.See(item)
		w.contests.Saw(name, casstore.Writer(item))
		w.confirm(name, of, !first && casstore.Freed(last, item))
		last = item
		select {
		case event := <-events:
			if event.Err != nil || event.Type == zk.EventNotWatching || !w.stepBack(name, of) || !w.changed(name, of) {
				return
			}
		case <-w.ctx.Done():
			return
		}
	}
}

// watch reads a node and has ZooKeeper report when it changes, or is made.
func (b *backend) watch(conn *zk.Conn, name string) (casstore.Item, <-chan zk.Event, error) {
	node := b.tree.node(name)
	for {
		data, stat, events, err := conn.GetW(node)
		if err == nil {
			return itemOf(name, data, stat), events, nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return casstore.Item{}, nil, err
		}
		there, _, events, err := conn.ExistsW(node)
		if err != nil || !there {
			return casstore.Item{Name: name}, events, err
		}
	}
}

// stepBack leaves a name to others for a moment if its waiters were woken and had no luck. It returns false if nobody waits any more.
func (w *watches) stepBack(name string, of *watched) bool {
	w.mu.Lock()
	of.away = true
	left := of.left
	w.mu.Unlock()
	w.contests.Await(name, left)
	w.mu.Lock()
	defer w.mu.Unlock()
	of.away = false
	return w.names[name] == of
}

// confirm notes that ZooKeeper watches a name, and wakes those who wait for it if it was released before that.
func (w *watches) confirm(name string, of *watched, freed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(of.set)
	if freed && len(of.wakes) > 0 {
		w.contests.Woken(name)
	}
	for _, one := range of.wakes {
		if freed && !one.closed {
			select {
			case one.ch <- struct{}{}:
			default: // it has a value that has not been received
			}
		}
	}
}

// changed notes that ZooKeeper does not watch a name any more. It returns false if nobody waits for it.
func (w *watches) changed(name string, of *watched) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(of.wakes) == 0 {
		delete(w.names, name)
		return false
	}
	of.set = make(chan struct{})
	return true
}

// lose ends the wakes of a name that is not followed any more.
func (w *watches) lose(name string, of *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names[name] == of {
		delete(w.names, name)
	}
	for _, one := range slices.Clone(of.wakes) {
		w.endLocked(one)
	}
	select {
	case <-of.set:
	default:
		close(of.set)
	}
}

// end ends one wake.
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
		if of == nil || !slices.Contains(of.wakes, one) {
			continue
		}
		of.wakes = slices.DeleteFunc(slices.Clone(of.wakes), func(other *wake) bool { return other == one })
		if len(of.wakes) > 0 {
			continue
		}
		close(of.left)
		if of.away { // the next one to wait begins anew
			delete(w.names, name)
		}
	}
}

// close ends all watches and refuses new ones.
func (w *watches) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel()
	for _, of := range w.names {
		for _, one := range slices.Clone(of.wakes) {
			w.endLocked(one)
		}
	}
}
