package soloist

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrAllPaused reports that all jobs are paused, so that one of them cannot be resumed alone.
var ErrAllPaused = errors.New("all jobs are paused")

// PauseAll pauses all jobs of the store and namespace as Pause does, including those that replicas add later, until
// ResumeAll. Called again, it replaces the reason.
func (a *Admin) PauseAll(ctx context.Context, reason string) error {
	return a.controlAll(ctx, Action{Verb: ActionPause, Reason: reason}, func(ctl *control) {
		ctl.Paused = &Pause{Reason: shorten(reason), By: a.by, At: time.Now(), All: true}
	})
}

// ResumeAll ends the pause of PauseAll: scheduled times that are due after ResumeAll returns are run again. Jobs that
// were paused by Pause stay paused.
func (a *Admin) ResumeAll(ctx context.Context) error {
	return a.controlAll(ctx, Action{Verb: ActionResume}, resume)
}

// AllPaused returns why all jobs are paused, or nil if PauseAll is not in effect.
func (a *Admin) AllPaused(ctx context.Context) (*Pause, error) {
	ctl, err := a.client.controlOfAll(ctx)
	if err != nil {
		return nil, err
	}
	return ctl.Paused, nil
}

// controlAll changes the commands to all jobs, notifies the replicas, and logs the action.
func (a *Admin) controlAll(ctx context.Context, action Action, change func(*control)) error {
	action.Kind = KindJob
	c := a.client.plain(Options{TTL: controlTTL})
	err := c.change(ctx, target{shown: nameControlOfAll, name: c.names.prefix + nameControlOfAll}, func(ctl *control) error {
		change(ctl)
		return nil
	})
	if err = a.note(ctx, action, err); err != nil {
		return fmt.Errorf("%s of all jobs: %w", action.Verb, err)
	}
	return nil
}

// controlOfAll reads the commands to all jobs. If they cannot be read, all jobs count as paused, and the error says why.
func (c *Client) controlOfAll(ctx context.Context) (control, error) {
	records, err := c.peek(ctx, []string{c.names.prefix + nameControlOfAll})
	if err != nil {
		return unreadable, fmt.Errorf("reading what was asked of all jobs: %w", err)
	}
	ctl, err := controlOf(records[0], time.Now())
	if err != nil {
		return unreadable, fmt.Errorf("what was asked of all jobs: %w", err)
	}
	return ctl, nil
}

// under returns what applies to a job: its own commands, and those to all jobs.
func (c control) under(all control) control {
	if c.Paused == nil {
		c.Paused = all.Paused
	}
	c.Resumed = max(c.Resumed, all.Resumed)
	return c
}

// notAllPaused returns ErrAllPaused, with the pause, if all jobs are paused.
func (c *Client) notAllPaused(ctx context.Context) error {
	ctl, err := c.controlOfAll(ctx)
	if err == nil && ctl.Paused != nil {
		err = fmt.Errorf("%w, by %s: %s", ErrAllPaused, ctl.Paused.By, ctl.Paused.Reason)
	}
	return err
}
