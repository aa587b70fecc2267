package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/soloist-dev/soloist"
)

// A watcher reads the lists of the store again and again while somebody looks, once for all of them. Each list has its own pace: one that is long
// does not keep the others waiting.
type watcher struct {
	admin   *soloist.Admin
	closing context.Context

	mu      sync.Mutex
	last    *snapshot     // nil while nothing is read
	news    chan struct{} // closed when last is replaced
	used    time.Time     // when somebody looked last
	end     context.CancelFunc
	hurry   []chan struct{} // for each list: makes the next read begin at once
	readers map[*reader]struct{}
}

// A reader receives the changes between snapshots. Its channel is closed if it does not take them in time.
type reader struct {
	batches chan batch
	waiting []atomic.Int64 // how many of each list
}

func newReader() *reader {
	return &reader{make(chan batch, maxBatches*len(lists)), make([]atomic.Int64, len(lists))}
}

// put reports false for a reader that has too many batches of a list already. The watcher's mutex is held.
func (r *reader) put(b batch) bool {
	if r.waiting[b.list].Load() == maxBatches {
		return false
	}
	r.waiting[b.list].Add(1)
	r.batches <- b // there is room
	return true
}

// has notes that a batch has been received.
func (r *reader) has(b batch) { r.waiting[b.list].Add(-1) }

// A batch is the changes between two snapshots. Readers share it.
type batch struct {
	list   int
	whole  time.Time // up to when all has been read by the second one; zero if the reads of a list were all cut
	events []event
}

const (
	pollAtLeast = 500 * time.Millisecond // between two reads of a list
	pollShare   = 9                      // reading takes at most one part, and pausing this many
	pollAtMost  = 30 * time.Second       // however long that is
	pollIdle    = 30 * time.Second       // how long it goes on without anybody who looks
	readWithin  = 30 * time.Second
	maxBatches  = 8 // of each list, that wait for a slow reader
)

func newWatcher(closing context.Context, admin *soloist.Admin) *watcher {
	w := &watcher{admin: admin, closing: closing, news: make(chan struct{}), readers: map[*reader]struct{}{}}
	for range lists {
		w.hurry = append(w.hurry, make(chan struct{}, 1))
	}
	return w
}

// now returns what has been read so far, without waiting.
func (w *watcher) now() *snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
	if w.last == nil { // the server is closing
		return newSnapshot()
	}
	return w.last
}

// since returns a snapshot whose lists were all begun to be read at t or later. If ctx ends before there is one, it returns what has been read so
// far, and false.
func (w *watcher) since(ctx context.Context, t time.Time) (*snapshot, bool) {
	for {
		w.mu.Lock()
		w.look()
		last, news := w.last, w.news
		w.mu.Unlock()
		if last == nil {
			return newSnapshot(), false
		}
		there := true
		for i, list := range lists {
			if at := list.at(last); at.IsZero() || at.Before(t) {
				there = false
				select {
				case w.hurry[i] <- struct{}{}:
				default:
				}
			}
		}
		if there {
			return last, true
		}
		select {
		case <-news:
		case <-ctx.Done():
			return last, false
		case <-w.closing.Done():
			return last, false
		}
	}
}

// subscribe returns a snapshot of all lists, and a reader of all changes that come after it. If ctx ends before there is one, it reports false.
func (w *watcher) subscribe(ctx context.Context) (*reader, *snapshot, bool) {
	for {
		if _, there := w.since(ctx, time.Time{}); !there { // before there is a reader, who would have more batches by then than it can keep
			return nil, nil, false
		}
		w.mu.Lock()
		w.look()
		r, last := newReader(), w.last
		all := last != nil && !last.at().IsZero() // else nobody has looked since, and reading has begun anew
		if all {
			w.readers[r] = struct{}{}
		}
		w.mu.Unlock()
		if all {
			return r, last, true
		}
	}
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
	if w.last != nil || w.closing.Err() != nil {
		return
	}
	var ctx context.Context
	ctx, w.end = context.WithCancel(w.closing)
	w.last = newSnapshot()
	for i := range lists {
		go w.follow(ctx, i)
	}
}

// follow reads a list until ctx ends.
func (w *watcher) follow(ctx context.Context, i int) {
	for {
		begin := time.Now()
		within, cancel := context.WithTimeout(ctx, readWithin)
		put := lists[i].read(within, w.admin)
		cancel()
		took := time.Since(begin)
		w.publish(ctx, i, put)
		timer := time.NewTimer(min(max(pollAtLeast, pollShare*took), pollAtMost))
		select {
		case <-timer.C:
		case <-w.hurry[i]:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// publish makes a snapshot with another list the last one, and tells the readers what has changed. It ends reading if nobody has looked for long.
func (w *watcher) publish(ctx context.Context, list int, put func(*snapshot)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil { // the read may have been cut off
		return
	}
	before := w.last
	w.last = before.with(put)
	if len(w.readers) > 0 {
		w.tell(batch{list: list, whole: w.last.whole(), events: changes(before, w.last)})
	}
	close(w.news)
	w.news = make(chan struct{})
	if len(w.readers) == 0 && time.Since(w.used) > pollIdle {
		w.last = nil
		w.end()
	}
}

// tell sends a batch to all readers. The caller has the mutex.
func (w *watcher) tell(b batch) {
	if len(b.events) == 0 {
		return
	}
	for r := range w.readers {
		if !r.put(b) { // too slow
			close(r.batches)
			delete(w.readers, r)
		}
	}
}
