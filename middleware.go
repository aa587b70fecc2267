package soloist

import (
	"context"
	"slices"
	"time"
)

// A Subject describes what a lease is for.
type Subject struct {
	Kind   Kind
	Name   string // of the lock, leadership or job; an element's ID; a permit's number
	Parent string // the job of an element, the semaphore of a permit; else ""
}

// Work describes a function that runs under a lease: that of Do, Lead or Process, or one attempt at a run of a job.
type Work struct {
	Subject     Subject
	Attempt     int       // of a run or an element, from 1; else 0
	ScheduledAt time.Time // of a run, in UTC; else zero
	Manual      bool      // a run that Admin.Trigger requested
	Lease       *Lease
}

// A Handler executes work: it calls the next handler, and at last the user's function.
type Handler func(ctx context.Context, work Work) error

// Middleware wraps the handler of all work of a client, for example for traces and metrics. It runs while the lease is
// held. Its error counts as the error of the function, and its panic as a panic of the function. It must be safe for
// concurrent use.
type Middleware func(next Handler) Handler

// handle runs fn for work, inside Config.Middleware.
func (c *core) handle(ctx context.Context, work Work, fn func(context.Context) error) error {
	if len(c.cfg.Middleware) == 0 {
		return fn(ctx)
	}
	handler := Handler(func(ctx context.Context, _ Work) error { return fn(ctx) })
	for _, wrap := range slices.Backward(c.cfg.Middleware) {
		handler = wrap(handler)
	}
	return handler(ctx, work)
}
