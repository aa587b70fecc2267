package oteltraces

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/soloist-dev/soloist"
)

// Middleware makes a span "run KIND" around each function that runs under a lease; each attempt at a run of a job has its own. The function's
// context carries it, so that the spans that it makes are its children. The function of a leader has none: it lasts until the leadership
// ends, and a trace must end sooner.
func (t *Traces) Middleware(next soloist.Handler) soloist.Handler {
	return func(ctx context.Context, work soloist.Work) (err error) {
		if work.Subject.Kind == soloist.KindLeader {
			return next(ctx, work)
		}
		ctx, span := t.tracer.Start(ctx, "run "+string(work.Subject.Kind))
		defer span.End()
		if !span.IsRecording() {
			return next(ctx, work)
		}
		how := soloist.OutcomePanicked // unless next returns
		defer func() {
			span.SetAttributes(append(worked(work), attrOutcome.String(how))...)
			switch {
			case err != nil:
				span.SetStatus(codes.Error, err.Error())
			case how == soloist.OutcomePanicked:
				span.SetStatus(codes.Error, "the function panicked")
			}
		}()
		err = next(ctx, work)
		how = outcome(ctx, err)
		return err
	}
}

// worked returns the attributes of work.
func worked(work soloist.Work) []attribute.KeyValue {
	attrs := about(work.Subject, work.Lease.Token())
	if work.Attempt > 0 {
		attrs = append(attrs, attrAttempt.Int(work.Attempt))
	}
	if !work.ScheduledAt.IsZero() {
		attrs = append(attrs, attrScheduled.String(work.ScheduledAt.Format(time.RFC3339Nano)), attrManual.Bool(work.Manual))
	}
	return attrs
}

// outcome returns how a function ended, in the words of the history of jobs.
func outcome(ctx context.Context, err error) string {
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return soloist.OutcomeOK
	case errors.Is(err, soloist.ErrInterrupted), errors.Is(cause, soloist.ErrInterrupted):
		return soloist.OutcomeInterrupted
	case errors.Is(cause, soloist.ErrLost) && !errors.Is(cause, soloist.ErrOverran):
		return soloist.OutcomeLost
	}
	return soloist.OutcomeFailed
}
