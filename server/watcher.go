package server

import (
	"context"
	"sync"
	"time"

	"github.com/soloist-dev/soloist"
)

// A watcher reads the store again and again while somebody looks, once for all of them.
type watcher struct {
	admin   *soloist.Admin
	closing context.Context

	mu      sync.Mutex
	last    *snapshot
	news    chan struct{} // closed when last is replaced
	used    time.Time     // when somebody looked last
	running bool
	now     chan struct{} // makes the next read begin at once
	readers map[*reader]struct{}
}

// A reader receives the changes between snapshots. Its channel is closed if it does not take them in time.
type reader struct {
	batches chan batch
}

// A batch is the changes between two snapshots. Readers share it.
type batch struct {
	at     time.Time
	events []event
}

const (
	pollAtLeast = 500 * time.Millisecond // between two reads
	pollShare   = 9                      // reading takes at most one part, and pausing this many
	pollIdle    = 30 * time.Second       // how long it goes on without anybody who looks
	readWithin  = 30 * time.Second
	maxBatches  = 8 // that wait for a slow reader
)

func newWatcher(closing context.Context, admin *soloist.Admin) *watcher {
	return &watcher{admin: admin, closing: closing, news: make(chan struct{}), now: make(chan struct{}, 1), readers: map[*reader]struct{}{}}
}

// since returns the newest snapshot, which was begun at t or later. If ctx ends before there is one, it returns the last one, which is nil if there is none.
func (w *watcher) since(ctx context.Context, t time.Time) *snapshot {
	for {
		w.mu.Lock()
		w.look()
		last, news := w.last, w.news
		w.mu.Unlock()
		if last != nil && !last.at.Before(t) {
			return last
		}
		select {
		case w.now <- struct{}{}:
		default:
		}
		select {
		case <-news:
		case <-ctx.Done():
			return last
		case <-w.closing.Done():
			return last
		}
	}
}

// subscribe returns a reader of all changes from now on.
func (w *watcher) subscribe() *reader {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &reader{make(chan batch, maxBatches)}
	w.readers[r] = struct{}{}
	w.look()
	return r
}

func (w *watcher) leave(r *reader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = time.Now()
	delete(w.readers, r)
}

// look notes that somebody looks. The caller has the mutex.
func (w *watcher) look() {
	w.used = time.Now()
	if !w.running && w.closing.Err() == nil {
		w.running = true
		go w.run()
	}
}

func (w *watcher) run() {
	for {
		ctx, cancel := context.WithTimeout(w.closing, readWithin)
		w.mu.Lock()
		before := w.last
		w.mu.Unlock()
		s := readSnapshot(ctx, w.admin, before)
		cancel()
		if !w.publish(s) {
			return
		}
		timer := time.NewTimer(max(pollAtLeast, pollShare*s.took))
		select {
		case <-timer.C:
		case <-w.now:
		case <-w.closing.Done():
		}
		timer.Stop()
	}
}

// publish makes a snapshot the last one, and tells the readers what has changed. It reports whether to go on.
func (w *watcher) publish(s *snapshot) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing.Err() != nil { // the read may have been cut off
		w.running = false
		return false
	}
	b := batch{at: s.at}
	if len(w.readers) > 0 {
		b.events = changes(w.last, s)
	}
	w.last = s
	close(w.news)
	w.news = make(chan struct{})
	for r := range w.readers {
		select {
		case r.batches <- b:
		default: // too slow
			close(r.batches)
			delete(w.readers, r)
		}
	}
	if len(w.readers) == 0 && time.Since(w.used) > pollIdle {
		w.running, w.last = false, nil
	}
	return w.running
}
