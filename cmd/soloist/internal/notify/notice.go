package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/internal/diagnose"
)

// A Kind is what a notice is about.
type Kind string

// The kinds of notices.
const (
	Failed  Kind = "failed"  // a run failed or panicked, after its last attempt
	Lost    Kind = "lost"    // a run lost its lease, or its replica died or shut down in it, and no other one takes it over
	Missed  Kind = "missed"  // scheduled times are not run, because no replica was there in time
	Overdue Kind = "overdue" // nothing has run for a scheduled time although its grace is over
	Doubled Kind = "doubled" // two runs overlapped
)

// kinds are all of them.
var kinds = []Kind{Failed, Lost, Missed, Overdue, Doubled}

// A Notice is what a receiver gets, as JSON. Fields that do not apply are absent.
type Notice struct {
	ID        string     `json:"id"` // the same if the notice is repeated
	Kind      Kind       `json:"kind"`
	Job       string     `json:"job"`
	Namespace string     `json:"namespace,omitempty"`
	Text      string     `json:"text"` // one sentence
	At        time.Time  `json:"at"`   // when it happened, by the clock of the replica
	Scheduled *time.Time `json:"scheduled,omitempty"`
	Replica   string     `json:"replica,omitempty"`
	Token     int64      `json:"token,omitempty"`
	Attempt   int        `json:"attempt,omitempty"`
	Outcome   string     `json:"outcome,omitempty"`
	Error     string     `json:"error,omitempty"`
	ExitCode  *int       `json:"exit_code,omitempty"`
	Output    string     `json:"output,omitempty"` // the end of it; only if the target asks for it
	Times     int        `json:"times,omitempty"`  // how many scheduled times were missed
}

// newNotice returns a notice whose ID is that of others of its kind, job and period: of these, one is sent.
func newNotice(kind Kind, job string, at, period time.Time) Notice {
	id := fmt.Sprintf("%s %s %s", kind, job, period.UTC().Format(time.RFC3339))
	if len(id) > 120 { // IDs of elements are short
		sum := sha256.Sum256([]byte(id))
		id = fmt.Sprintf("%s %s", kind, hex.EncodeToString(sum[:16]))
	}
	return Notice{ID: id, Kind: kind, Job: job, At: at.UTC()}
}

// ofRun adds what the record of a run has.
func (n Notice) ofRun(r soloist.RunRecord) Notice {
	scheduled := r.ScheduledAt.UTC()
	n.Scheduled, n.Replica, n.Token, n.Attempt = &scheduled, r.Replica, r.Token, r.Attempt
	n.Outcome, n.Error, n.ExitCode, n.Output = r.Outcome, r.Error, r.ExitCode, r.Output
	return n
}

// noticesOf returns what is to be said of a job: of what has happened after since, and at most one of a kind in each period of every.
func noticesOf(j soloist.JobInfo, since, now time.Time, every time.Duration) (all []Notice) {
	for i, r := range j.Runs {
		if again(j, i) || !r.EndedAt.After(since) {
			continue
		}
		switch r.Outcome {
		case soloist.OutcomeFailed, soloist.OutcomePanicked:
			n := newNotice(Failed, j.Name, r.EndedAt, r.EndedAt.Truncate(every)).ofRun(r)
			n.Text = fmt.Sprintf("%s %s on %s: %s", j.Name, r.Outcome, r.Replica, r.Error)
			all = append(all, n)
		case soloist.OutcomeLost, soloist.OutcomeAbandoned:
			n := newNotice(Lost, j.Name, r.EndedAt, r.EndedAt.Truncate(every)).ofRun(r)
			n.Text = fmt.Sprintf("%s lost its lease on %s: %s", j.Name, r.Replica, r.Outcome)
			all = append(all, n)
		case soloist.OutcomeInterrupted: // and it is not left to another replica
			n := newNotice(Lost, j.Name, r.EndedAt, r.EndedAt.Truncate(every)).ofRun(r)
			n.Text = fmt.Sprintf("%s was interrupted on %s, and is given up: %s", j.Name, r.Replica, r.Error)
			all = append(all, n)
		}
	}
	for _, o := range diagnose.Overlaps(j, now) {
		if !o.At.After(since) {
			continue
		}
		n := newNotice(Doubled, j.Name, o.At, o.At.Truncate(every)).ofRun(o.Second)
		n.Outcome, n.Error, n.ExitCode, n.Output = "", "", nil, ""
		n.Text = fmt.Sprintf("%s ran twice at once: on %s (token %d) and %s (token %d)", j.Name, o.First.Replica, o.First.Token, o.Second.Replica, o.Second.Token)
		all = append(all, n)
	}
	if due := diagnose.Overdue(j, now); !due.IsZero() {
		scheduled := due.UTC()
		n := newNotice(Overdue, j.Name, now, due.Truncate(every))
		n.Scheduled, n.Text = &scheduled, fmt.Sprintf("%s is overdue: nothing has run for %s", j.Name, scheduled.Format(time.RFC3339))
		all = append(all, n)
	}
	return all
}

// again reports whether the run of a record has a later attempt, perhaps on another replica: one that is recorded, is under way, or is to come.
func again(j soloist.JobInfo, i int) bool {
	r := j.Runs[i]
	if slices.ContainsFunc(j.Runs[i+1:], func(next soloist.RunRecord) bool { return sameRun(r, next) }) { // manual ones may be between the two
		return true
	}
	last := i+1 == len(j.Runs) // else the run under way is another one
	return j.Running != nil && (j.Running.Token == r.Token || last && j.Running.Attempt > r.Attempt) || left(j, r)
}

// left reports whether a run is to be tried again by the next replica: the one before shut down in it, or shut down or died in the pause between two attempts.
func left(j soloist.JobInfo, r soloist.RunRecord) bool {
	switch {
	case r.Outcome != soloist.OutcomeFailed && r.Outcome != soloist.OutcomePanicked && r.Outcome != soloist.OutcomeInterrupted:
		return false
	case r.Manual: // also while the job is paused
		return j.Manual
	case j.Paused != nil && j.Running == nil: // it is not when the job goes on; what runs may be what was left, taken over before the pause
		return false
	}
	return r.ScheduledAt.UnixMilli() > j.DoneUpTo.UnixMilli() // which are whole ms
}

// sameRun reports whether a record is of an earlier attempt at the run of the next one.
func sameRun(r, next soloist.RunRecord) bool {
	return r.ScheduledAt.Equal(next.ScheduledAt) && r.Manual == next.Manual
}

// missed returns the notice of scheduled times that are not run.
func missed(job string, times int, now time.Time, every time.Duration) Notice {
	n := newNotice(Missed, job, now, now.Truncate(every))
	n.Times, n.Text = times, fmt.Sprintf("%s was not run at %d of its scheduled times", job, times)
	return n
}
