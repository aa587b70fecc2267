package soloist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// A DetachedElement is an element that was claimed for a holder outside of this process. End it with DoneDetached,
// FailDetached, or DetachedLeases.Release.
type DetachedElement struct {
	Detached
	Attempt int       // as Element.Attempt
	Until   time.Time // until when it is certainly held, as DetachedLeases.Acquire returns it
}

// ClaimDetached claims an element for a holder outside of this process. See DetachedLeases.Acquire for holder and
// repeated, and Claim for the errors.
func (e *Elements) ClaimDetached(ctx context.Context, id, holder string, repeated bool) (DetachedElement, error) {
	el := DetachedElement{Detached: Detached{Kind: KindElement, Name: id, Job: e.job, Holder: holder}}
	err := e.usable()
	if err == nil {
		err = checkHolder(holder)
	}
	if err != nil {
		return el, err
	}
	t, err := e.target(id)
	if err != nil {
		return el, err
	}
	c := e.client
	claim := store.Claim{Name: t.name, Holder: holder, TTL: c.opts.TTL, Mark: t.mark}
	a := &detachedAttempt{client: c, target: t, kept: repeated, claim: claim}
	name, grant, err := a.acquire(ctx)
	if err != nil {
		return el, err
	}
	el.Token = grant.Token
	if el.Attempt, err = e.begin(ctx, el.Detached, name, grant, repeated); err != nil {
		return el, err
	}
	el.Until, err = a.until(ctx, name, grant)
	return el, err
}

// begin counts the attempt of a holder that has died, and returns the number of the attempt that begins. The store
// reports a crash to one call alone: if the holder is kept for others, one of them may have got the element as it was
// before the crash was counted, so that this call does not end its lease.
func (e *Elements) begin(ctx context.Context, d Detached, name string, g store.Grant, kept bool) (int, error) {
	c := e.client
	back := store.Release{Name: name, Holder: d.Holder, Token: g.Token, Retain: Forever}
	state, err := parseElementState(d.Name, g.State)
	if err != nil {
		return 0, errors.Join(err, c.releaseBatch([]store.Release{back})[0])
	}
	if !state.Failed && e.exhausts(state.Attempts) {
		state.Failed = true
		back.State = state.json()
	}
	crashed := g.ExpiredAge > 0 && !state.Failed
	if crashed {
		state.failed(e, errors.New("its holder died or was cut off"), d.Holder)
		back.State = state.json() // if it cannot be written now, the release counts the attempt
		counted := store.Extension{Name: name, Holder: d.Holder, Token: g.Token, TTL: c.opts.TTL, State: back.State}
		errs, err := c.extends.ask(context.WithoutCancel(ctx), []store.Extension{counted})
		if err == nil {
			err = errs[0]
		}
		if err != nil {
			err = fmt.Errorf("element %q: counting the attempt of a holder that died: %w", d.Name, err)
			switch {
			case kept && errors.Is(err, ErrLost):
				return 0, err
			case kept:
				return 0, store.AsUnknown(err)
			}
			return 0, errors.Join(err, c.releaseBatch([]store.Release{back})[0])
		}
	}
	if state.Failed {
		failed := &FailedError{ID: d.Name, Attempts: state.Attempts, Reason: state.Error}
		if crashed && kept {
			return 0, failed
		}
		return 0, errors.Join(failed, c.releaseBatch([]store.Release{back})[0])
	}
	return state.Attempts + 1, nil
}

// DoneDetached records an element that was claimed by ClaimDetached as processed, and releases it. Errors are as in
// Element.Done.
func (e *Elements) DoneDetached(ctx context.Context, d Detached) error {
	return e.endDetached(ctx, d, func(store.Record) (store.Release, error) {
		return store.Release{Mark: 1, State: []byte{}, Retain: e.retain}, nil
	})
}

// FailDetached records a failed attempt at an element that was claimed by ClaimDetached, and releases it. Errors are
// as in Element.Fail.
func (e *Elements) FailDetached(ctx context.Context, d Detached, reason error) error {
	return e.endDetached(ctx, d, func(r store.Record) (store.Release, error) {
		// If it is another's by now, or was released, the store decides whether this repeats the release or comes too late.
		state, err := parseElementState(d.Name, r.State)
		el := &Element{Lease: &Lease{holder: d.Holder}, of: e, id: d.Name, state: state}
		return el.failed(reason), err
	})
}

func (e *Elements) endDetached(ctx context.Context, d Detached, with func(store.Record) (store.Release, error)) error {
	if err := e.usable(); err != nil {
		return err
	}
	if d.Kind != KindElement || d.Job != e.job {
		return invalid("element", strconv.Quote(d.Name), "it is not an element of %q", e.job)
	}
	return e.client.Detached().release(ctx, d, with)
}

func parseElementState(id string, b []byte) (s elementState, err error) {
	if len(b) == 0 {
		return s, nil
	}
	err = json.Unmarshal(b, &s)
	if err == nil {
		err = errors.Join(counted("attempts", int64(s.Attempts)), counted("at", s.At))
	}
	if err != nil {
		return elementState{}, fmt.Errorf("element %q: its state is not soloist's: %w", id, err)
	}
	return s, nil
}
