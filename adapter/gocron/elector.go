package gocronadapter

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/soloist-dev/soloist"
)

// ErrNotLeader is returned by Elector.IsLeader while another replica leads, or no replica does.
var ErrNotLeader = errors.New("this replica does not lead")

// An Elector is a gocron.Elector: only the scheduler of the leader runs jobs. It leads only while Run runs. It is safe
// for concurrent use.
//
// IsLeader is asked when a run begins. A run that is under way when the leadership is lost continues, unless the job
// heeds the Context of the Lease. If the leader changes close to a scheduled time, that time may be run by both leaders,
// because each uses its own clock, or by neither.
type Elector struct {
	client *soloist.Client
	name   string
	lease  atomic.Pointer[soloist.Lease] // nil if this replica does not lead
}

// NewElector returns an Elector on c for the leadership called name, for gocron.WithDistributedElector. All schedulers
// that run the same jobs need the same name. It sends no request. If the name is not valid, Run returns an error.
func NewElector(c *soloist.Client, name string) *Elector { return &Elector{client: c, name: name} }

// Run takes part in the election until ctx ends; then it gives up the leadership and returns nil. Errors are as in
// soloist.Client.Lead. End the scheduler with Shutdown before ctx, so that no other replica leads while a job runs here.
func (e *Elector) Run(ctx context.Context) error {
	return e.client.Lead(ctx, e.name, func(ctx context.Context, lease *soloist.Lease) error {
		e.lease.Store(lease)
		defer e.lease.Store(nil)
		<-ctx.Done()
		return nil
	})
}

// IsLeader returns nil if this replica certainly leads: its lease is live by the local clock. Otherwise it returns
// ErrNotLeader. It sends no request.
func (e *Elector) IsLeader(context.Context) error {
	if lease := e.lease.Load(); lease == nil || lease.Err() != nil {
		return ErrNotLeader
	}
	return nil
}

// Lease returns the lease of the leadership, or nil if this replica does not lead. A job stops when the lease's Context
// ends, and sends the lease's Token with its writes.
func (e *Elector) Lease() *soloist.Lease { return e.lease.Load() }
