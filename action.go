package soloist

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// The verbs of an Action.
const (
	ActionRelease = "release"
	ActionPause   = "pause"
	ActionResume  = "resume"
	ActionTrigger = "trigger"
	ActionForget  = "forget" // a job
	ActionRetry   = "retry"  // an element
)

// An Action is a change that was made with an Admin.
type Action struct {
	At     time.Time `json:"at"` // by the clock of the process that did it
	By     string    `json:"by"` // replica, or who was passed to Admin.By
	Verb   string    `json:"verb"`
	Kind   Kind      `json:"kind"`
	Name   string    `json:"name"`
	Job    string    `json:"job,omitempty"`    // of an element
	Permit int       `json:"permit,omitempty"` // of a semaphore
	Token  int64     `json:"token,omitempty"`  // of the lease that was released
	Holder string    `json:"holder,omitempty"` // the holder of that lease
	Reason string    `json:"reason,omitempty"`
}

// mostActions is how many actions are kept.
const mostActions = 100

// Actions lists the last 100 changes that were made with an Admin, the newest last. It includes those that may have
// been made: their outcome was unknown.
func (a *Admin) Actions(ctx context.Context) iter.Seq2[Action, error] {
	return func(yield func(Action, error) bool) {
		records, err := a.client.peek(ctx, []string{a.client.names.prefix + nameActions})
		var actions []Action
		if err == nil {
			actions, err = parseActions(records[0].State)
		}
		if err != nil {
			yield(Action{}, fmt.Errorf("listing actions: %w", err))
			return
		}
		for _, action := range actions {
			if !yield(action, nil) {
				return
			}
		}
	}
}

func parseActions(b []byte) (actions []Action, err error) {
	if len(b) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(b, &actions); err != nil {
		return nil, unreadableRecord(fmt.Errorf("the record of actions is not soloist's: %w", err))
	}
	return actions, nil
}

// A halfDone is the error of a change that was made in part, or that may have been made. It is ErrUnknown.
type halfDone struct{ error }

func (h halfDone) Unwrap() error { return h.error }

// released returns the outcome of a release that makes a change. If the change may have been made, the outcome is a halfDone.
func released(err error) error {
	if errors.Is(err, ErrUnknown) {
		return halfDone{err}
	}
	return err
}

// note adds an action to the list of actions, unless err says that nothing was changed. It returns err, or why the
// action could not be added.
func (a *Admin) note(ctx context.Context, action Action, err error) error {
	if _, half := errors.AsType[halfDone](err); err != nil && !half {
		return err
	}
	if noted := a.add(ctx, action); err == nil && noted != nil {
		return store.AsUnknown(fmt.Errorf("it was done, but could not be added to the list of actions: %w", noted))
	}
	return err
}

// add adds an action to the list of actions.
func (a *Admin) add(ctx context.Context, action Action) error {
	action.At, action.By, action.Reason = time.Now().UTC().Truncate(time.Millisecond), a.by, shorten(action.Reason)
	l, err := a.client.plain(Options{TTL: controlTTL}).wait(ctx, target{shown: nameActions, name: a.client.names.prefix + nameActions})
	if err != nil {
		return err
	}
	actions, _ := parseActions(l.granted.State) // a state that cannot be read is overwritten
	return l.release(store.Release{State: actionsJSON(append(actions, action)), Retain: Forever})
}

// actionsJSON returns the state of the record of actions: without the oldest ones, if there are too many or they do not
// fit.
func actionsJSON(actions []Action) []byte {
	for actions = slices.Clone(actions[max(0, len(actions)-mostActions):]); ; actions = actions[1:] {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(actions) // of strings, numbers and times of four-digit years; it cannot fail
		if b.Len() <= store.MaxState || len(actions) == 1 {
			return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
		}
	}
}
