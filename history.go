package soloist

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// historyLength is how many runs a job's record keeps.
const historyLength = 20

// The outcomes of a run.
const (
	OutcomeOK          = "ok"
	OutcomeFailed      = "failed"      // its function returned an error
	OutcomePanicked    = "panicked"    // its function panicked
	OutcomeAbandoned   = "abandoned"   // its replica died or was cut off; recorded by the replica that noticed
	OutcomeInterrupted = "interrupted" // its replica shut down; another takes the run over
	OutcomeReleased    = "released"    // it was released by force; Error contains by whom and why
	OutcomeLost        = "lost"        // it failed when its lease was lost; another replica takes it over, as after a crash
)

// A RunRecord is one run in a job's history.
type RunRecord struct {
	ScheduledAt time.Time `json:"scheduled_at"`
	StartedAt   time.Time `json:"started_at"` // by the replica's clock, as EndedAt
	EndedAt     time.Time `json:"ended_at"`
	Replica     string    `json:"replica"`
	Attempt     int       `json:"attempt"`
	Token       int64     `json:"token"`
	Manual      bool      `json:"manual,omitempty"`
	Request     int64     `json:"request,omitempty"` // of a manual run: the number of the newest request for one that it serves, from 1; else 0
	Outcome     string    `json:"outcome"`
	Error       string    `json:"error,omitempty"`
	ExitCode    *int      `json:"exit_code,omitempty"` // of its command, as passed to Run.Report; nil without a report
	Output      string    `json:"output,omitempty"`    // the end of its output, as passed to Run.Report
}

// jobState is the state of a job's record. Its mark is the scheduled time, in unix ms, up to which all is done.
type jobState struct {
	Schedule string      `json:"schedule,omitempty"`
	About    string      `json:"about,omitempty"`   // the job's description
	Grace    int64       `json:"grace,omitempty"`   // how late a run may begin, the jitter included, in ms; 0 means the default
	Since    int64       `json:"since,omitempty"`   // since when the job is known to the fleet, unix ms: nothing before is missed
	Forgot   int64       `json:"forgot,omitempty"`  // the mark that the record had when a job of this name was forgotten: it says nothing of this one
	Pending  int64       `json:"pending,omitempty"` // the scheduled time that Attempts is about, unix ms; of a manual run its number, negative
	Attempts int         `json:"attempts,omitempty"`
	Next     int64       `json:"next,omitempty"`    // the scheduled time of a run that was cut off and comes after Pending, unix ms
	Begun    int         `json:"begun,omitempty"`   // its attempts
	Ended    int64       `json:"ended,omitempty"`   // when the last run ended, unix ms
	Trigger  int64       `json:"trigger,omitempty"` // the last manual run that was served
	Manual   int64       `json:"manual,omitempty"`  // when the manual run in Pending was requested, unix ms; 0 if that is not known
	Claimed  int64       `json:"claimed,omitempty"` // the scheduled time of a claim that was released, unix ms: what was due then was claimed in time
	Asked    int64       `json:"asked,omitempty"`   // when that claim was made, unix ms; 0 if that is not known
	Died     int64       `json:"died,omitempty"`    // when a lease was granted that ended because its replica died, which only a claim was told that was released, unix ms
	Spread   int64       `json:"spread,omitempty"`  // how much later than Died that may have been, ms
	User     []byte      `json:"user,omitempty"`    // what Lease.SetState has set
	Runs     []RunRecord `json:"runs,omitempty"`    // the newest last
}

// claimedInVain returns the state with which to release a job whose caller no longer waits for it: the next replica may
// be later than Grace for the time that was claimed on a trip, which is zero if it is not known, and is not told that the replica died which had the job before. A nil state leaves the
// record's state unchanged.
func claimedInVain(claim store.Claim, g store.Grant, t trip) []byte {
	state, err := parseJobState(g.State)
	if err != nil || len(g.State) == 0 {
		return nil
	}
	claimed, died := claim.Mark > max(g.Mark, state.Claimed), g.ExpiredAge > 0 && state.Died == 0 && !t.asked.IsZero()
	if !claimed && !died {
		return nil
	}
	if died {
		earliest, latest := t.granted(g.ExpiredAge)
		state.Died = max(1, earliest.UnixMilli())
		state.Spread = max(0, latest.Add(time.Millisecond-1).UnixMilli()-state.Died)
	}
	if claimed {
		state.Claimed, state.Asked = claim.Mark, 0
		if !t.asked.IsZero() {
			state.Asked = t.asked.UnixMilli()
		}
	}
	return state.json()
}

