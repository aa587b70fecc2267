package soloist

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/soloist-dev/soloist/store"
)

// The errors of the client, for errors.Is. Those of stores are the same values as in package store.
var (
	ErrHeld    = store.ErrHeld    // somebody else has the name; a *HeldError says who and for how long
	ErrDone    = store.ErrDone    // the element is processed already; a *DoneError carries the record
	ErrLost    = store.ErrLost    // the lease is not ours any more, or not surely so
	ErrUnknown = store.ErrUnknown // the store did not say whether it happened; it may have

	ErrClosed   = errors.New("client is closed")
	ErrOverran  = fmt.Errorf("%w: it ran for longer than AtMost", ErrLost) // the cause of a context that AtMost ended
	ErrFailed   = errors.New("failed too often")                           // an element that has used up its attempts
	ErrUnfenced = errors.New("the store does not promise fencing")         // with Config.RequireFencing

	// ErrInterrupted is the cause of a run's context that ended because its replica shuts down. A job's function that answers
	// an error which is ErrInterrupted, or any error after its context ended so, leaves its run to another replica, at once.
	ErrInterrupted = errors.New("interrupted: the replica shuts down")

	errReleased = errors.New("lease released")

	// Why a lease is lost, for the cause of its context and for messages.
	errUnconfirmed = fmt.Errorf("%w: no renewal was confirmed in time; the store was away or slow, or this process was stopped", ErrLost)
	errNotLive     = fmt.Errorf("%w: the store does not have it any more; it was released by force, or renewed too late", ErrLost)
)

// HeldError and DoneError say why a name could not be had.
type (
	HeldError = store.HeldError
	DoneError = store.DoneError
)

// An InvalidError names the input that broke a rule and what would be right.
type InvalidError = store.InvalidError

func invalid(what, value, format string, args ...any) error {
	return &store.InvalidError{What: what, Value: value, Rule: fmt.Sprintf(format, args...)}
}

// A PanicError is what a function's panic becomes.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// errExited is what a function answers that neither returns nor panics.
var errExited = errors.New("the function ended its goroutine (runtime.Goexit, which t.FailNow calls)")

// concluded calls fn and then passes its error to then, and answers what that answers: also when fn panics, which becomes a *PanicError, and
// when fn ends its goroutine, which goes on to end after that.
func concluded(fn func() error, then func(error) error) (err error) {
	err = errExited
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		err = then(err)
	}()
	return fn()
}

// recovered calls fn in a goroutine of its own, so that the caller's goes on whatever fn does, and makes an error of its panic, or of the
// end of its goroutine.
func recovered(fn func() error) error {
	ended := make(chan error, 1)
	go func() {
		_ = concluded(fn, func(err error) error { ended <- err; return nil })
	}()
	return <-ended
}
