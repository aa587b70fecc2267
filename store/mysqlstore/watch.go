package mysqlstore

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// While there are watches, their names are looked at by one goroutine, in one request for all: the sooner again the more has happened
// lately. A waiter learns of a release a twentieth of the time later that it has waited, at least watchLeast and at most watchMost. A
// release by this handle wakes at once.
const (
	watchLeast    = 2 * time.Millisecond
	watchMost     = 50 * time.Millisecond
	watchFraction = 20
)

// watches are those of one handle.
type watches struct {
	mu        sync.Mutex
	names     map[string]*watched // by the name of the row
	listeners map[chan struct{}]listener
	lively    time.Time // when something last happened
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

// A sight is what a release changes about a record, be it one by ShedLock. A name without a row is the zero sight.
type sight struct {
	token    int64
	released bool
	free     bool
}

// Watch is as in store.Watcher.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := s.alive(ctx); err != nil {
		return nil, s.explain(err)
	}
	rows := make([]string, len(names))
	for i, name := range names {
		rows[i] = s.row(name)
	}
	slices.Sort(rows)
	rows = slices.Compact(rows)
	seen, err := s.sights(ctx, rows)
	if err != nil {
		return nil, err
	}
	wake, start, err := s.watches.add(ctx, rows, seen)
	if start {
		go s.poll()
	}
	return wake, err
}

// poll wakes the listeners of names that have been released, until there are none, or the names cannot be read.
func (s *Store) poll() {
	w := &s.watches
	defer w.looks.Done()
	for {
		pause(s.ctx, w.interval())
		if w.idle() {
			return
		}
		seen, err := s.sights(s.ctx, w.wanted())
		if err != nil {
			w.end()
			continue
		}
		w.saw(seen)
	}
}

func (s *Store) sights(ctx context.Context, names []string) (map[string]sight, error) {
	type named struct {
		name string
		sight
	}
	seen := make(map[string]sight, len(names))
	for part := range slices.Chunk(names, maxBatch) {
		rows := make([][]cell, len(part))
		for i, name := range part {
			rows[i] = []cell{bytesCell(name)}
		}
		found, err := look(ctx, s, s.text(sqlSights, batch(claimColumns[:1], rows, 0)), func(rows *sql.Rows) (n named, err error) {
			return n, rows.Scan(&n.name, &n.token, &n.released, &n.free)
		})
		if err != nil {
			return nil, err
		}
		for _, name := range part {
			seen[name] = sight{}
		}
		for _, n := range found {
			seen[n.name] = n.sight
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
	w.lively = time.Now()
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

// interval is how long to wait before the next look.
func (w *watches) interval() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return min(max(time.Since(w.lively)/watchFraction, watchLeast), watchMost)
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
			w.lively = time.Now()
		}
	}
}

// wake wakes the listeners of a name that this handle has released.
func (w *watches) wake(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if of := w.names[name]; of != nil {
		of.wake()
		w.lively = time.Now()
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
