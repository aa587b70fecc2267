package etcdstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// When a request is looked after, and how often and for how long a member is asked then.
const (
	slowAfter   = time.Second
	askEvery    = 200 * time.Millisecond
	askPatience = time.Second
)

// errElected ends a request that may have been lost with a leader.
var errElected = errors.New("etcd has elected another leader while the request waited")

// elections ends requests that were sent before an election and have no reply after it. A member passes writes on to the leader that it knows. If that is dead they are lost,
// and the member reports that only after seven seconds with etcd's defaults.
type elections struct {
	term atomic.Uint64 // the latest that a member has told
}

// raise notes a term.
func (e *elections) raise(to uint64) {
	for known := e.term.Load(); to > known && !e.term.CompareAndSwap(known, to); {
		known = e.term.Load()
	}
}

// during calls do, and ends its context when another leader was elected since. ask returns the term that a member is in, 0 if it knows no leader in that. The error of what was
// ended says nothing of the outcome.
func (e *elections) during(ctx context.Context, do func(context.Context) error, ask func(context.Context) uint64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sent, ended := e.term.Load(), make(chan struct{})
	timer := time.AfterFunc(slowAfter, func() {
		defer close(ended)
		for ctx.Err() == nil {
			if term := e.ask(ctx, ask); sent == 0 {
				sent = term
			} else if term > sent {
				cancel(errElected)
			}
			pause(ctx, askEvery)
		}
	})
	err := do(ctx)
	elected := errors.Is(context.Cause(ctx), errElected)
	if cancel(nil); !timer.Stop() {
		<-ended
	}
	if err != nil && elected {
		return status.Error(codes.Unavailable, errElected.Error())
	}
	return err
}

// ask asks a member, and notes its term.
func (e *elections) ask(ctx context.Context, ask func(context.Context) uint64) uint64 {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	term := ask(ctx)
	e.raise(term)
	return term
}

// pause waits, or until a context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
