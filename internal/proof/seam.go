package proof

import (
	"errors"
	"hash/fnv"

	"github.com/soloist-dev/soloist/store"
)

// Claimed returns the event of a claim that has no outcome yet.
func Claimed(c store.Claim) Event {
	e := Event{Result: Unknown}
	e.Claims(c)
	return e
}

// Extended returns the event of an extension that has no outcome yet.
func Extended(x store.Extension) Event {
	e := Event{Result: Unknown}
	e.Extends(x)
	return e
}

// Released returns the event of a release that has no outcome yet.
func Released(r store.Release) Event {
	e := Event{Result: Unknown}
	e.Releases(r)
	return e
}

// Claims sets what a claim asks.
func (e *Event) Claims(c store.Claim) {
	e.Kind, e.Name, e.Holder, e.TTL, e.Mark = Acquire, c.Name, c.Holder, c.TTL, c.Mark
}

// Extends sets what an extension asks.
func (e *Event) Extends(x store.Extension) {
	e.Kind, e.Name, e.Holder, e.Token, e.TTL, e.Mark, e.State = Extend, x.Name, x.Holder, x.Token, x.TTL, x.Mark, wrote(x.State)
}

// Releases sets what a release asks.
func (e *Event) Releases(r store.Release) {
	e.Kind, e.Name, e.Holder, e.Token, e.Mark, e.State, e.Linger, e.Retain = Release, r.Name, r.Holder, r.Token, r.Mark, wrote(r.State), r.Linger, r.Retain
}

// Answer completes the event of a claim with its outcome. What failed, and is not of the seam, is told by ResultOf.
func (e *Event) Answer(out store.Outcome) {
	e.Result, e.Token = DecisionOf(out)
	e.Seen, e.State = 0, 0
	switch e.Result {
	case Granted:
		e.Seen, e.State = out.Grant.Mark, StateOf(out.Grant.State)
	case Done:
		e.Seen = unseen
		if done, told := errors.AsType[*store.DoneError](out.Err); told {
			e.Seen, e.State = done.Record.Mark, StateOf(done.Record.State)
		}
	}
}

// DecisionOf returns the result of a claim, and the token that was granted or that is in the way.
func DecisionOf(out store.Outcome) (Result, int64) {
	if out.Err == nil {
		return Granted, out.Grant.Token
	}
	held, refused := errors.AsType[*store.HeldError](out.Err)
	switch {
	case refused && held.Record.Token == 0:
		return Locked, 0
	case refused:
		return Held, held.Record.Token
	}
	return ResultOf(out.Err), 0
}

// ResultOf returns the result of an extension, a release, or a request as a whole that ended with err.
func ResultOf(err error) Result {
	switch {
	case err == nil:
		return Okay
	case errors.Is(err, store.ErrUnknown):
		return Unknown
	case errors.Is(err, store.ErrLost):
		return Lost
	case errors.Is(err, store.ErrHeld):
		return Held
	case errors.Is(err, store.ErrDone):
		return Done
	}
	return Failed
}

// cleared is the State of a write that leaves none.
const cleared = 1

// wrote returns the State of a write. Nil, which leaves the state as it is, is 0.
func wrote(state []byte) uint64 {
	if state != nil && len(state) == 0 {
		return cleared
	}
	return StateOf(state)
}

// StateOf returns the fingerprint of a state that was read: 0 if it is empty, else more than 1.
func StateOf(state []byte) uint64 {
	if len(state) == 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write(state) // it never fails
	return h.Sum64() | 2
}
