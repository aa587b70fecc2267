package soloist

import (
	"context"
	"errors"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// An Event is one thing that happened, for Config.Observe. Which fields are set depends on Kind.
//
// Config.Observe gets a context beside it. For EventGranted and EventRefused it is the context of the call, for
// EventRunStart and EventRunEnd that of the function, and for EventReleased and EventLost that of the lease, which has
// ended. For EventRequest it is the context of the request, which has the caller's values if the request was made for
// one caller alone.
type Event struct {
	Kind    EventKind
	Subject Subject // of all but requests; without a Kind for a lease that the client needs itself, such as that of its replica
	Token   int64   // of the lease, if there is one

	Verb string // of a request
	Size int    // of a request's batch

	Attempt     int       // of a run, from 1
	ScheduledAt time.Time // of a run, in UTC
	Manual      bool      // a run that was asked for by hand

	Waited   time.Duration // from the call to the grant or refusal; never negative
	Duration time.Duration // of the request, run, or lease; never negative
	Delay    time.Duration // of a run: from its scheduled time to its start; never negative
	Missed   int           // how many scheduled times were missed; at most 1000 are counted
	Outcome  string        // of a run as in RunRecord.Outcome; of a request: "ok", "error" or "unknown"; of a loss: LossUnconfirmed and so on
	Lost     bool          // of a release: the lease was lost before, so EventLost and not this event is its end

	// Err is why a request, run or release failed, why a lease was lost, or why none was granted: a *HeldError, a *DoneError,
	// ErrUnknown, or the end of the context.
	Err error
}

// An EventKind is the kind of an Event.
type EventKind string

// The kinds of events.
const (
	EventRequest  EventKind = "request"   // a batch went to the store and came back
	EventGranted  EventKind = "granted"   // a lease was granted
	EventRefused  EventKind = "refused"   // a call to acquire a lease ended without one, see Err; not emitted for jobs
	EventReleased EventKind = "released"  // a lease was released, or could not be, see Err; also one that was lost before, see Lost
	EventLost     EventKind = "lost"      // a lease was lost: once for each, whether the clock, the store or its release revealed it
	EventMissed   EventKind = "missed"    // scheduled times of a job were missed and are not run; reported by the replica that begins the next run
	EventRunStart EventKind = "run-start" // a run starts
	EventRunEnd   EventKind = "run-end"   // a run has ended, see Outcome
	EventDiffers  EventKind = "differs"   // another live replica has another definition of the job; Err names it
)

// Why a lease was lost, the outcomes of EventLost.
const (
	LossUnconfirmed = "unconfirmed" // no renewal was confirmed in time
	LossGone        = "gone"        // the store does not have the lease any more
	LossOverran     = "overran"     // Options.AtMost ended it
	LossClosed      = "closed"      // the client was closed while a function ran under the lease
)

// lossOutcome returns the outcome of EventLost for the cause of a loss.
func lossOutcome(cause error) string {
	switch {
	case errors.Is(cause, ErrOverran):
		return LossOverran
	case errors.Is(cause, errUnconfirmed):
		return LossUnconfirmed
	case errors.Is(cause, ErrClosed):
		return LossClosed
	}
	return LossGone
}

// The verbs of requests.
const (
	VerbAcquire = "acquire"
	VerbChoose  = "choose" // an acquire of any one of several names, the permits of a semaphore
	VerbQueue   = "queue"  // an acquire that waits in the store's queue; its duration is that of the wait
	VerbExtend  = "extend"
	VerbRelease = "release"
)

func (c *core) observe(ctx context.Context, e Event) {
	if c.cfg.Observe == nil {
		return
	}
	// The clock of leases has an earliest and a latest reading, and the wall clock can be set, so differences can be below
	// zero.
	e.Waited, e.Duration, e.Delay = max(0, e.Waited), max(0, e.Duration), max(0, e.Delay)
	c.cfg.Observe(ctx, e)
}

// answered returns the results of a request for one claim. A refusal is an answer of the store, and not an error of the request.
func answered(grant store.Grant, err error) ([]store.Outcome, error) {
	if err != nil && !refused(err) {
		return nil, err
	}
	return []store.Outcome{{Grant: grant, Err: err}}, nil
}

// observed reports each call of a verb to Config.Observe.
func observed[Q, A any](c *core, verb string, do func(context.Context, []Q) ([]A, error)) func(context.Context, []Q) ([]A, error) {
	if c.cfg.Observe == nil {
		return do
	}
	return func(ctx context.Context, asked []Q) ([]A, error) {
		start := time.Now()
		answers, err := do(ctx, asked)
		c.observeRequest(ctx, verb, len(asked), start, err)
		return answers, err
	}
}

// observeRequest emits EventRequest.
func (c *core) observeRequest(ctx context.Context, verb string, size int, start time.Time, err error) {
	outcome := "ok"
	if errors.Is(err, ErrUnknown) {
		outcome = "unknown"
	} else if err != nil {
		outcome = "error"
	}
	c.observe(ctx, Event{Kind: EventRequest, Verb: verb, Size: size, Duration: time.Since(start), Outcome: outcome, Err: err})
}