// describe sets the fields of the state that lists show.
func (s *jobState) describe(j Job) {
	s.Schedule, s.About = shorten(describe(j.Schedule)), shorten(j.Description)
	if s.Grace = j.Grace.Milliseconds(); j.Grace == defaultGrace {
		s.Grace = 0
	}
}

// grace returns how late a run may begin.
func (s *jobState) grace() time.Duration {
	if s.Grace == 0 {
		return defaultGrace
	}
	return time.Duration(min(s.Grace, int64(Forever/time.Millisecond))) * time.Millisecond
}

func parseJobState(b []byte) (jobState, error) {
	var s jobState
	if len(b) == 0 {
		return s, nil
	}
	err := json.Unmarshal(b, &s)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return jobState{}, fmt.Errorf("the job's state is not soloist's: %w", err)
	}
	return s, nil
}

// A jobHead is the part of a jobState that each replica reads whenever it looks at the record. To read the rest takes several times as long.
type jobHead struct {
	Since   int64 `json:"since"`
	Forgot  int64 `json:"forgot"`
	Pending int64 `json:"pending"`
	Ended   int64 `json:"ended"`
	Trigger int64 `json:"trigger"`
	Died    int64 `json:"died"`
}

// head returns the part of the state that a jobHead is.
func (s *jobState) head() jobHead {
	return jobHead{Since: s.Since, Forgot: s.Forgot, Pending: s.Pending, Ended: s.Ended, Trigger: s.Trigger, Died: s.Died}
}

// mostCounted is above every number that a replica counts to, and above every instant in ms that it writes down.
const mostCounted = 1 << 53

// check returns an error if no replica can have written the state. A run at an impossible time would be claimed again and again.
func (s *jobState) check() error {
	return errors.Join(s.head().check(), counted("grace", s.Grace), counted("attempts", int64(s.Attempts)), counted("next", s.Next),
		counted("begun", int64(s.Begun)), counted("claimed", s.Claimed), counted("asked", s.Asked), counted("spread", s.Spread), counted("manual", s.Manual))
}

func (h jobHead) check() error {
	return errors.Join(counted("since", h.Since), counted("forgot", h.Forgot), counted("pending", max(h.Pending, -h.Pending)), counted("ended", h.Ended), counted("trigger", h.Trigger), counted("died", h.Died))
}

// counted returns an error if n is not from 0 to mostCounted.
func counted(what string, n int64) error {
	if n < 0 || n > mostCounted {
		return fmt.Errorf("%s is %d", what, n)
	}
	return nil
}

// json returns the state as the record stores it: without its oldest runs, if they do not fit.
func (s *jobState) json() []byte {
	for fits := *s; ; fits.Runs = fits.Runs[1:] {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false) // which would make six bytes of some characters
		_ = enc.Encode(fits)     // of strings, numbers and times of four-digit years; it cannot fail
		if b.Len() <= store.MaxState || len(fits.Runs) == 0 {
			return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
		}
	}
}

// advance ends what is pending, when all up to mark is done: what comes next is pending from here on, unless it is done as well.
func (s *jobState) advance(mark int64) {
	s.Pending, s.Attempts, s.Next, s.Begun, s.Manual = s.Next, s.Begun, 0, 0, 0
	if s.Pending <= mark {
		s.Pending, s.Attempts = 0, 0
	}
}

func (s *jobState) add(r RunRecord) {
	r.Error = shorten(r.Error)
	s.Runs = append(slices.Clip(s.Runs), r) // a copy: what was there may be shared
	if extra := len(s.Runs) - historyLength; extra > 0 {
		s.Runs = s.Runs[extra:]
	}
	s.dropOutputs()
}
