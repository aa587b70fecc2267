package store

import (
	"context"
)

// A Migrator keeps its records in a schema, such as the tables of a database. The schema has to be created before the first use, and
// migrated when it is older than the code. Opening such a store does not check the schema; a call that finds it missing or old returns an
// error that is [ErrSchema].
type Migrator interface {
	// Migrate creates the schema or updates it, and returns one line of text per change: none if nothing had to be done. It is safe to
	// call from several processes at once. It may need privileges that the other methods do not.
	Migrate(ctx context.Context) ([]string, error)

	// Schema returns the statements with which a person can do the same on an empty database. It sends nothing to the backend.
	Schema() string
}

// An Examiner can check how its backend is set up, and report what to change.
type Examiner interface {
	// Examine returns what it found, in an order for people to read. It changes nothing. What it was not allowed to see is a
	// Finding with the level LevelUnknown. It returns an error if the backend could not be reached at all.
	Examine(ctx context.Context) ([]Finding, error)
}

// A Finding is one fact about a backend that an operator should know.
type Finding struct {
	Subject string `json:"subject"` // what was looked at: "eviction policy"
	Found   string `json:"found"`   // what it is: "allkeys-lru"
	Level   Level  `json:"level"`
	Fix     string `json:"fix,omitempty"` // what to change, and why; "" if nothing has to change
}

// A Level is the severity of a finding.
type Level string

// The levels of a finding.
const (
	LevelOK      Level = "ok"
	LevelWarning Level = "warning" // it works, but promises less than it could
	LevelError   Level = "error"   // it does not work, or is not reliable
	LevelUnknown Level = "unknown" // it could not be checked
)

// A Completer keeps its records in a database with transactions, and can record the end of a piece of work in a transaction of the
// caller, so that the work and its record are committed together or not at all. Tx is the transaction of its driver:
//
//	completer, ok := store.As[store.Completer[*sql.Tx]](client.Store())
type Completer[Tx any] interface {
	// Complete raises the record's mark and replaces its state, in tx. It returns
	//
	//   - nil if it has done so. Nobody else can then acquire the name until tx has ended;
	//   - ErrLost if the lease is not live;
	//   - a *DoneError if c.Mark is not 0 and the record's mark is at least c.Mark: the work has been committed before, perhaps by a
	//     transaction whose commit was not confirmed.
	//
	// If it returns an error it has changed nothing, and the caller rolls tx back. The lease stays; the caller releases it after
	// the commit.
	Complete(ctx context.Context, tx Tx, c Completion) error
}

// A Completion is the end of the work of a lease, see [Completer].
type Completion struct {
	Name, Holder string
	Token        int64
	Mark         int64  // raises the record's mark to this; 0 leaves it, and only checks that the lease is live
	State        []byte // replaces the record's state; nil leaves it, empty clears it; at most MaxState bytes
}

// Check returns an *InvalidError if a field of the completion is not valid.
func (c Completion) Check() error { return checkLease(c.Name, c.Holder, c.Token, c.Mark, c.State) }
