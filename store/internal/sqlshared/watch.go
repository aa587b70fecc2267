package sqlshared

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Watches are the watches of one handle of a store whose database does not report releases. While there are any, one goroutine looks at all of their
// names, in one request. A Sight is what a release changes about a name, and the zero value is a name without a record: it was released,
// and forgotten before anybody looked. Watches are safe for concurrent use.
type Watches[Sight comparable] struct {
	ctx   context.Context // of the handle
	pause func(quiet time.Duration) time.Duration

	mu        sync.Mutex
	names     map[string]*watched[Sight]
	listeners map[chan struct{}]listener
	lively    time.Time // when a watch began or a name changed
	looking   bool
	closed    bool
	looks     sync.WaitGroup
}

// A watched is a name with those who listen for its release.
type watched[Sight comparable] struct {
	seen  Sight
	wakes map[chan struct{}]struct{}
}

// A listener is what one call of Add asked for.
type listener struct {
	names []string
	stop  func() bool // stops waiting for its context
}

// A Look returns how names look now; what has not changed since the last look may be left out. It must call names only once it would see whatever
// is committed from then on: so a name that is added in between is not missed. An error ends all watches. The context of a look ends when the handle is closed, and after a few seconds:
// on a connection to a server that is gone without a word, nothing ever comes.
type Look[Sight comparable] func(ctx context.Context, names func() []string) (map[string]Sight, error)

// patience is how long one look may take.
const patience = 5 * time.Second

// NewWatches returns the watches of a handle whose context is ctx. pause returns how long to wait before the next look when nothing has
// happened for so long.
func NewWatches[Sight comparable](ctx context.Context, pause func(quiet time.Duration) time.Duration) *Watches[Sight] {
	return &Watches[Sight]{ctx: ctx, pause: pause, names: map[string]*watched[Sight]{}, listeners: map[chan struct{}]listener{}}
}

// Add subscribes to names, which look as in seen, until ctx ends. If nobody looks at names yet, look does from now on. The error is
// store.ErrClosed after Close.
func (w *Watches[Sight]) Add(ctx context.Context, names []string, seen map[string]Sight, look Look[Sight]) (<-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, store.ErrClosed
	}
	wake := make(chan struct{}, 1)
	for _, name := range names {
		if w.names[name] == nil {
			w.names[name] = &watched[Sight]{seen[name], map[chan struct{}]struct{}{}}
		}
		w.names[name].wakes[wake] = struct{}{}
	}
	w.listeners[wake] = listener{names, context.AfterFunc(ctx, func() { w.remove(wake) })}
	w.lively = time.Now()
	if !w.looking {
		w.looking = true
		w.looks.Go(func() { w.poll(look) })
	}
	return wake, nil
}

// remove ends a subscription, if it has not ended before.
func (w *Watches[Sight]) remove(wake chan struct{}) {
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

// poll looks at the names until there are none.
func (w *Watches[Sight]) poll(look Look[Sight]) {
	timer := time.NewTimer(w.interval())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-w.ctx.Done():
			w.end()
		}
		if w.idle() {
			return
		}
		ctx, cancel := context.WithTimeout(w.ctx, patience)
		if seen, err := look(ctx, w.wanted); err != nil {
			w.end()
		} else {
			w.saw(seen)
		}
		cancel()
		timer.Reset(w.interval())
	}
}

// interval is how long to wait before the next look.
func (w *Watches[Sight]) interval() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pause(time.Since(w.lively))
}

// idle reports that there is nothing to look at. The goroutine that looks must end then.
func (w *Watches[Sight]) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looking = len(w.names) > 0
	return !w.looking
}

// wanted returns the names to look at.
func (w *Watches[Sight]) wanted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.names))
}

// saw wakes the listeners of the names that look otherwise than before.
func (w *Watches[Sight]) saw(sights map[string]Sight) {
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

// Wake wakes the listeners of a name that this handle has released.
func (w *Watches[Sight]) Wake(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if of := w.names[name]; of != nil {
		of.wake()
		w.lively = time.Now()
	}
}

func (w *watched[Sight]) wake() {
	for wake := range w.wakes {
		select {
		case wake <- struct{}{}:
		default: // it has a value that has not been received
		}
	}
}

// end closes all subscriptions.
func (w *Watches[Sight]) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for wake, l := range w.listeners {
		l.stop()
		close(wake)
	}
	clear(w.listeners)
	clear(w.names)
}

// Close ends all subscriptions and refuses new ones. The handle's context must have ended: a look under way then ends, too.
func (w *Watches[Sight]) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.end()
	w.looks.Wait()
}
