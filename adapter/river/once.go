package riveradapter

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/soloist-dev/soloist"
)

// Once returns a middleware for river.Config.Middleware: each job is worked once, as the element of e whose ID is the job's, or
// what id returns if it is not nil: for example a key of its arguments, so that two jobs with the same key are worked once. The
// record is in the store, so it outlives the job's row.
//
// A job that was worked before is not passed on; the middleware returns nil, and River completes it. If another worker has the
// element, the job is snoozed until that worker's lease would end, for a second at least; that costs no attempt. Other errors
// are those of soloist.Elements.Process: of the worker, or of the store. If the store does not respond before the work began,
// the job is not worked, and River retries it. The context of the worker ends when the lease of the element is lost;
// soloist.LeaseFrom finds the lease in it.
//
// The Stop of River's client must return before the client of e is closed.
func Once(e *soloist.Elements, id func(job *rivertype.JobRow) string) rivertype.WorkerMiddleware {
	if id == nil {
		id = func(job *rivertype.JobRow) string { return strconv.FormatInt(job.ID, 10) }
	}
	return river.WorkerMiddlewareFunc(func(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
		ran := false
		err := e.Process(ctx, id(job), func(ctx context.Context, _ *soloist.Element) error {
			ran = true
			return work(ctx)
		})
		var held *soloist.HeldError
		switch {
		case ran:
			return err
		case errors.Is(err, soloist.ErrDone):
			return nil
		case errors.As(err, &held):
			return river.JobSnooze(max(held.Left, time.Second))
		}
		return err
	})
}
