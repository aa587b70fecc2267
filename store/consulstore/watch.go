package consulstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/stepback"
)

// watches follow names with blocking queries. Consul replies when the value of a key has been changed, renewals too. All that wait for a name share one query. After a release all
// processes that wait claim the name; those that are refused let some changes pass before they ask again, if they are many.
type watches struct {
	store  *Store
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	contests stepback.Names

	mu    sync.Mutex
	names map[string]*watched
}

// A watched is a name that is followed.
type watched struct {
	wakes  []*wake
	set    chan struct{} // closed when the name was read for the first time, or could not be
	err    error         // why it could not be
	cancel context.CancelFunc
}

// A wake is the channel of one call of Watch.
type wake struct {
	ch     chan struct{}
	names  []string
	stop   func() bool
	closed bool
}

const (
	// mostWatched is how many names one store follows. Each costs a connection, and an agent accepts 200 from all processes of a machine, unless it is configured otherwise.
	mostWatched = 64
	// blockFor is how long Consul waits for a change before it replies. It adds up to a sixteenth of that.
	blockFor = 60 * time.Second
	// patience is how much later the reply may come. A connection that is gone without a word is noticed then.
	patience = 15 * time.Second
	// quiet is the pause after a reply that brings nothing new.
	quiet = 50 * time.Millisecond
)

// errTooMany is also errors.ErrUnsupported, so that the caller polls.
var errTooMany = fmt.Errorf("consulstore: watching: this process waits for %d names already: %w", mostWatched, errors.ErrUnsupported)

func newWatches(s *Store) *watches {
	w := &watches{store: s, names: map[string]*watched{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Watch implements store.Watcher. A store follows up to 64 names; more than that are errors.ErrUnsupported.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := store.CheckNames(names); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if err := s.backend.check(ctx); err != nil {
		return nil, err
	}
	if len(names) == 1 {
		s.watches.contests.Enter(names[0], ctx.Done())
	}
	one := &wake{ch: make(chan struct{}, 1), names: slices.Compact(slices.Sorted(slices.Values(names)))}
	all, err := s.watches.join(one)
	if err != nil {
		return nil, err
	}
	for _, of := range all {
		select {
		case <-of.set:
			if of.err != nil { // which has ended this one
				return nil, wrap("watching", of.err)
			}
		case <-ctx.Done():
			s.watches.end(one)
			return nil, wrap("watching", ctx.Err())
		}
	}
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if !one.closed { // otherwise the watch was lost meanwhile: the closed channel says so
		one.stop = context.AfterFunc(ctx, func() { s.watches.end(one) })
	}
	return one.ch, nil
}

// join adds a wake to its names, and follows those that nobody has followed.
func (w *watches) join(one *wake) (all []*watched, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return nil, store.ErrClosed
	}
	added := 0
	for _, name := range one.names {
		if w.names[name] == nil {
			added++
		}
	}
	if len(w.names)+added > mostWatched {
		return nil, errTooMany
	}
	for _, name := range one.names {
		of := w.names[name]
		if of == nil {
			of = &watched{set: make(chan struct{})}
			var ctx context.Context
			ctx, of.cancel = context.WithCancel(w.ctx)
			w.names[name] = of
			w.work.Go(func() { w.follow(ctx, name, of) })
		}
		of.wakes = append(of.wakes, one)
		all = append(all, of)
	}
	return all, nil
}

// follow wakes those who wait for a name, until nobody does, or a query fails.
func (w *watches) follow(ctx context.Context, name string, of *watched) {
	var last casstore.Item
	index := uint64(0)
	for first := true; ; first = false {
		began := time.Now()
		item, now, err := w.store.backend.block(ctx, name, index)
		if err != nil {
			w.lose(of, err)
			return
		}
		w.store.See(item)
		w.contests.Saw(name, casstore.Writer(item))
		if first {
			w.ready(of)
		} else if now < index || casstore.Freed(last, item) {
			w.contests.Woken(name)
			w.wake(of)
			w.contests.Await(name, ctx.Done())
		}
		if !first && item.Version == last.Version && now != 0 {
			pause(ctx, quiet-time.Since(began))
		}
		if last = item; now < index { // the datacenter was restored, say
			now = 0
		}
		index = now
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// block returns the item of a name, and the index of Consul up to which it is known, when that is greater than another one, or after some time. With the index 0 it reads
// at once.
func (b *backend) block(ctx context.Context, name string, index uint64) (casstore.Item, uint64, error) {
	query := url.Values{"consistent": {""}}
	if index > 0 {
		query = url.Values{"index": {strconv.FormatUint(index, 10)}, "wait": {blockFor.String()}}
	}
	ctx, cancel := context.WithTimeout(ctx, blockFor+blockFor/16+patience)
	defer cancel()
	key := keyOf(b.cfg.Prefix, name)
	r, err := b.do(ctx, http.MethodGet, b.path(key), b.scoped(query), nil, http.StatusNotFound)
	if err != nil {
		return casstore.Item{}, 0, err
	}
	now, err := strconv.ParseUint(r.header.Get("X-Consul-Index"), 10, 64)
	if err != nil || now == 0 {
		return casstore.Item{}, 0, nonsense("its index is %.30q", r.header.Get("X-Consul-Index"))
	}
	if r.status == http.StatusNotFound {
		return casstore.Item{Name: name}, now, nil
	}
	var entries []entry
	if err := json.Unmarshal(r.body, &entries); err != nil || len(entries) != 1 || entries[0].Key != key {
		return casstore.Item{}, 0, nonsense("it does not have the key %q alone", key)
	}
	return b.item(name, entries[0]), now, nil
}

// ready lets those continue who have joined a name before it was read.
func (w *watches) ready(of *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(of.set)
}

// wake wakes those who wait for a name.
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

// lose ends the wakes of a name that is not followed any more.
func (w *watches) lose(of *watched, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-of.set:
	default:
		of.err = err
		close(of.set)
	}
	for _, one := range slices.Clone(of.wakes) { // with the last one the name is not followed any more
		w.endLocked(one)
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
		if of == nil {
			continue
		}
		of.wakes = slices.DeleteFunc(slices.Clone(of.wakes), func(other *wake) bool { return other == one })
		if len(of.wakes) == 0 { // its query ends, and the next one to wait begins anew
			of.cancel()
			delete(w.names, name)
		}
	}
}

// close ends all watches and refuses new ones, and returns when their queries have ended.
func (w *watches) close() {
	w.mu.Lock()
	w.cancel()
	for _, of := range w.names {
		for _, one := range slices.Clone(of.wakes) {
			w.endLocked(one)
		}
	}
	w.mu.Unlock()
	w.work.Wait()
}
