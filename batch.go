package soloist

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A batcher combines the calls of many goroutines into batches for one verb of the store. If no request of the verb is
// in flight, a call is sent immediately and alone. Calls that arrive while a request is in flight form the next batch.
// So an idle client adds no delay, and a busy one needs one round trip for many calls.
type batcher[Q, A any] struct {
	do     func(ctx context.Context, asked []Q) ([]A, error)
	late   func(asked []Q, answers []A, at time.Time) // receives the results of a call that was made at an instant and whose caller has given up; may be nil
	limit  int                                        // elements per batch
	limits *limits

	mu        sync.Mutex
	flights   int       // batches in flight
	company   int       // how many calls that could be sent alone look for others first
	since     time.Time // when the newest of them was sent
	queue     []*call[Q, A]
	relief    *time.Timer // runs relieve; nil before the first call that had to wait
	relieving bool        // whether the timer is set
}

type call[Q, A any] struct {
	asked  []Q
	answer []A
	err    error
	done   chan struct{}
}

// A batch that is in flight for longer than stalled does not delay those behind it: another may be sent beside it, up
// to maxFlights.
const (
	stalled    = 100 * time.Millisecond
	maxFlights = 4
)

// sociable is how many calls look for others before they are sent alone, after several have shared a request. It is more than one, for now and then the
// scheduler runs a goroutine apart from the others that were woken with it.
const sociable = 8

// ask sends the elements of asked and returns the result of each. The error applies to all of them. If ctx ends before
// the outcome is known, the error is ErrUnknown.
func (b *batcher[Q, A]) ask(ctx context.Context, asked []Q) ([]A, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := time.Now()
	c := b.queued(asked, now)
	if c == nil {
		if c = b.join(asked); c == nil {
			defer b.land()
			return b.alone(ctx, asked, now)
		}
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
				b.late(asked, c.answer, now)
			}
		}()
	}
	return nil, store.AsUnknown(ctx.Err())
}

// alone sends one call as a request.
func (b *batcher[Q, A]) alone(ctx context.Context, asked []Q, now time.Time) ([]A, error) {
	limit := b.limits.from(now)
	if ctx.Done() == nil {
		return b.do(limit, asked)
	}
	r := &request{Context: ctx, limit: limit}
	defer r.over()
	return b.do(r, asked)
}

// queued returns the call that was queued for asked, or nil if asked is the first of the next request.
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

// join returns the call for asked, which is the first of a request, if it is sent with others; nil if it is to be sent
// alone. Where calls share requests, the reply to one makes many goroutines ready to run at the same time. The first that
// asks lets the others ask, too, which costs it no time if there are none.
func (b *batcher[Q, A]) join(asked []Q) *call[Q, A] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.company > 0 {
		b.company--
		b.mu.Unlock()
		runtime.Gosched()
		b.mu.Lock()
	}
	if len(b.queue) == 0 {
		return nil
	}
	c := &call[Q, A]{asked: asked, done: make(chan struct{})}
	b.queue = slices.Insert(b.queue, 0, c)
	go b.fly(b.board())
	return c
}

// hurry sends the queued calls if the batch in flight has stalled, or sets the timer for when it will have. b.mu is
// held.
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

// withdraw removes a call that has not been sent yet, and reports whether it did.
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

// land ends a flight and sends the queued calls, if there are any.
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
	if n > 1 {
		b.company = sociable
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
	answers, err := b.do(b.limits.from(time.Now()), asked)
	for _, c := range batch {
		if c.err = err; err == nil {
			c.answer, answers = answers[:len(c.asked):len(c.asked)], answers[len(c.asked):]
		}
		close(c.done)
	}
}
