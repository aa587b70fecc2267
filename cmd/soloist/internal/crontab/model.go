package crontab

import (
	"time"

	"github.com/soloist-dev/soloist/cron"
)

// A File is what was read.
type File struct {
	Jobs     []Job      // in the order of the file; at least one
	Warnings []*Problem // what is ignored, or may mean something else than it says; by line
}

// A Job is one entry. A zero duration or number, and an empty text, was not given.
type Job struct {
	Name    string
	Derived bool // the name follows from the content
	Line    int  // where it stands

	// When: exactly one of Expression, Delay and At is set.
	Expression *cron.Expression
	Schedule   string        // the text of Expression; with its zone, unless that is UTC
	Delay      time.Duration // after the end of the run before
	At         time.Time     // once

	// What: either Args or Command, a line for Shell.
	Args    []string
	Command string
	Shell   string // with Command; a path
	Stdin   string
	Env     []string // NAME=value, each name once, as the file sets them: not the whole environment
	Dir     string
	User    string // the user column, if there is one

	Options
}

// Argv is the program and its arguments.
func (j Job) Argv() []string {
	if j.Command == "" {
		return j.Args
	}
	return []string{j.Shell, "-c", j.Command}
}

// Options are how a job is run.
type Options struct {
	TTL     time.Duration
	AtLeast time.Duration
	AtMost  time.Duration
	Jitter  time.Duration

	Missed    Missed
	MissedCap int
	Grace     time.Duration // how late a run is not missed

	Crash Crash
	Retry Retry

	Nice int // by how much its processes yield to others, 1 to 19
}

// Missed describes what is done about times that passed without a run.
type Missed string

// The policies; "" was not given.
const (
	MissedSkip Missed = "skip"
	MissedOnce Missed = "once"
	MissedAll  Missed = "all"
)

// Crash describes what is done about a run whose replica died.
type Crash string

// The policies; "" was not given.
const (
	CrashTakeOver Crash = "take-over"
	CrashGiveUp   Crash = "give-up"
)

// Retry describes how often a failed run is tried, the first time included, and after which pauses.
type Retry struct {
	Attempts            int
	Backoff, MaxBackoff time.Duration
}
