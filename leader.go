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
	full, err := c.names.name(kindLeader, name)
	if err != nil {
		return err
	}
	if err := c.enter(); err != nil {
		return err
	}
	defer c.runs.Done()
	t := target{shown: name, name: full}
	for wait := newBackoff(5 * time.Second); ; {
		lease, err := c.wait(ctx, ctx, t)
		switch {
		case err == nil:
			wait = newBackoff(5 * time.Second)
			if err, led := lease.lead(ctx, fn); led || ctx.Err() != nil {
				return err
			}
		case ctx.Err() != nil || c.usable() != nil || errors.Is(err, ErrHeld):
			return err
		default:
			c.log.Warn("standing for leader", "name", name, "err", err)
			if !wait.sleep(ctx) {
				return ctx.Err()
			}
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
