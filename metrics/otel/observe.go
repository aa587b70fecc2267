package oteltraces

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/soloist-dev/soloist"
)

// Observe makes a span of an event that ends something: "acquire KIND" of a call for a lease, "hold KIND" of a lease that somebody called for,
// and "store VERB" of a request that was made for one caller with a trace. It is for Config.Observe; it does not keep ctx.
func (t *Traces) Observe(ctx context.Context, e soloist.Event) {
	kind := string(e.Subject.Kind)
	called := kind != "" && e.Subject.Kind != soloist.KindJob // a job has no caller: its spans are those of its runs
	switch e.Kind {
	case soloist.EventRequest:
		if trace.SpanContextFromContext(ctx).IsValid() {
			t.past(ctx, "store "+e.Verb, e.Duration, e.Err, trace.SpanKindClient,
				[]attribute.KeyValue{attrVerb.String(e.Verb), attrSize.Int(e.Size), attrOutcome.String(e.Outcome)})
		}
	case soloist.EventGranted:
		if called {
			t.past(ctx, "acquire "+kind, e.Waited, nil, trace.SpanKindInternal, about(e.Subject, e.Token, attrOutcome.String("granted")))
		}
	case soloist.EventRefused:
		t.refused(ctx, e)
	case soloist.EventLost:
		if called {
			t.past(ctx, "hold "+kind, e.Duration, e.Err, trace.SpanKindInternal, about(e.Subject, e.Token, attrOutcome.String("lost: "+e.Outcome)))
		}
	case soloist.EventReleased:
		if called && !e.Lost {
			t.past(ctx, "hold "+kind, e.Duration, e.Err, trace.SpanKindInternal, about(e.Subject, e.Token, attrOutcome.String("released")))
		}
	}
}

// refused makes the span of a call that got no lease. A name that is held, an element that is done and a caller that gave up are no errors.
func (t *Traces) refused(ctx context.Context, e soloist.Event) {
	outcome, failure := "error", e.Err
	var held *soloist.HeldError
	switch {
	case errors.Is(e.Err, soloist.ErrHeld):
		outcome, failure = "held", nil
	case errors.Is(e.Err, soloist.ErrDone):
		outcome, failure = "done", nil
	case errors.Is(e.Err, soloist.ErrUnknown):
		outcome = "unknown"
	case errors.Is(e.Err, context.Canceled), errors.Is(e.Err, context.DeadlineExceeded):
		outcome, failure = "canceled", nil
	}
	attrs := about(e.Subject, 0, attrOutcome.String(outcome))
	if errors.As(e.Err, &held) && held.Holder != "" {
		attrs = append(attrs, attrHolder.String(held.Holder))
	}
	t.past(ctx, "acquire "+string(e.Subject.Kind), e.Waited, failure, trace.SpanKindInternal, attrs)
}
