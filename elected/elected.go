// Package elected answers requests on the leader only: an Elector takes part in an election, and its Handler passes requests on while this
// replica leads.
package elected

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/soloist-dev/soloist"
)

// ErrNotLeader is returned by Elector.Check while another replica leads, or no replica does.
var ErrNotLeader = errors.New("this replica does not lead")

// An Elector takes part in the election of a leader. It leads only while Run runs. It is safe for concurrent use.
type Elector struct {
	client *soloist.Client
	name   string
	lease  atomic.Pointer[soloist.Lease] // nil if this replica does not lead
}

// New returns an Elector on c for the leadership called name, the same on all replicas. It sends no request. If the name is not valid, Run
// returns an error.
func New(c *soloist.Client, name string) *Elector { return &Elector{client: c, name: name} }

// Run takes part in the election until ctx ends; then it gives up the leadership and returns nil. Errors are as in soloist.Client.Lead. What
// uses the leadership must end before ctx does, so that no other replica leads meanwhile.
func (e *Elector) Run(ctx context.Context) error {
	return e.client.Lead(ctx, e.name, func(ctx context.Context, lease *soloist.Lease) error {
		e.lease.Store(lease)
		defer e.lease.Store(nil)
		<-ctx.Done()
		return nil
	})
}

// Check returns nil if this replica certainly leads: its lease is live by the local clock. Otherwise it returns ErrNotLeader. It sends no
// request.
func (e *Elector) Check() error {
	if lease := e.lease.Load(); lease == nil || lease.Err() != nil {
		return ErrNotLeader
	}
	return nil
}

// Lease returns the lease of the leadership, or nil if this replica does not lead. Work stops when the lease's Context ends, and sends the
// lease's Token with its writes.
func (e *Elector) Lease() *soloist.Lease { return e.lease.Load() }

// Leading returns a context that ends with ctx, and when the leadership does; soloist.LeaseFrom finds the lease in it. The caller calls stop when it no
// longer needs the context. If this replica does not certainly lead, the error is ErrNotLeader. It sends no request.
func (e *Elector) Leading(ctx context.Context) (leader context.Context, stop func(), err error) {
	lease := e.lease.Load()
	if lease == nil || lease.Err() != nil {
		return nil, nil, ErrNotLeader
	}
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(lease.Context(), func() { cancel(context.Cause(lease.Context())) })
	return leading{ctx, lease}, func() { forget(); cancel(nil) }, nil
}

// Handler returns a handler that passes requests on to next while this replica leads. Otherwise it responds with 503 and Retry-After: 1, and next is
// not called: a load balancer, or the client, tries another replica. The context of a request that was passed on is that of Leading.
func (e *Elector) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, stop, err := e.Leading(r.Context())
		if err != nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer stop()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// leading is the context of work on the leader, in which the lease is found, too: also if the caller's context has another one.
type leading struct {
	context.Context
	lease *soloist.Lease
}

func (l leading) Value(key any) any {
	own := l.lease.Context().Value(key)
	if own == any(l.lease) {
		return own
	}
	if value := l.Context.Value(key); value != nil {
		return value
	}
	return own
}
