package pgstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// defaultIdle is how long what was opened for watches is kept after the last one.
const defaultIdle = 10 * time.Second

// A hub has the watches of one handle, and the goroutine that learns of releases for all of them.
type hub struct {
	store    *Store
	idle     time.Duration
	patience time.Duration // with one look of the poller

	mu        sync.Mutex
	rows      map[string]map[chan struct{}]bool // by the row's name
	named     map[int64]string                  // the names of those rows, by what stands for them
	over      map[string]ending                 // the last end that was told, of rows that are or were watched
	listeners map[chan struct{}]func() bool     // stop waiting for the context of each watch
	of        map[chan struct{}][]string        // the rows of each watch
	closed    bool
	work      sync.WaitGroup

	listen  *listener // nil before the first watch, and where there is no listening
	cannot  error     // why notifications cannot reach this handle
	polling bool      // a poller is at work
	seen    map[string]sight
	hurry   chan struct{} // tells the poller of a new watch

	lines lines
}

func (h *hub) init(s *Store) {
	h.store, h.idle, h.patience = s, defaultIdle, listenTimeout
	h.rows, h.listeners, h.of = map[string]map[chan struct{}]bool{}, map[chan struct{}]func() bool{}, map[chan struct{}][]string{}
	h.named, h.over = map[int64]string{}, map[string]ending{}
	h.seen, h.hurry = map[string]sight{}, make(chan struct{}, 1)
}

// Watch is as in store.Watcher: by notifications, or where they cannot reach us by looking at all watched names, at intervals that grow
// from 10 ms to half a second.
func (s *Store) Watch(ctx context.Context, names []string) (<-chan struct{}, error) {
	if err := store.CheckNames(names); err != nil {
		return nil, err
	}
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	rows := make([]string, len(names))
	for i, name := range names {
		rows[i], _ = s.row(name)
	}
	wake, err := s.hub.add(ctx, rows)
	if err != nil {
		return nil, err
	}
	if err := s.hub.subscribe(ctx, rows); err != nil {
		s.hub.remove(wake)
		return nil, err
	}
	return wake, nil
}

// subscribe returns when a release of the rows from now on will be noticed.
func (h *hub) subscribe(ctx context.Context, rows []string) error {
	l, err := h.listens(ctx, rows)
	switch {
	case errors.Is(err, errGroupTaken), l == nil && err == nil:
		return h.poll(ctx, rows)
	}
	return err
}

// listens returns what listens, once it will be told of releases of the rows; nil if listening cannot work.
func (h *hub) listens(ctx context.Context, rows []string) (*listener, error) {
	for {
		l, err := h.listener()
		if l == nil || err != nil {
			return nil, err
		}
		err = l.listenFor(ctx, rows)
		switch {
		case errors.Is(err, errRested):
			h.drop(l)
		case errors.Is(err, errCannotListen):
			h.mu.Lock()
			defer h.mu.Unlock()
			h.listen, h.cannot = nil, err
			return nil, nil //nolint:nilnil // then the poller does it
		default:
			return l, err
		}
	}
}

// drop lets the next watch begin with a new listener.
func (h *hub) drop(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listen == l {
		h.listen = nil
	}
}

// listener returns what listens, started if need be; nil if listening cannot work.
func (h *hub) listener() (*listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, store.ErrClosed
	case h.cannot != nil || h.store.tables.cfg.Dialect == CockroachDB || h.store.tables.cfg.Listen == ListenOff:
		return nil, nil //nolint:nilnil // then the poller does it
	case h.listen == nil || h.listen.ended():
		h.listen = newListener(h)
		h.work.Go(h.listen.run)
	}
	return h.listen, nil
}

// add registers a watch, which ends with ctx.
func (h *hub) add(ctx context.Context, rows []string) (chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, store.ErrClosed
	}
	wake := make(chan struct{}, 1)
	for _, row := range rows {
		if h.rows[row] == nil {
			h.rows[row] = map[chan struct{}]bool{}
			h.named[standsFor(row)] = row
		}
		h.rows[row][wake] = true
	}
	h.of[wake] = rows
	h.listeners[wake] = context.AfterFunc(ctx, func() { h.remove(wake) })
	return wake, nil
}

// remove ends a watch, if it has not ended before.
func (h *hub) remove(wake chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	stop, there := h.listeners[wake]
	if !there {
		return
	}
	stop()
	close(wake)
	for _, row := range h.of[wake] {
		delete(h.rows[row], wake)
		if len(h.rows[row]) == 0 {
			delete(h.rows, row)
			delete(h.named, standsFor(row))
			delete(h.seen, row)
		}
	}
	delete(h.listeners, wake)
	delete(h.of, wake)
}

// lose ends the watches of rows: they will not learn of releases any more.
func (h *hub) lose(rows []string) {
	var lost []chan struct{}
	h.mu.Lock()
	for _, row := range rows {
		lost = slices.AppendSeq(lost, maps.Keys(h.rows[row]))
	}
	h.mu.Unlock()
	for _, wake := range lost {
		h.remove(wake)
	}
}

// watched returns the rows that somebody watches.
func (h *hub) watched() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.rows))
}

// wake wakes those who watch a row.
func (h *hub) wake(row string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakeLocked(row)
}

func (h *hub) wakeLocked(row string) {
	for wake := range h.rows[row] {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// overMost bounds how many rows a hub remembers that it does not watch any more.
const overMost = 4096

// An ending is the end of a lease, or a change of it, as seal_free.sql tells.
type ending struct{ token, at int64 }

// ended wakes those who watch a row when its lease is over or ends sooner. Tokens grow, and so does what fence.sql gives for the changes of one lease. So what
// somebody sends again who has read it wakes nobody.
func (h *hub) ended(w words) {
	h.mu.Lock()
	defer h.mu.Unlock()
	row, watched := h.named[w[0]]
	last, known := h.over[row]
	told := ending{token: w[1], at: w[2]}
	if !watched || w[3] != 0 || known && (told.token < last.token || told.token == last.token && told.at <= last.at) {
		return
	}
	if len(h.over) >= overMost {
		maps.DeleteFunc(h.over, func(row string, _ ending) bool { return h.rows[row] == nil })
	}
	h.over[row] = told
	h.wakeLocked(row)
}

// wakeAll wakes everybody: what was missed is not known.
func (h *hub) wakeAll() {
	for _, row := range h.watched() {
		h.wake(row)
	}
}

// released wakes those of this handle where no notification will.
func (h *hub) released(row string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.polling {
		h.wakeLocked(row)
	}
}

// close ends all watches and what learns of releases for them.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	wakes := slices.Collect(maps.Keys(h.listeners))
	h.mu.Unlock()
	for _, wake := range wakes {
		h.remove(wake)
	}
	h.work.Wait()
}
