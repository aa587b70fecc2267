package oteltraces

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/soloist-dev/soloist"
)

// scope is the name of the instrumentation.
const scope = "github.com/soloist-dev/soloist"

// The attributes of spans.
const (
	attrKind      = attribute.Key("soloist.kind") // lock, leader, permit, job or element
	attrName      = attribute.Key("soloist.name")
	attrParent    = attribute.Key("soloist.parent") // the job of an element, the semaphore of a permit
	attrToken     = attribute.Key("soloist.token")  // the fencing token
	attrHolder    = attribute.Key("soloist.holder") // of a refused call: who holds the name
	attrOutcome   = attribute.Key("soloist.outcome")
	attrAttempt   = attribute.Key("soloist.attempt")
	attrScheduled = attribute.Key("soloist.scheduled_at") // of a run, in RFC 3339
	attrManual    = attribute.Key("soloist.manual")       // of a run that was asked for by hand
	attrVerb      = attribute.Key("soloist.verb")         // of a request to the store
	attrSize      = attribute.Key("soloist.size")         // how many names a request is about
)

// Traces makes spans of the events and of the work of clients. Use both its methods: Observe as Config.Observe, and Middleware in
// Config.Middleware. Several clients of a process can share one. It is safe for concurrent use.
type Traces struct {
	tracer trace.Tracer
}

// New returns Traces whose spans are made by provider, for example otel.GetTracerProvider().
func New(provider trace.TracerProvider) *Traces {
	return &Traces{tracer: provider.Tracer(scope)}
}

// past makes a span of something that lasted for d and has just ended. With an error it has failed.
func (t *Traces) past(ctx context.Context, name string, d time.Duration, err error, kind trace.SpanKind, attrs []attribute.KeyValue) {
	end := time.Now()
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(end.Add(-d)), trace.WithSpanKind(kind))
	if span.IsRecording() {
		span.SetAttributes(attrs...)
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
	}
	span.End(trace.WithTimestamp(end))
}

// about returns the attributes that say what a lease is for.
func about(s soloist.Subject, token int64, more ...attribute.KeyValue) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 8)
	attrs = append(attrs, attrKind.String(string(s.Kind)), attrName.String(s.Name))
	if s.Parent != "" {
		attrs = append(attrs, attrParent.String(s.Parent))
	}
	if token != 0 {
		attrs = append(attrs, attrToken.Int64(token))
	}
	return append(attrs, more...)
}
