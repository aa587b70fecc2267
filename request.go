package soloist

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// limits bound requests. Requests that begin at about the same time share one limit: each request is bounded by between
// the timeout and 9/8 of it.
type limits struct {
	timeout time.Duration

	mu      sync.Mutex
	current *limit
	born    time.Time // when current was made
}

// A limit is a context that ends at an instant. It gets a timer when a store first waits for that; a store that only
// looks at the deadline needs none.
type limit struct {
	deadline time.Time

	once   sync.Once
	ctx    context.Context // which has the timer; nil before that
	end    context.CancelFunc
	isOver atomic.Bool
}

// from returns the limit of a request that begins now.
func (l *limits) from(now time.Time) *limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.born) > l.timeout/8 { // also if there is none
		l.born = now
		l.current = &limit{deadline: now.Add(l.timeout + l.timeout/8)}
	}
	return l.current
}

// timed returns the context that has the timer.
func (l *limit) timed() context.Context {
	l.once.Do(func() { l.ctx, l.end = context.WithDeadline(context.Background(), l.deadline) })
	return l.ctx
}

func (l *limit) Deadline() (time.Time, bool) { return l.deadline, true }

func (l *limit) Done() <-chan struct{} { return l.timed().Done() }

func (l *limit) Err() error {
	switch {
	case !time.Now().Before(l.deadline):
		return context.DeadlineExceeded
	case l.isOver.Load():
		return context.Canceled
	}
	return nil
}

func (l *limit) Value(any) any { return nil }

// AfterFunc is as that of a request.
func (l *limit) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(l.timed(), f) }

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// over ends the request that the limit is for, and stops the timer if there is one.
func (l *limit) over() {
	l.isOver.Store(true) // before Done is closed: a context that is done has an error
	l.once.Do(func() { l.ctx = ended })
	if l.end != nil {
		l.end()
	}
}

// A request is the context of one request: it ends with its caller's or at its limit.
type request struct {
	context.Context // the caller's
	limit           *limit

	mu    sync.Mutex
	done  chan struct{} // created when Done is called
	ended bool          // done is closed
	stop  [2]func() bool
}

func (r *request) Deadline() (time.Time, bool) {
	if caller, ok := r.Context.Deadline(); ok && caller.Before(r.limit.deadline) {
		return caller, true
	}
	return r.limit.deadline, true
}

func (r *request) Err() error {
	if err := r.Context.Err(); err != nil {
		return err
	}
	return r.limit.Err()
}

func (r *request) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = make(chan struct{})
		end := r.end
		r.stop = [...]func() bool{context.AfterFunc(r.Context, end), context.AfterFunc(r.limit, end)}
	}
	return r.done
}

// end closes done, which exists.
func (r *request) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.ended = true
		close(r.done)
	}
}

// AfterFunc lets context.AfterFunc call f when the request ends, without a goroutine that waits for that.
func (r *request) AfterFunc(f func()) (stop func() bool) {
	once := sync.OnceFunc(f)
	caller, limit := context.AfterFunc(r.Context, once), context.AfterFunc(r.limit, once)
	return func() bool {
		first := caller()
		return limit() && first
	}
}

// over stops what Done started. The request must not be used as a context after that.
func (r *request) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		return
	}
	for _, stop := range r.stop {
		stop()
	}
}
