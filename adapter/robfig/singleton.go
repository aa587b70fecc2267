package robfig

import (
	"context"
	"errors"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/store"
)

// Singleton returns a wrapper that runs a job only while c holds the lock called name. If another replica holds it, or
// held it less than hold ago, the wrapped job does nothing and returns. Use one name for one job: jobs of the same name
// exclude each other.
//
// Each replica's Cron fires by its own clock, and does not pass the scheduled time to a wrapper. So a replica that fires
// late cannot know whether another one has run the time. Therefore the lock stays unavailable for hold, counted from its
// grant, even if the job is shorter. Hold must be longer than the time by which replicas fire apart (clocks that differ,
// a process that is paused), and shorter than the interval between two scheduled times. If two replicas fire further
// apart than hold, both run the job. If a replica dies during a run, no other one runs that time; the lock is free after
// the TTL. In a store without a clock, a replica that sees the lock for the first time may begin a run up to hold late, or
// up to the TTL if the last holder died; see soloist.Options.Overdue. With Parse or Schedule, a run is identified by its scheduled time: it does not matter how far apart replicas
// fire, and another replica takes over the run of one that died.
//
// A cron.Job has no context, so it cannot be told that its lease was lost: it continues to run, and another replica may
// run it too. When the job has returned, the wrapper reports the loss to logger as an error. It also logs an error if the
// job was not run because the store did not respond, and an information if another replica has the lock. If the job panics, the wrapper releases the lock
// and panics with a *soloist.PanicError, for cron.Recover.
//
// Options.Wait of c must not be set: a replica would wait for the others and then run the job again. Before closing c,
// wait for the jobs: <-cron.Stop().Done(). The error is a *soloist.InvalidError if name, hold, or the options of c
// together with hold are not valid, and if c or logger is nil.
func Singleton(c *soloist.Client, name string, hold time.Duration, logger cron.Logger) (cron.JobWrapper, error) {
	switch {
	case c == nil:
		return nil, &soloist.InvalidError{What: "client", Value: "nil", Rule: "give a client of soloist.New"}
	case logger == nil:
		return nil, &soloist.InvalidError{What: "logger", Value: "nil", Rule: "give a logger, such as cron.DefaultLogger"}
	case hold <= 0:
		return nil, &soloist.InvalidError{What: "hold", Value: hold.String(), Rule: "must be longer than the clocks of replicas differ"}
	}
	if err := store.CheckName(name); err != nil {
		return nil, err
	}
	c = c.With(soloist.Options{AtLeast: hold})
	if _, err := c.NewRunner(); err != nil { // it reports options that are not valid together
		return nil, err
	}
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			err := c.Do(context.Background(), name, func(context.Context, *soloist.Lease) error {
				job.Run()
				return nil
			})
			report(logger, name, err)
		})
	}, nil
}

// report passes on how a run has ended.
func report(logger cron.Logger, name string, err error) {
	var held *soloist.HeldError
	var panicked *soloist.PanicError
	switch {
	case err == nil:
	case errors.As(err, &panicked):
		panic(panicked)
	case errors.As(err, &held):
		logger.Info("skip", "job", name, "holder", held.Holder)
	default:
		logger.Error(err, "singleton", "job", name)
	}
}
