package soloist

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/soloist-dev/soloist/store"
)

// maxKept is the longest state of a user that fits into the record of a job or an element, in bytes. It leaves room for the history of a job.
const maxKept = 16 << 10

// A wrapFunc returns the state of a record that contains a state of the user's.
type wrapFunc func(user []byte) []byte

// State returns a copy of the state of the name: what SetState has set last under this lease, or else what the previous holder left. It returns
// nil if there is none.
//
// The state of a job is found by each later run: by the next attempt, by a replica that takes the run over, and by the next scheduled time.
// That of an element is found by each later attempt, until the element is processed.
func (l *Lease) State() []byte { return slices.Clone(l.keptState(l.granted.State)) }

// SetState stores state with the name for the next holder: at most 64 KiB, or 16 KiB for a job or an element. A longer state is an
// *InvalidError. Other errors are as in Check. After ErrUnknown the state may take effect later, even after another state that was set since.
// Release therefore writes the last state again; only if the holder dies can an older one remain.
//
// A function that should stop can still use it, with Lease.Context: its own context has ended then.
func (l *Lease) SetState(ctx context.Context, state []byte) error {
	state = append([]byte{}, state...)
	record := state
	if wrap := l.wrap.Load(); wrap != nil {
		if len(state) > maxKept {
			return invalid("state", fmt.Sprintf("of %d bytes", len(state)), "must have at most %d bytes: the record of the %s keeps more than the state", maxKept, l.subject.Kind)
		}
		record = (*wrap)(state)
	}
	err := l.setRecord(ctx, record)
	if err == nil || errors.Is(err, ErrUnknown) {
		l.state.Store(&state)
	}
	return err
}

// setRecord replaces the state of the record. Errors are as in SetState.
func (l *Lease) setRecord(ctx context.Context, record []byte) error {
	err := l.extend(ctx, l.opts.TTL, func(e *store.Extension) { e.State = record })
	if err == nil || errors.Is(err, ErrUnknown) {
		l.last.Store(&record)
	}
	return err
}

// keepState makes State and SetState those of a state inside the record's state: the user's state is user now, and wrap puts another one into
// the record. It can be called again when the rest of the record has changed.
func (l *Lease) keepState(user []byte, wrap wrapFunc) {
	l.state.Store(&user)
	l.wrap.Store(&wrap)
}

// keptState returns the user's state, or other if none is known.
func (l *Lease) keptState(other []byte) []byte {
	if state := l.state.Load(); state != nil {
		return *state
	}
	return other
}
