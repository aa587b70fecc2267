package soloist

import (
	"context"
	"slices"
	"sync"
)

// queues hold those who wait in this client, by what they wait for, in the order they came.
type queues struct {
	mu   sync.Mutex
	of   map[string][]*turn
	busy map[string]bool // what others had when this client last asked for it
}

// A turn is one waiter's place. The first of its queue may ask the store.
type turn struct {
	queues *queues
	name   string
	head   chan struct{} // closed when it has become the first
	wake   chan struct{} // told when this client has released the name
	behind *Lease        // what the waiter before got, if it did; set before head is closed
}

func (q *queues) join(name string) *turn {
	t := &turn{queues: q, name: name, head: make(chan struct{}), wake: make(chan struct{}, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of == nil {
		q.of = map[string][]*turn{}
	}
	q.of[name] = append(q.of[name], t)
	if len(q.of[name]) == 1 {
		close(t.head)
	}
	return t
}

// first waits until t is the first of its queue, and says false when ctx or client ended before.
func (t *turn) first(ctx, client context.Context) bool {
	select {
	case <-t.head:
		return true
	default:
	}
	select {
	case <-t.head:
		return true
	case <-ctx.Done():
	case <-client.Done():
	}
	return false
}

// got tells the next of the queue which lease it stands behind. The first of the queue calls it before it leaves.
func (t *turn) got(l *Lease) {
	q := t.queues
	q.mu.Lock()
	defer q.mu.Unlock()
	if waiting := q.of[t.name]; l != nil && len(waiting) > 1 {
		waiting[1].behind = l
	}
}

// busy says that others had the name when this client last asked for it, so that it is best to stand in the store's line at once.
func (t *turn) busy() bool {
	t.queues.mu.Lock()
	defer t.queues.mu.Unlock()
	return t.queues.busy[t.name]
}

func (t *turn) setBusy(is bool) {
	q := t.queues
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !is:
		delete(q.busy, t.name)
	case q.busy == nil || len(q.busy) >= maxBusy:
		q.busy = map[string]bool{t.name: true} // to have forgotten costs one request each
	default:
		q.busy[t.name] = true
	}
}

// maxBusy bounds what is remembered of names that were busy.
const maxBusy = 10_000

func (t *turn) leave() {
	q := t.queues
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.of[t.name]
	i := slices.Index(waiting, t)
	waiting = slices.Delete(waiting, i, i+1)
	if len(waiting) == 0 {
		delete(q.of, t.name)
		return
	}
	q.of[t.name] = waiting
	if i == 0 {
		close(waiting[0].head)
	}
}

// released tells the first of those who wait for name that this client has given it back.
func (q *queues) released(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if waiting := q.of[name]; len(waiting) > 0 {
		select {
		case waiting[0].wake <- struct{}{}:
		default:
		}
	}
}
