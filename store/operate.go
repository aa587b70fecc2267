package store

import (
	"context"
)

// A Migrator keeps its records in a schema that has to be made before the first use, and that can be older than the code.
// Opening such a store does not look at the schema; a call that finds it missing or old answers an error that says so.
type Migrator interface {
	// Migrate makes the schema, or brings it up to date, and answers what it did in a line for people each: nothing when
	// there was nothing to do. Many may call it at once. It may need privileges that the other calls do not.
	Migrate(ctx context.Context) ([]string, error)

	// Schema answers the statements with which a person can do the same on an empty database. It asks the backend nothing.
	Schema() string
}

// An Examiner can look at how its backend is set up, and say what to change.
type Examiner interface {
	// Examine answers what it found, in an order for people to read. It changes nothing that stays. What it was not allowed
	// to see is a Finding too, with the level LevelUnknown. The error is that of a backend that could not be asked at all; it
	// names the cause.
	Examine(ctx context.Context) ([]Finding, error)
}

// A Finding is one thing about a backend that somebody ought to know.
type Finding struct {
	Subject string `json:"subject"` // what was looked at: "eviction policy"
	Found   string `json:"found"`   // what it is: "allkeys-lru"
	Level   Level  `json:"level"`
	Mend    string `json:"mend,omitempty"` // what to change, and why; "" when there is nothing to change
}

// A Level says how good a finding is.
type Level string

// The levels of a finding.
const (
	LevelOK      Level = "ok"
	LevelWarning Level = "warning" // it works, with less than could be promised
	LevelError   Level = "error"   // it does not work, or cannot be relied on
	LevelUnknown Level = "unknown" // it could not be looked at
)

// A Completion says that the work of a lease is done. A store that lives in a SQL database can carry it out inside a transaction
// of the caller's own, so that the work and the mark commit together or not at all. Such a store has a method
// Complete(ctx, tx, Completion) error, whose tx is of its driver. It answers
//
//   - ErrLost unless the lease is live;
//   - a *DoneError when Mark is not 0 and the record's mark is at least Mark: the work has been committed before, be it by a
//     transaction whose commit was not answered;
//   - nil when it has raised the mark and replaced the state, and then nobody else can take the name until the transaction
//     has ended.
//
// With an error nothing is changed, and the caller rolls the transaction back. The lease itself stays, to be released after the
// commit.
type Completion struct {
	Name, Holder string
	Token        int64
	Mark         int64  // raises the record's mark to this; 0 leaves it, and only checks that the lease is live
	State        []byte // replaces the record's state; nil leaves it, empty clears it; at most MaxState bytes
}

// Check answers an *InvalidError if the completion breaks a rule of its fields.
func (c Completion) Check() error { return checkLease(c.Name, c.Holder, c.Token, c.Mark, c.State) }
