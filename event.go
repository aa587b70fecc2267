package soloist

import (
	"context"
	"errors"
	"time"
)

// An Event is one thing that happened, for Config.Observe. Which fields are set depends on Kind.
type Event struct {
	Kind     EventKind
	Name     string        // the lock, job, element's job, semaphore or leadership; for a request its verb
	Token    int64         // of the lease, if there is one
	Size     int           // of a request's batch
	Duration time.Duration // of the request, run, or lease; never negative
	Delay    time.Duration // of a run: from its scheduled time to its start; never negative
	Missed   int           // how many scheduled times were missed; at most 1000 are counted
	Outcome  string        // of a run as in RunRecord.Outcome; of a request: "ok", "error" or "unknown"
	Err      error
}

// An EventKind says what an Event tells.
type EventKind string

// The kinds of events.
const (
	EventRequest  EventKind = "request"   // a batch went to the store and came back
	EventGranted  EventKind = "granted"   // a lease was granted
	EventReleased EventKind = "released"  // a lease was given back, or Err says why not; also one that was lost before
	EventLost     EventKind = "lost"      // a lease was lost: once for each, whether the clock, the store or its release showed it
	EventMissed   EventKind = "missed"    // scheduled times of a job were missed and are not run; reported by the replica that begins the next run
	EventRunStart EventKind = "run-start" // a run starts
	EventRunEnd   EventKind = "run-end"   // a run has ended, as Outcome says
	EventDiffers  EventKind = "differs"   // another replica that is alive has another definition of the job; Err names it
)

// The verbs of the store, as the names of request events.
const (
	VerbAcquire = "acquire"
	VerbChoose  = "choose" // an acquire of any one of several names, the permits of a semaphore
	VerbQueue   = "queue"  // an acquire that waits in the store's line; its duration is that of the wait
	VerbExtend  = "extend"
	VerbRelease = "release"
)

func (c *core) observe(e Event) {
	if c.cfg.Observe == nil {
		return
	}
	// The clock of leases is read at its early end and at its late one, and the wall clock can be set.
	e.Duration, e.Delay = max(0, e.Duration), max(0, e.Delay)
	c.cfg.Observe(e)
}

// observed tells Config.Observe of each call of a verb.
func observed[Q, A any](c *core, verb string, do func(context.Context, []Q) ([]A, error)) func(context.Context, []Q) ([]A, error) {
	if c.cfg.Observe == nil {
		return do
	}
	return func(ctx context.Context, asked []Q) ([]A, error) {
		start := time.Now()
		answers, err := do(ctx, asked)
		outcome := "ok"
		if errors.Is(err, ErrUnknown) {
			outcome = "unknown"
		} else if err != nil {
			outcome = "error"
		}
		c.observe(Event{Kind: EventRequest, Name: verb, Size: len(asked), Duration: time.Since(start), Outcome: outcome, Err: err})
		return answers, err
	}
}
