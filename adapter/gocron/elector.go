package gocronadapter

import (
	"context"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/elected"
)

// An Elector is a gocron.Elector: only the scheduler of the leader runs jobs. It leads only while Run runs. It is safe
// for concurrent use.
//
// IsLeader is asked when a run begins. A run that is under way when the leadership is lost continues, unless the job
// heeds the Context of the Lease. If the leader changes close to a scheduled time, that time may be run by both leaders,
// because each uses its own clock, or by neither. End the scheduler with Shutdown before the context of Run ends, so that
// no other replica leads while a job runs here.
type Elector struct{ *elected.Elector }

// NewElector returns an Elector on c for the leadership called name, for gocron.WithDistributedElector. All schedulers
// that run the same jobs need the same name. It sends no request. If the name is not valid, Run returns an error.
func NewElector(c *soloist.Client, name string) *Elector { return &Elector{elected.New(c, name)} }

// IsLeader returns nil if this replica certainly leads: its lease is live by the local clock. Otherwise it returns
// elected.ErrNotLeader. It sends no request.
func (e *Elector) IsLeader(context.Context) error { return e.Check() }
