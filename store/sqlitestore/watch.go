package sqlitestore

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// watchInterval is how often the file is asked whether somebody has committed, while there are watches.
const watchInterval = 5 * time.Millisecond

// watches are those of one handle. One goroutine looks for all of them, while there are any.
type watches struct {
	mu        sync.Mutex
	names     map[string]*watched
	listeners map[chan struct{}]listener
	looking   bool
	closed    bool
	looks     sync.WaitGroup
}

// A watched is a name with those who listen for its release.
type watched struct {
	seen  sight
	wakes map[chan struct{}]struct{}
}

// A listener is what one call of Watch asked for.
type listener struct {
	names []string
	stop  func() bool // stops waiting for its context
}

// A sight is what a release changes about a record.
type sight struct {
	token    int64
	released bool
}

// A change says that somebody else has committed: it differs from the last one.
type change struct {
	file    *file
	version int64
}

// Watch is as in store.Watcher.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := s.alive(ctx); err != nil {
		return nil, s.at(err)
	}
	names = slices.Clone(names)
	var first change
	var seen map[string]sight
	err := s.view(ctx, func(f *file, c *conn) (err error) {
		if first, err = f.change(c); err == nil {
			seen, err = c.sights(names, f.clock.now())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	wake, start, err := s.watches.add(ctx, names, seen)
	if start {
		go s.poll(first)
	}
	return wake, err
}

// poll wakes the listeners of names that have been released, until there are none, or the file cannot be read.
func (s *Store) poll(last change) {
	w := &s.watches
	defer w.looks.Done()
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
		}
		if w.idle() {
			return
		}
		now, seen, err := s.changes(last)
		if err != nil {
			w.end()
			continue
		}
		last = now
		w.saw(seen)
	}
}

// changes answers how the names look if somebody has committed since last, and the change to ask about next. The names
// are asked for after the change, so that one added in between is not missed.
func (s *Store) changes(last change) (now change, seen map[string]sight, err error) {
	err = s.view(s.ctx, func(f *file, c *conn) (err error) {
		if now, err = f.change(c); err == nil && now != last {
			seen, err = c.sights(s.watches.wanted(), f.clock.now())
		}
		return err
	})
	return now, seen, err
}

func (f *file) change(c *conn) (change, error) {
	var version int64
	err := c.row(sqlVersion, nil, &version)
	return change{f, version}, err
}

func (c *conn) sights(names []string, now int64) (map[string]sight, error) {
	seen := make(map[string]sight, len(names))
	for _, name := range names {
		r, err := c.record(name, false, now)
		if err != nil && !corrupt(err, new(error)) {
			return nil, err
		}
		seen[name] = sight{} // forgotten: it was released, and then swept before anybody looked
		if r != nil {
			seen[name] = sight{r.token, r.released}
		}
	}
	return seen, nil
}

// add subscribes to names until ctx ends; start says that nobody looks yet.
func (w *watches) add(ctx context.Context, names []string, seen map[string]sight) (wake chan struct{}, start bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, false, store.ErrClosed
	}
	if w.listeners == nil {
		w.names, w.listeners = map[string]*watched{}, map[chan struct{}]listener{}
	}
	wake = make(chan struct{}, 1)
	for _, name := range names {
		if w.names[name] == nil {
			w.names[name] = &watched{seen[name], map[chan struct{}]struct{}{}}
		}
		w.names[name].wakes[wake] = struct{}{}
	}
	w.listeners[wake] = listener{names, context.AfterFunc(ctx, func() { w.remove(wake) })}
	if start = !w.looking; start {
		w.looking = true
		w.looks.Add(1)
	}
	return wake, start, nil
}

// remove ends a subscription, if it has not ended before.
func (w *watches) remove(wake chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, there := w.listeners[wake]
	if !there {
		return
	}
	l.stop()
	close(wake)
	delete(w.listeners, wake)
	for _, name := range l.names {
		if of := w.names[name]; of != nil {
			delete(of.wakes, wake)
			if len(of.wakes) == 0 {
				delete(w.names, name)
			}
		}
	}
}

// idle says that there is nothing to look for; whoever looks then stops.
func (w *watches) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looking = len(w.names) > 0
	return !w.looking
}

// wanted answers the names to look for.
func (w *watches) wanted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.names))
}

// saw wakes the listeners of the names that look otherwise than before.
func (w *watches) saw(sights map[string]sight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, now := range sights {
		if of := w.names[name]; of != nil && of.seen != now {
			of.seen = now
			of.wake()
		}
	}
}

// wake wakes the listeners of a name that this handle has released.
func (w *watches) wake(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if of := w.names[name]; of != nil {
		of.wake()
	}
}

func (w *watched) wake() {
	for wake := range w.wakes {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// end closes all subscriptions.
func (w *watches) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for wake, l := range w.listeners {
		l.stop()
		close(wake)
	}
	clear(w.listeners)
	clear(w.names)
}

// close ends all subscriptions and refuses new ones.
func (w *watches) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.end()
	w.looks.Wait()
}
