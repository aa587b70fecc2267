package demo

import (
	"context"
	"fmt"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
	"sync"
)

// A history is all that happened, in the order in which the director was told. It is safe for use by many goroutines at
// once.
type history struct {
	mu      sync.Mutex
	events  []event
	failed  error
	changed chan struct{} // closed at the next change; nil while nobody waits
}

// add notes an event, stamped unless that has been done.
func (h *history) add(e event) {
	if e.At == 0 {
		e.At = fleet.Now()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	h.change()
}

// fail ends all waiting, now and later: what is waited for will not come. The first failure stays.
func (h *history) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed == nil {
		h.failed = err
	}
	h.change()
}

func (h *history) change() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// all returns what has happened so far; nobody may change it.
func (h *history) all() []event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events[:len(h.events):len(h.events)]
}

// next returns what has happened so far, and a channel that is closed when that changes.
func (h *history) next() ([]event, <-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.events[:len(h.events):len(h.events)], h.changed, h.failed
}

// await waits until seen says that it has seen what it looks for. The error says what did not come.
func (h *history) await(ctx context.Context, what string, seen func([]event) bool) error {
	for {
		events, changed, failed := h.next()
		if seen(events) {
			return nil
		}
		if failed != nil {
			return fmt.Errorf("waiting for %s: %w", what, failed)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waited too long for %s: %w", what, context.Cause(ctx))
		}
	}
}

// find returns the first event that is wanted, and whether there is one.
func find(events []event, wanted func(event) bool) (event, bool) {
	for _, e := range events {
		if wanted(e) {
			return e, true
		}
	}
	return event{}, false
}

// count is how many events are wanted.
func count(events []event, wanted func(event) bool) int {
	n := 0
	for _, e := range events {
		if wanted(e) {
			n++
		}
	}
	return n
}
