package asynqadapter

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/soloist-dev/soloist"
)

// Once returns a middleware for asynq.ServeMux.Use: each task is processed once, as the element of e whose ID is the task's, or
// what id returns if it is not nil. The record is in the store, so it outlives what asynq remembers of the task.
//
// A task that was processed before is not passed on; the middleware returns nil, which is success to asynq. If another worker
// has it, the error is a *soloist.HeldError, and asynq tries again: give IsFailure to asynq.Config, so that this does not use up
// a retry. Asynq archives a task without a retry left whatever the error, so the middleware then waits instead, until the task
// is free or its context ends. The same is true of a task that failed, for the Retry.Backoff of e.
//
// Other errors are those of soloist.Elements.Process: of the next handler, or of the store. A store that does not respond before
// the task began is an error, and the task is not processed. The context of the next handler ends when the lease of the element
// is lost; soloist.LeaseFrom finds the lease in it.
//
// The server's Shutdown must return before the client of e is closed.
func Once(e *soloist.Elements, id func(ctx context.Context, task *asynq.Task) string) asynq.MiddlewareFunc {
	if id == nil {
		id = func(ctx context.Context, _ *asynq.Task) string {
			id, _ := asynq.GetTaskID(ctx)
			return id
		}
	}
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			for {
				held, err := process(ctx, e, id(ctx, task), func(ctx context.Context) error { return next.ProcessTask(ctx, task) })
				switch {
				case held == nil:
					return err
				case !last(ctx) || !wait(ctx, held.Left):
					return &heldError{held}
				}
			}
		})
	}
}

// process calls do for an element, unless that is processed. It returns who has it if another worker has.
func process(ctx context.Context, e *soloist.Elements, id string, do func(context.Context) error) (held *soloist.HeldError, err error) {
	ran := false
	err = e.Process(ctx, id, func(ctx context.Context, _ *soloist.Element) error {
		ran = true
		return do(ctx)
	})
	switch {
	case ran:
		return nil, err
	case errors.Is(err, soloist.ErrDone):
		return nil, nil
	}
	errors.As(err, &held)
	return held, err
}

// A heldError is how Once says that another worker has a task. The error of a handler that found a lock held is an ordinary one.
type heldError struct{ *soloist.HeldError }

func (e *heldError) Unwrap() error { return e.HeldError }

// last reports whether asynq has no retry left for the task of ctx.
func last(ctx context.Context) bool {
	retried, ok := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	return ok && retried >= most
}

// wait waits until an element may be free, which can be earlier than is known. It returns false if ctx ends.
func wait(ctx context.Context, left time.Duration) bool {
	timer := time.NewTimer(min(max(left, 100*time.Millisecond), time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// IsFailure reports whether err counts as a failure of a task: every error does, unless Once returned it because another worker has
// the task. It is for asynq.Config.
func IsFailure(err error) bool {
	var held *heldError
	return err != nil && !errors.As(err, &held)
}
