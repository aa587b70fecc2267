package soloist

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A batcher turns the calls of many goroutines into batches for one verb of the store. A call that finds the verb idle
// goes at once and alone; calls that arrive while one is in flight form the next batch. So an idle client adds no delay
// and a busy one needs one trip for many.
type batcher[Q, A any] struct {
	do     func(ctx context.Context, asked []Q) ([]A, error)
	late   func(asked []Q, answers []A) // gets the answer to a call whose caller has gone; may be nil
	limit  int                          // elements per batch
	limits *limits

	mu        sync.Mutex
	flights   int       // batches in flight
	since     time.Time // when the youngest of them left
	queue     []*call[Q, A]
	relief    *time.Timer // runs relieve; nil before the first call that had to wait
	relieving bool        // it is set
}

type call[Q, A any] struct {
	asked  []Q
	answer []A
	err    error
	done   chan struct{}
}

// A batch in flight for longer than stalled does not hold up those behind it: another may leave beside it, to maxFlights.
const (
	stalled    = 100 * time.Millisecond
	maxFlights = 4
)

// ask answers each element of asked. The error is that of all of them. When ctx ends with the outcome open, the error is
// ErrUnknown.
func (b *batcher[Q, A]) ask(ctx context.Context, asked []Q) ([]A, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := time.Now()
	c := b.queued(asked, now)
	if c == nil {
		defer b.land()
		return b.alone(ctx, asked, now)
	}
	select {
	case <-c.done:
		return c.answer, c.err
	case <-ctx.Done():
	}
	if b.withdraw(c) {
		return nil, ctx.Err()
	}
	if b.late != nil {
		go func() {
			<-c.done
			if c.err == nil {
				b.late(asked, c.answer)
			}
		}()
	}
	return nil, store.AsUnknown(ctx.Err())
}

// alone makes a request of one call.
func (b *batcher[Q, A]) alone(ctx context.Context, asked []Q, now time.Time) ([]A, error) {
	limit := b.limits.context(now)
	if ctx.Done() == nil {
		return b.do(limit, asked)
	}
	r := &request{Context: ctx, limit: limit}
	defer r.over()
	return b.do(r, asked)
}

// queued answers the call that has been queued for asked, or nil when asked may leave at once.
func (b *batcher[Q, A]) queued(asked []Q, now time.Time) *call[Q, A] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flights == 0 {
		b.flights++
		b.since = now
		return nil
	}
	c := &call[Q, A]{asked: asked, done: make(chan struct{})}
	b.queue = append(b.queue, c)
	b.hurry(now)
	return c
}

// hurry lets those who wait leave beside a batch that has stalled, or looks again when it will have. b.mu is held.
func (b *batcher[Q, A]) hurry(now time.Time) {
	switch {
	case len(b.queue) == 0 || b.flights >= maxFlights:
	case now.Sub(b.since) >= stalled:
		b.flights++
		go b.fly(b.board())
	case b.relieving:
	case b.relief == nil:
		b.relieving, b.relief = true, time.AfterFunc(stalled-now.Sub(b.since), b.relieve)
	default:
		b.relieving = true
		b.relief.Reset(stalled - now.Sub(b.since))
	}
}

func (b *batcher[Q, A]) relieve() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.relieving = false
	b.hurry(time.Now())
}

// withdraw takes back a call that has not left yet.
func (b *batcher[Q, A]) withdraw(c *call[Q, A]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.queue, c)
	if i < 0 {
		return false
	}
	b.queue = slices.Delete(b.queue, i, i+1)
	return true
}

// land ends a flight and lets the queue leave, if there is one.
func (b *batcher[Q, A]) land() {
	b.mu.Lock()
	if len(b.queue) == 0 {
		b.flights--
		b.mu.Unlock()
		return
	}
	batch := b.board()
	b.mu.Unlock()
	go b.fly(batch)
}

// board takes the calls of the next batch off the queue. A call is never split. b.mu is held.
func (b *batcher[Q, A]) board() []*call[Q, A] {
	n, size := 0, 0
	for n < len(b.queue) && (n == 0 || size+len(b.queue[n].asked) <= b.limit) {
		size += len(b.queue[n].asked)
		n++
	}
	batch := slices.Clone(b.queue[:n])
	b.queue = slices.Delete(b.queue, 0, n)
	b.since = time.Now()
	return batch
}

func (b *batcher[Q, A]) fly(batch []*call[Q, A]) {
	defer b.land()
	var asked []Q
	for _, c := range batch {
		asked = append(asked, c.asked...)
	}
	answers, err := b.do(b.limits.context(time.Now()), asked)
	for _, c := range batch {
		if c.err = err; err == nil {
			c.answer, answers = answers[:len(c.asked):len(c.asked)], answers[len(c.asked):]
		}
		close(c.done)
	}
}
