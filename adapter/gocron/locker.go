package gocronadapter

import (
	"context"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/soloist-dev/soloist"
)

// A Locker is a gocron.Locker: a job runs only while its scheduler holds the lock called like the job. Give each job a
// name with gocron.WithName: the default, the name of its function, may change with the code. A Locker is safe for
// concurrent use.
type Locker struct {
	client *soloist.Client

	mu   sync.Mutex
	held map[string]*soloist.Lease // by the name of the job
}

// NewLocker returns a Locker on c, for gocron.WithDistributedLocker.
//
// Each scheduler computes by its own clock when a job is due, and passes only its name to a Locker. So a scheduler that
// is late cannot know whether another one has run the time. Therefore the lock stays unavailable for hold, counted from
// its grant, even if the job is shorter. Hold must be longer than the time by which schedulers fire apart (clocks that
// differ, a process that is paused), and shorter than the interval between two scheduled times. A
// gocron.DurationJob counts from the start of its scheduler: give it gocron.WithStartAt, so that schedulers fire at the
// same times. If two schedulers fire further apart than hold, both run the job. In a store without a clock, a scheduler
// that sees the lock for the first time may begin a run up to hold late, or up to the TTL if the last holder died; see
// soloist.Options.Overdue.
//
// End the scheduler with Shutdown before closing c. The error is a *soloist.InvalidError if c is nil, or hold or the
// options of c together with it are not valid.
func NewLocker(c *soloist.Client, hold time.Duration) (*Locker, error) {
	switch {
	case c == nil:
		return nil, &soloist.InvalidError{What: "client", Value: "nil", Rule: "give a client of soloist.New"}
	case hold <= 0:
		return nil, &soloist.InvalidError{What: "hold", Value: hold.String(), Rule: "must be longer than the clocks of schedulers differ"}
	}
	c = c.With(soloist.Options{AtLeast: hold})
	if _, err := c.NewRunner(); err != nil { // it reports options that are not valid together
		return nil, err
	}
	return &Locker{client: c, held: map[string]*soloist.Lease{}}, nil
}

// Lock acquires the lock called key. It does not wait for a lock that is held. The errors are those of soloist.Client.TryLock: a
// *soloist.HeldError if another run has the lock, or had it less than the hold ago. Gocron then does not run the job,
// and passes the error to the listener of gocron.AfterLockError.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, err := l.client.TryLock(ctx, key)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[key] = lease
	return &lock{l, key, lease}, nil
}

// Lease returns the lease of the job of that name that this scheduler is running, or nil if it is not running it. Gocron
// cannot tell a job that its lock was lost. A job that must know stops when the lease's Context ends, and sends the
// lease's Token with its writes.
func (l *Locker) Lease(job string) *soloist.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[job]
}

// lock is a gocron.Lock.
type lock struct {
	of    *Locker
	key   string
	lease *soloist.Lease
}

// Unlock releases the lock. It has its own time limit: gocron cancels ctx before the last jobs of a scheduler have
// ended. Errors are as in soloist.Lease.Release; gocron ignores them.
func (k *lock) Unlock(context.Context) error {
	k.of.mu.Lock()
	if k.of.held[k.key] == k.lease {
		delete(k.of.held, k.key)
	}
	k.of.mu.Unlock()
	return k.lease.Release()
}
