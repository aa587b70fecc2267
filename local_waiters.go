package soloist

import (
	"context"
	"slices"
	"sync"
)

// localWaiters holds the goroutines of this client that wait for a lease, by what they wait for, in the order in which
// they called.
type localWaiters struct {
	mu   sync.Mutex
	of   map[string][]*localWaiter
	busy map[string]bool // names that other clients held when this client last asked for them
}

// A localWaiter is one goroutine that waits. Only the first waiter for the same thing asks the store.
type localWaiter struct {
	all         *localWaiters
	name        string
	head        chan struct{} // closed when it is the first; nil if it was when it joined
	wake        chan struct{} // receives a value when this client has released the name
	predecessor *Lease        // the lease of the waiter before it, if it got one; set before head is closed
}

func (all *localWaiters) join(name string) *localWaiter {
	w := &localWaiter{all: all, name: name, wake: make(chan struct{}, 1)}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.of == nil {
		all.of = map[string][]*localWaiter{}
	}
	if len(all.of[name]) > 0 {
		w.head = make(chan struct{})
	}
	all.of[name] = append(all.of[name], w)
	return w
}

// untilFirst waits until w is the first of its queue. It reports false if ctx or client ended before.
func (w *localWaiter) untilFirst(ctx, client context.Context) bool {
	if w.head == nil {
		return true
	}
	select {
	case <-w.head:
		return true
	default:
	}
	select {
	case <-w.head:
		return true
	case <-ctx.Done():
	case <-client.Done():
	}
	return false
}

// tellNext passes to the next waiter of the queue which lease it waits for. The first waiter calls it before it leaves the
// queue.
func (w *localWaiter) tellNext(l *Lease) {
	all := w.all
	all.mu.Lock()
	defer all.mu.Unlock()
	if waiting := all.of[w.name]; l != nil && len(waiting) > 1 {
		waiting[1].predecessor = l
	}
}

// held returns the refusal for w while it waits for earlier waiters, or for the lease that one of them got.
func (w *localWaiter) held(t target) *HeldError {
	w.all.mu.Lock()
	l := w.predecessor
	w.all.mu.Unlock()
	held := &HeldError{Kind: t.kind, Name: t.shown}
	if l != nil {
		held.Holder, held.Token, held.Left = l.holder, l.token, l.Left()
	}
	return held
}

// busy reports whether other clients held the name when this client last asked for it. Then it is best to enter the
// store's queue, or to watch the name, before asking.
func (w *localWaiter) busy() bool {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	return w.all.busy[w.name]
}

func (w *localWaiter) setBusy(is bool) {
	all := w.all
	all.mu.Lock()
	defer all.mu.Unlock()
	switch {
	case !is:
		delete(all.busy, w.name)
	case all.busy == nil || len(all.busy) >= maxBusy:
		all.busy = map[string]bool{w.name: true} // each forgotten name costs one more request
	default:
		all.busy[w.name] = true
	}
}

// maxBusy bounds what is remembered of names that were busy.
const maxBusy = 10_000

func (w *localWaiter) leave() {
	all := w.all
	all.mu.Lock()
	defer all.mu.Unlock()
	waiting := all.of[w.name]
	i := slices.Index(waiting, w)
	waiting = slices.Delete(waiting, i, i+1)
	if len(waiting) == 0 {
		delete(all.of, w.name)
		return
	}
	all.of[w.name] = waiting
	if i == 0 {
		close(waiting[0].head)
	}
}

// released wakes the first local waiter for name, because this client has released it.
func (all *localWaiters) released(name string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if waiting := all.of[name]; len(waiting) > 0 {
		select {
		case waiting[0].wake <- struct{}{}:
		default:
		}
	}
}
