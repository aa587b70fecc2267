package prommetrics

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/soloist-dev/soloist"
)

// Observe counts an event. It is for Config.Observe; it does not block, and does not keep ctx.
func (m *Metrics) Observe(_ context.Context, e soloist.Event) {
	if e.Subject.Kind == "" {
		e.Subject.Kind = kindInternal
	}
	kind := string(e.Subject.Kind)
	switch e.Kind {
	case soloist.EventRequest:
		m.requests.WithLabelValues(e.Verb, e.Outcome).Observe(e.Duration.Seconds())
		m.batchSize.WithLabelValues(e.Verb).Observe(float64(e.Size))
	case soloist.EventGranted:
		m.held.WithLabelValues(kind).Inc()
		m.acquired(e, acquireGranted)
	case soloist.EventRefused:
		m.acquired(e, refusal(e.Err))
	case soloist.EventLost:
		m.held.WithLabelValues(kind).Dec()
		m.lost.WithLabelValues(kind, e.Outcome).Inc()
	case soloist.EventReleased:
		if !e.Lost {
			m.held.WithLabelValues(kind).Dec()
		}
	case soloist.EventMissed, soloist.EventRunStart, soloist.EventRunEnd:
		m.run(m.taskOf(e.Subject.Name), e)
	}
}

// acquired counts a call for a lease. Only the leases that are asked for have a caller that waits.
func (m *Metrics) acquired(e soloist.Event, outcome string) {
	kind := string(e.Subject.Kind)
	m.acquires.WithLabelValues(kind, outcome).Inc()
	if slices.Contains(askedFor, e.Subject.Kind) {
		m.waits.WithLabelValues(kind).Observe(e.Waited.Seconds())
	}
}

// run counts an event of a job.
func (m *Metrics) run(task string, e soloist.Event) {
	switch e.Kind {
	case soloist.EventMissed:
		m.missed.WithLabelValues(task).Add(float64(e.Missed))
		setNow(m.lastMissed.WithLabelValues(task))
	case soloist.EventRunStart:
		m.beginTask(task)
		if e.Attempt == 1 { // a later one starts after those before it and their pauses
			m.startDelay.WithLabelValues(task).Observe(e.Delay.Seconds())
		}
	case soloist.EventRunEnd:
		m.runs.WithLabelValues(task, e.Outcome).Inc()
		m.runDuration.WithLabelValues(task).Observe(e.Duration.Seconds())
		switch e.Outcome {
		case soloist.OutcomeOK:
			setNow(m.lastSuccess.WithLabelValues(task))
		case soloist.OutcomeFailed, soloist.OutcomePanicked:
			setNow(m.lastFailure.WithLabelValues(task))
		}
	}
}

// setNow sets a gauge to the time, in seconds since 1970.
func setNow(g prometheus.Gauge) { g.Set(float64(time.Now().UnixMilli()) / 1000) }

// The outcomes of a call for a lease.
const (
	acquireGranted  = "granted"
	acquireHeld     = "held"     // another holder had the name until the caller gave up
	acquireDone     = "done"     // the element is processed already
	acquireUnknown  = "unknown"  // the store did not respond
	acquireCanceled = "canceled" // the caller's context ended before the store had refused
	acquireError    = "error"    // anything else: the store has failed, or the client is closed
)

// refusal returns the outcome of a call that got no lease.
func refusal(err error) string {
	switch {
	case errors.Is(err, soloist.ErrHeld):
		return acquireHeld
	case errors.Is(err, soloist.ErrDone):
		return acquireDone
	case errors.Is(err, soloist.ErrUnknown):
		return acquireUnknown
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return acquireCanceled
	}
	return acquireError
}
