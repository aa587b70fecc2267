package soloist

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/soloist-dev/soloist/cron"
	"github.com/soloist-dev/soloist/store"
)

// A Job is a function that one replica of the fleet runs at each scheduled time.
type Job struct {
	// Name identifies the job in the fleet.
	Name string

	// Description is a text for lists, such as the command that the job runs. At most 1,000 bytes are kept.
	Description string

	// Schedule defines when the job is due: a cron expression (package cron), Every, Delay, or At. An H in an expression
	// is a hash of Name.
	Schedule Schedule

	// Do is the function that is run, each time in a new goroutine. Its context ends when the lease is lost, when AtMost
	// is reached, and, after Config.Drain, on shutdown. A panic is recovered and recorded as a failure, and so is
	// runtime.Goexit.
	Do func(ctx context.Context, run Run) error

	// TTL, Margin, AtLeast and AtMost are as in Options; zero inherits the client's. If the job sets a TTL without a
	// Margin, the Margin is a tenth of that. TTL bounds how long after the death of a replica another takes its run over.
	// AtMost includes the retries. Scheduled times less than AtLeast after one that was run are done with it.
	TTL, Margin, AtLeast, AtMost time.Duration

	// Jitter delays each run by between 0 and Jitter. The delay depends on the job's name and the scheduled time alone, so
	// all replicas agree, and jobs that are due together do not all start together. The scheduled time does not change.
	// The default is 0. It must be at most store.MaxTTL.
	Jitter time.Duration

	// Missed is the policy for scheduled times that no replica claimed within Grace. Grace counts from the end of the
	// jitter. Its default is 1 minute, and it must be at most store.MaxTTL. A Delay misses no times.
	Missed    Missed
	MissedCap int // how many of them MissedAll runs at most, the newest ones; 0 means 100
	Grace     time.Duration

	// Crash is the policy for a run whose replica died, or was cut off from the store, before the run ended.
	Crash Crash

	// Retry bounds the attempts at a run. The replica holds the lease between them. With Attempts 0, a run that returns an
	// error is not retried, and a crashed one is always taken over. Otherwise Attempts bounds both together. ErrOverran is
	// never retried. Options that contradict each other, such as a Backoff without Attempts, are an *InvalidError.
	Retry Retry
}

const defaultGrace = time.Minute

// Missed is a policy for scheduled times that no replica claimed within Job.Grace.
type Missed int

// The policies. Whatever the policy, scheduled times that are not missed are run one after the other, oldest first.
const (
	MissedSkip Missed = iota // none of them is run
	MissedOnce               // the newest of them is run, for all
	MissedAll                // each of them is run, oldest first, up to Job.MissedCap
)

func (m Missed) String() string { return word(int(m), "skip", "once", "all") }

// Crash is a policy for runs whose replica died.
type Crash int

// The policies.
const (
	CrashTakeOver Crash = iota // another replica runs it: at least once
	CrashGiveUp                // no replica does: at most once. It costs one more request before each run.
)

func (c Crash) String() string { return word(int(c), "take-over", "give-up") }

func word(i int, words ...string) string {
	if i < 0 || i >= len(words) {
		return strconv.Itoa(i)
	}
	return words[i]
}

// A Run describes one execution of a job to its function.
type Run struct {
	Job         string
	ScheduledAt time.Time // when it was due, in UTC; for a manual run, when it was requested
	Attempt     int       // number of the attempt at this scheduled time, from 1; it grows when the run is retried, or taken over from a replica that died, and not when one that ended had interrupted it
	Manual      bool      // requested by Admin.Trigger
	Lease       *Lease    // under which it runs, and which ends when the function returns; its Token is the fencing token
}

func (j Job) filled(opts Options) (Job, Options, error) {
	fail := func(err error) (Job, Options, error) { return j, opts, fmt.Errorf("job %q: %w", j.Name, err) }
	if j.Schedule == nil {
		return fail(invalid("schedule", "nil", "give a cron expression, Every, Delay or At"))
	}
	if s, ok := j.Schedule.(interface{ check() error }); ok {
		if err := s.check(); err != nil {
			return fail(err)
		}
	}
	switch s := j.Schedule.(type) {
	case *cron.Expression:
		named, err := s.For(j.Name)
		if err != nil {
			return fail(err)
		}
		j.Schedule = named
	case every, delay, at:
	default:
		j.Schedule = custom{s}
	}
	if j.Do == nil {
		return fail(invalid("Do", "nil", "give the function to run"))
	}
	opts, err := Options{TTL: j.TTL, Margin: j.Margin, AtLeast: j.AtLeast, AtMost: j.AtMost}.over(opts).resolved()
	if err != nil {
		return fail(err)
	}
	if j.Retry, err = j.Retry.filled(); err != nil {
		return fail(err)
	}
	if err := j.checkPolicies(); err != nil {
		return fail(err)
	}
	if j.MissedCap == 0 {
		j.MissedCap = 100
	}
	if j.Grace == 0 {
		j.Grace = defaultGrace
	}
	j.Grace += j.Jitter // it counts from when a run may start
	return j, opts, nil
}

