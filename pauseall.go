package soloist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// PauseAll pauses all registered jobs that are not paused, as Pause does, and returns how many it paused. A job that is
// added later is not paused.
func (a *Admin) PauseAll(ctx context.Context, reason string) (int, error) {
	pause := Pause{Reason: shorten(reason), By: a.client.cfg.Replica, At: time.Now(), All: true}
	return a.controlAll(ctx, Action{Verb: ActionPause, Reason: reason}, func(ctl *control) bool {
		if ctl.Paused != nil {
			return false
		}
		ctl.Paused = &pause
		return true
	})
}

// ResumeAll ends the pauses that PauseAll made, and returns how many it ended. Jobs that were paused by Pause stay
// paused.
func (a *Admin) ResumeAll(ctx context.Context) (int, error) {
	return a.controlAll(ctx, Action{Verb: ActionResume}, func(ctl *control) bool {
		if ctl.Paused == nil || !ctl.Paused.All {
			return false
		}
		ctl.Paused, ctl.Resumed = nil, time.Now().UnixMilli()
		return true
	})
}

// controlAll changes the commands to all jobs, in few requests, and logs the action. change reports whether it changed
// anything.
func (a *Admin) controlAll(ctx context.Context, action Action, change func(*control) bool) (changed int, err error) {
	c := a.client.With(Options{TTL: controlTTL})
	var bad faults
	var names []string
	prefix := c.names.prefix + kindJob
	for r, err := range c.list(ctx, prefix) {
		if bad.add(err); err == nil && !forgotten(r) {
			names = append(names, c.names.prefix+kindControl+strings.TrimPrefix(r.Name, prefix))
		}
	}
	for wait := newBackoff(time.Second); len(names) > 0; {
		n, again, err := c.changeSome(ctx, names[:min(len(names), batchLimit)], change, &bad)
		changed += n
		if err != nil {
			bad.add(err)
			break
		}
		if len(again) > 0 && !wait.sleep(ctx) {
			bad.add(context.Cause(ctx))
			break
		}
		names = slices.Concat(again, names[min(len(names), batchLimit):])
	}
	action.Kind = KindJob
	if changed > 0 {
		bad.add(a.note(ctx, action))
	}
	if err := bad.err(); err != nil {
		return changed, fmt.Errorf("%s of all jobs: %w", action.Verb, err)
	}
	return changed, nil
}

// changeSome changes control records in one batch and notifies the replicas. It returns how many it changed, and which
// ones another client holds just now.
func (c *Client) changeSome(ctx context.Context, names []string, change func(*control) bool, bad *faults) (changed int, again []string, err error) {
	claims := make([]store.Claim, len(names))
	for i, name := range names {
		claims[i] = store.Claim{Name: name, Holder: c.newHolder(), TTL: controlTTL}
	}
	outs, _, err := c.claimBatch(ctx, claims, c.clock.earliest())
	if err != nil {
		return 0, nil, err
	}
	var back, rels []store.Release
	for i, out := range outs {
		switch {
		case errors.Is(out.Err, ErrHeld):
			again = append(again, names[i])
			continue
		case out.Err != nil:
			bad.add(out.Err)
			continue
		}
		ctl, err := parseControl(out.Grant.State)
		if err != nil {
			bad.add(fmt.Errorf("%q: %w", names[i], err))
		}
		rel := c.releaseOfGrant(claims[i], out.Grant)
		if err != nil || !change(&ctl) {
			back = append(back, rel)
			continue
		}
		rel.State, rel.Retain = ctl.json(), Forever
		rels = append(rels, rel)
	}
	if len(back) > 0 {
		_ = c.releaseBatch(back)
	}
	if len(rels) == 0 {
		return 0, again, nil
	}
	errs, err := c.tellChanged(ctx, rels)
	for i, err := range errs {
		switch {
		case err == nil:
			changed++
		case errors.Is(err, ErrLost): // it took longer than the TTL of the record
			again = append(again, rels[i].Name)
		default:
			bad.add(err)
		}
	}
	return changed, again, err
}

// tellChanged writes control records and notifies the replicas.
func (c *Client) tellChanged(ctx context.Context, rels []store.Release) ([]error, error) {
	news, err := c.announce(ctx)
	if err != nil {
		for i := range rels {
			rels[i].State = nil
		}
		return nil, errors.Join(append(c.releaseBatch(rels), err)...)
	}
	errs := c.releaseBatch(rels)
	return errs, c.announced(ctx, news)
}
