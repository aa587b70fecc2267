package soloist

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// The errors of the client, for errors.Is. The first four are the values of package store.
var (
	ErrHeld    = store.ErrHeld    // another holder has the name; a *HeldError reports who and for how long
	ErrDone    = store.ErrDone    // the element is processed already; see *DoneError
	ErrLost    = store.ErrLost    // the lease is lost, or no longer provably held
	ErrUnknown = store.ErrUnknown // the store did not respond; the request may have been carried out

	ErrClosed   = errors.New("client is closed")
	ErrOverran  = fmt.Errorf("%w: it was held for as long as AtMost allows", ErrLost) // the cause of a context that AtMost ended
	ErrFailed   = errors.New("failed too often")                                      // an element that has used up its attempts; see *FailedError
	ErrUnfenced = errors.New("the store does not promise fencing")                    // with Config.RequireFencing

	// ErrInterrupted is the cause of a function's context that ended because its replica shuts down. If the function of a job returns
	// ErrInterrupted, or any error after its context ended for this reason, another replica takes its run over immediately. If there is no
	// other, and the replica goes on, it begins the run again after about a second.
	ErrInterrupted = errors.New("interrupted: the replica shuts down")

	errReleased = errors.New("lease released")

	// Why a call that ends a lease has nothing to end.
	errGivenBack = fmt.Errorf("%w: its client was closed, and released it as it was", ErrLost)
	errEnded     = fmt.Errorf("%w: it had been released before, and this is not recorded", ErrLost)

	// The reasons why a lease is lost, for the cause of its context and for messages.
	errUnconfirmed = fmt.Errorf("%w: no renewal was confirmed in time; the store was away or slow, or this process was stopped", ErrLost)
	errNotLive     = fmt.Errorf("%w: the store does not have it any more; it was released by force, or renewed too late", ErrLost)
	errDoubted     = fmt.Errorf("%w: it was left to end by itself, for nobody could say whether its run had been committed", ErrLost)
)

// A HeldError reports that another holder has a name. errors.Is(err, ErrHeld) is true for it.
type HeldError struct {
	Kind   Kind
	Name   string        // as the caller gave it
	Holder string        // who has it; "" if nobody has and it stays taken, by Options.AtLeast or Retry.Backoff, or if it is not known
	Token  int64         // of the holder's lease; 0 if it is not known
	Left   time.Duration // until it is free, unless the lease is renewed or released earlier; 0 if it is not known

	due time.Time // when this process has watched for long enough what is overdue; zero if nothing is
}

func (e *HeldError) Error() string {
	left := e.Left.Round(time.Millisecond)
	switch {
	case e.Holder == "" && e.Token == 0 && e.Left == 0:
		return fmt.Sprintf("%q is held", e.Name)
	case e.Holder == "" && e.Token == 0:
		return fmt.Sprintf("%q is held: a transaction has locked it", e.Name)
	case e.Holder == "":
		return fmt.Sprintf("%q is held for another %v after its release", e.Name, left)
	}
	return fmt.Sprintf("%q is held by %s for another %v, or longer if it is renewed", e.Name, e.Holder, left)
}

// Overdue returns how much longer this process has to watch what is in the way before it can be granted the name, if that should be over by the wall clock of the
// client that wrote it, and the store has no clock to say so. It is 0 if nothing is overdue. A call that waited for it, as Options.Overdue says, has done so.
func (e *HeldError) Overdue() time.Duration {
	if e.due.IsZero() {
		return 0
	}
	return max(1, time.Until(e.due))
}

// Is makes errors.Is(e, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// A DoneError reports that an element is processed already. errors.Is(err, ErrDone) is true for it.
type DoneError struct {
	ID    string
	Token int64         // of the claim under which it was processed
	Age   time.Duration // since that claim
}

func (e *DoneError) Error() string { return fmt.Sprintf("element %q is processed already", e.ID) }

// Is makes errors.Is(e, ErrDone) true.
func (e *DoneError) Is(target error) bool { return target == ErrDone }

// An InvalidError reports an invalid input: which one, what is wrong with it, and what would be right.
type InvalidError = store.InvalidError

func invalid(what, value, format string, args ...any) error {
	return &store.InvalidError{What: what, Value: value, Rule: fmt.Sprintf(format, args...)}
}

// A PanicError is the error of a function that panicked. If the value of the panic is an error, errors.Is and errors.As find it.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// errExited is the error of a function that neither returns nor panics.
var errExited = errors.New("the function ended its goroutine (runtime.Goexit, which t.FailNow calls)")

// concluded calls fn, passes its error to then, and returns the result of then. A panic of fn becomes a *PanicError. If fn ends its
// goroutine, concluded calls then with errExited before the goroutine ends.
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

// recovered calls fn in another goroutine, so that fn cannot end the caller's goroutine. It returns the error as concluded passes it on.
func recovered(fn func() error) error {
	ended := make(chan error, 1)
	go func() {
		_ = concluded(fn, func(err error) error { ended <- err; return nil })
	}()
	return <-ended
}
