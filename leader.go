package soloist

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Lead runs fn while this client is the leader called name. It waits until it is elected, and again whenever fn has
// returned because the leadership was lost; fn's context ends then. It returns when ctx ends or when fn returns while it
// leads: fn's error, after giving the leadership up. A store that does not answer is logged and asked again.
func (c *Client) Lead(ctx context.Context, name string, fn func(ctx context.Context, lease *Lease) error) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.runs.Done()
	for {
		lease, err := c.campaign(ctx, ctx, name)
		if err != nil {
			return err
		}
		if err, led := lease.lead(ctx, fn); led || ctx.Err() != nil {
			return err
		}
	}
}

// Campaign waits until this client is the leader called name, or ctx or Options.Wait ends. The leadership outlives ctx: release
// it. A store that does not answer is logged and asked again.
func (c *Client) Campaign(ctx context.Context, name string) (*Lease, error) {
	return c.campaign(ctx, context.WithoutCancel(ctx), name)
}

func (c *Client) campaign(ctx, parent context.Context, name string) (*Lease, error) {
	full, err := c.names.name(kindLeader, name)
	if err != nil {
		return nil, err
	}
	for wait := newBackoff(5 * time.Second); ; {
		lease, err := c.wait(ctx, parent, target{shown: name, name: full})
		if err == nil || ctx.Err() != nil || c.usable() != nil || errors.Is(err, ErrHeld) {
			return lease, err
		}
		c.log.Warn("standing for leader", "name", name, "err", err)
		if !wait.sleep(ctx) {
			return nil, context.Cause(ctx)
		}
	}
}

// lead runs one term and says whether it ended for another reason than the loss of the lease.
func (l *Lease) lead(ctx context.Context, fn func(context.Context, *Lease) error) (error, bool) {
	err := l.run(fn)
	if lost := errors.Is(context.Cause(&l.ctx), ErrLost); lost && ctx.Err() == nil {
		l.core.log.Warn("leadership lost; standing again", "name", l.shown, "err", err)
		return nil, false
	}
	if err != nil {
		return fmt.Errorf("leading %q: %w", l.shown, err), true
	}
	return nil, true
}