func (j Job) checkPolicies() error {
	_, delayed := j.Schedule.(delay)
	switch {
	case j.Jitter < 0 || j.Jitter > store.MaxTTL:
		return invalid("Jitter", j.Jitter.String(), "must be >= 0 and at most %v", store.MaxTTL)
	case j.Grace < 0 || j.Grace > store.MaxTTL:
		return invalid("Grace", j.Grace.String(), "must be >= 0 and at most %v; 0 means 1 minute", store.MaxTTL)
	case j.MissedCap < 0:
		return invalid("MissedCap", strconv.Itoa(j.MissedCap), "must be >= 0; 0 means 100")
	case j.Missed < MissedSkip || j.Missed > MissedAll:
		return invalid("Missed", j.Missed.String(), "must be MissedSkip, MissedOnce or MissedAll")
	case j.MissedCap > 0 && j.Missed != MissedAll:
		return invalid("MissedCap", strconv.Itoa(j.MissedCap), "must be 0 unless Missed is MissedAll, and Missed is %v", j.Missed)
	case j.Retry.Attempts == 0 && j.Retry.Backoff > 0:
		return invalid("Retry.Backoff", j.Retry.Backoff.String(), "must be 0 unless Retry.Attempts is more than 1, and Retry.Attempts is 0: the job is not retried")
	case delayed && j.Missed != MissedSkip:
		return invalid("Missed", j.Missed.String(), "must be MissedSkip when Schedule is a Delay (%v), which misses no times", j.Schedule)
	case j.Crash < CrashTakeOver || j.Crash > CrashGiveUp:
		return invalid("Crash", j.Crash.String(), "must be CrashTakeOver or CrashGiveUp")
	}
	return nil
}

// start returns when the run that is due at scheduled may start: after its jitter.
func (j Job) start(scheduled time.Time) time.Time {
	if j.Jitter <= 0 {
		return scheduled
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%d", j.Name, scheduled.UnixMilli())
	return scheduled.Add(time.Duration(h.Sum64() % uint64(j.Jitter)))
}

// pick returns the scheduled time to run at now. It chooses among those after done that were due at asked, and returns
// the zero time if there is none.
func (j Job) pick(done, asked, now time.Time) time.Time {
	late := j.missedUpTo(now)
	until := late
	if until.After(asked) {
		until = asked
	}
	if missed := j.missed(done, until); !missed.IsZero() {
		return missed
	}
	if late.After(done) {
		done = late
	}
	return j.dueBy(done, asked)
}

// missedUpTo returns the instant up to which all that was due is missed at now.
func (j Job) missedUpTo(now time.Time) time.Time { return now.Add(-j.Grace - time.Millisecond) }

// skips reports whether a scheduled time that was not claimed before is left out at now.
func (j Job) skips(scheduled, now time.Time) bool {
	return j.Missed == MissedSkip && !scheduled.After(j.missedUpTo(now))
}

// dueBy returns the first scheduled time after done if it may start by now, else the zero time.
func (j Job) dueBy(done, now time.Time) time.Time {
	if next := j.Schedule.Next(done); !next.IsZero() && !j.start(next).After(now) {
		return next
	}
	return time.Time{}
}

// missed returns which scheduled time in (done, until] the policy Missed runs, or the zero time.
func (j Job) missed(done, until time.Time) time.Time {
	if j.Missed == MissedSkip || !done.Before(until) {
		return time.Time{}
	}
	pick := latest(j.Schedule, done, until)
	if j.Missed == MissedOnce || pick.IsZero() {
		return pick
	}
	for range j.MissedCap - 1 {
		before := latest(j.Schedule, done, pick.Add(-time.Millisecond))
		if before.IsZero() {
			break
		}
		pick = before
	}
	return pick
}
