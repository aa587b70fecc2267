package asynqadapter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hibiken/asynq"

	"github.com/soloist-dev/soloist"
)

// Periodic returns the function of a soloist.Job: for each run it enqueues the task that build returns, with opts and the ID
// that TaskID returns for the run. So a run that is repeated, because its replica died before the run was recorded, does not
// enqueue a second task while asynq knows the first one: until it is processed, and for asynq.Retention after that. With Once
// the task is processed once even if it is enqueued again later. The function returns an error if the task cannot be enqueued;
// Job.Retry applies to it.
func Periodic(c *asynq.Client, build func(soloist.Run) *asynq.Task, opts ...asynq.Option) func(context.Context, soloist.Run) error {
	return func(ctx context.Context, run soloist.Run) error {
		id := TaskID(run)
		_, err := c.EnqueueContext(ctx, build(run), append(slices.Clip(opts), asynq.TaskID(id))...)
		if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
			return fmt.Errorf("enqueuing task %q: %w", id, err)
		}
		return nil
	}
}

// TaskID returns the ID of the task of a run: the job and the scheduled time in UTC, such as
// "report@2026-01-02T03:04:05.000Z". It is the same in each attempt at the run.
func TaskID(run soloist.Run) string {
	return run.Job + "@" + run.ScheduledAt.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
