package soloist

import (
	"context"
	"sync"
	"time"
)

// limits returns contexts that bound requests. Requests that begin at about the same time share one context and so one
// timer: each request is bounded by between the timeout and 9/8 of it.
type limits struct {
	timeout time.Duration

	mu      sync.Mutex
	current context.Context
	born    time.Time
	end     context.CancelFunc // of current; it ends by its deadline
}

func (l *limits) context(now time.Time) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil || now.Sub(l.born) > l.timeout/8 {
		l.born = now
		l.current, l.end = context.WithDeadline(context.Background(), now.Add(l.timeout+l.timeout/8))
	}
	return l.current
}

// A request is the context of one request: it ends with its caller's or with its limit.
type request struct {
	context.Context // the caller's
	limit           context.Context

	mu    sync.Mutex
	done  chan struct{} // created when Done is called
	ended bool          // done is closed
	stop  [2]func() bool
}

func (r *request) Deadline() (time.Time, bool) {
	limit, _ := r.limit.Deadline()
	if caller, ok := r.Context.Deadline(); ok && caller.Before(limit) {
		return caller, true
	}
	return limit, true
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
