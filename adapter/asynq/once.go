package asynqadapter

import (
	"context"
	"errors"

	"github.com/hibiken/asynq"

	"github.com/soloist-dev/soloist"
)

// Once returns a middleware for asynq.ServeMux.Use: each task is processed once, as the element of e whose ID is the task's, or
// what id returns if it is not nil. The record is in the store, so it outlives what asynq remembers of the task.
//
// A task that was processed before is not passed on; the middleware returns nil, which is success to asynq. If another worker
// has it, the error is a *soloist.HeldError, and asynq tries again: give IsFailure to asynq.Config, so that this does not use up
// a retry. Other errors are those of soloist.Elements.Process: of the next handler, or of the store. A store that does not
// respond before the task began is an error, and the task is not processed. The context of the next handler ends when the lease
// of the element is lost; soloist.LeaseFrom finds the lease in it.
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
			ran := false
			err := e.Process(ctx, id(ctx, task), func(ctx context.Context, _ *soloist.Element) error {
				ran = true
				return next.ProcessTask(ctx, task)
			})
			if !ran && errors.Is(err, soloist.ErrDone) {
				return nil
			}
			return err
		})
	}
}

// IsFailure reports whether err counts as a failure of a task: every error but soloist.ErrHeld, which says that another worker
// has the task. It is for asynq.Config.
func IsFailure(err error) bool { return err != nil && !errors.Is(err, soloist.ErrHeld) }
