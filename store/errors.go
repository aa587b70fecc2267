package store

import (
	"errors"
	"fmt"
	"time"
)

// The outcomes of the verbs, for errors.Is.
var (
	ErrHeld    = errors.New("held")            // another holder has the name, or it lingers; see HeldError
	ErrDone    = errors.New("done")            // the record's mark answers the claim; see DoneError
	ErrLost    = errors.New("lease lost")      // the lease is not live: it expired, was released, or went to another
	ErrUnknown = errors.New("outcome unknown") // it may or may not have happened; ask again as the same holder
	ErrClosed  = errors.New("store is closed")
)

// ErrUnusable reports that the backend cannot be used as it is set up: its tables are missing or of another version, its database does not
// exist, the file is no store. Trying again does not help; the message says what to change. A right that is missing, and a password that is wrong, are
// fs.ErrPermission instead.
var ErrUnusable = errors.New("the store cannot be used as it is set up")

// A HeldError refuses a claim because the name is taken. It is ErrHeld.
type HeldError struct {
	// Left says how long the name stays taken unless it is released or extended. State is nil. With neither holder nor token the store does
	// not know who is in the way, because a transaction has locked the record: Left is then when to ask again.
	Record Record
}

func (e *HeldError) Error() string {
	left := e.Record.Left.Round(time.Millisecond)
	if e.Record.Holder == "" && e.Record.Token == 0 {
		return fmt.Sprintf("%q is locked by a transaction; ask again in %v", e.Record.Name, left)
	}
	if e.Record.Holder == "" {
		return fmt.Sprintf("%q lingers for another %v after its release", e.Record.Name, left)
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
	return fmt.Sprintf("%q is done: its mark is %d", e.Record.Name, e.Record.Mark)
}

// Is makes errors.Is(e, ErrDone) true.
func (e *DoneError) Is(target error) bool { return target == ErrDone }

// An InvalidError says which input broke which rule. Nothing was asked of the backend for it.
type InvalidError struct {
	What  string // "name", "holder", "TTL", …
	Value string // as given, shortened
	Rule  string // what would be right
}

func (e *InvalidError) Error() string { return fmt.Sprintf("%s %s: %s", e.What, e.Value, e.Rule) }

// AsUnknown wraps err so that it is also ErrUnknown. It answers nil for nil.
func AsUnknown(err error) error {
	if err == nil || errors.Is(err, ErrUnknown) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}
