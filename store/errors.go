package store

import (
	"errors"
	"fmt"
	"time"
)

// The errors of all stores, for errors.Is. Of a HeldError, a DoneError and an InvalidError errors.As gives the details.
var (
	// What became of a request.
	ErrHeld    = errors.New("held")            // another holder has the name, or it lingers
	ErrDone    = errors.New("done")            // the record's mark is at least that of the claim
	ErrLost    = errors.New("lease lost")      // the lease is not live: it expired, was released, or the name was granted to another holder
	ErrUnknown = errors.New("outcome unknown") // it may or may not have taken effect; repeat it with the same holder

	// What is permanent: trying again does not help.
	ErrInvalid = errors.New("invalid input") // see InvalidError
	ErrClosed  = errors.New("store is closed")
	ErrTokens  = errors.New("the name has no fencing tokens left")

	// ErrUnusable reports that the backend cannot be used as it is set up: its tables are missing or of another version, its database does
	// not exist, the file is of another program. The text of the error says what to change. A missing right and a wrong password are
	// fs.ErrPermission instead.
	ErrUnusable = errors.New("the store cannot be used as it is set up")

	// ErrSchema is the ErrUnusable of a store whose tables are missing, or of another version; see Migrator.
	ErrSchema = fmt.Errorf("%w: its tables are missing or of another version", ErrUnusable)
)

// A HeldError refuses a claim because the name is taken. It is ErrHeld.
type HeldError struct {
	// Left is how long the name stays taken unless it is released or extended. State is nil. If Holder is empty and Token is 0, the store does
	// not know who holds the name, because a transaction has locked the record: Left is then when to try again. Of a claim that
	// is repeated because its outcome is unknown, this settles nothing: the transaction may be that of the first request.
	Record Record

	// Overdue is more than 0 if the lease or the linger in the way should be over by the wall clock of the client that wrote it last, but the store is Clockless
	// and this process has not watched it for long enough. It is how long that takes: after Overdue the store grants the name, unless somebody else has extended or
	// acquired it by then. Of Choose it is the least of all the names, which may be of another name than Record. No store may grant anything because of it.
	Overdue time.Duration
}

func (e *HeldError) Error() string {
	left := e.Record.Left.Round(time.Millisecond)
	if e.Record.Holder == "" && e.Record.Token == 0 {
		return fmt.Sprintf("%q is locked by a transaction; retry in %v", e.Record.Name, left)
	}
	if e.Record.Holder == "" {
		return fmt.Sprintf("%q stays taken for another %v after its release", e.Record.Name, left)
	}
	return fmt.Sprintf("%q is held by %s for another %v", e.Record.Name, e.Record.Holder, left)
}

// Is makes errors.Is(e, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// A DoneError refuses a claim because of the record's mark. It is ErrDone.
type DoneError struct {
	Record Record // with Mark, State, and the lease if there is one
}

func (e *DoneError) Error() string {
	return fmt.Sprintf("%q is already done (mark %d)", e.Record.Name, e.Record.Mark)
}

// Is makes errors.Is(e, ErrDone) true.
func (e *DoneError) Is(target error) bool { return target == ErrDone }

// An InvalidError reports which input is invalid, and what would be valid. Nothing was sent to the backend. It is ErrInvalid.
type InvalidError struct {
	What  string // "name", "holder", "TTL", …
	Value string // as given, shortened
	Rule  string // what would be right
}

func (e *InvalidError) Error() string { return fmt.Sprintf("%s %s: %s", e.What, e.Value, e.Rule) }

// Is makes errors.Is(e, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// An UnreadableError is the last that List yields if there are records that cannot be read, because something else has written them: all others were yielded. After any other
// error there may be more.
type UnreadableError struct {
	Err error // names the records
}

func (e *UnreadableError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *UnreadableError) Unwrap() error { return e.Err }

// AsUnknown wraps err so that it is also ErrUnknown. It returns nil if err is nil.
func AsUnknown(err error) error {
	if err == nil || errors.Is(err, ErrUnknown) {
		return err
	}
	return &unknownError{err}
}

// An unknownError is ErrUnknown, with why the outcome is unknown. Its text is made when somebody reads it.
type unknownError struct{ cause error }

func (e *unknownError) Error() string { return ErrUnknown.Error() + ": " + e.cause.Error() }

func (e *unknownError) Unwrap() []error { return []error{ErrUnknown, e.cause} }
