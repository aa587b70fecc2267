package soloist

import (
	"context"
	"errors"
)

// Do runs fn while this client holds the lock called name, and releases it afterwards. The context of fn ends when ctx does
// and when the lease is lost. A name that is held is ErrHeld at once, or after Options.Wait.
//
// The error is that of fn, joined with the release's: ErrLost says that the lease ended before fn did, so that somebody else
// may have run meanwhile. If fn panics or calls runtime.Goexit, the lock is released, and the panic or the end of the goroutine goes on. Do has no way to stop an fn that ignores its
// context: it returns when fn does.
func (c *Client) Do(ctx context.Context, name string, fn func(ctx context.Context, lease *Lease) error) error {
	t, err := c.lockTarget(name)
	if err != nil {
		return err
	}
	return c.under(ctx, t, fn)
}

// under runs fn under a lease of t.
func (c *Client) under(ctx context.Context, t target, fn func(context.Context, *Lease) error) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.runs.Done()
	acquire := c.try
	if c.opts.Wait != 0 {
		acquire = c.wait
	}
	lease, err := acquire(ctx, ctx, t)
	if err != nil {
		return err
	}
	return lease.run(fn)
}

// run calls fn under the lease and releases it.
func (l *Lease) run(fn func(context.Context, *Lease) error) (err error) {
	l.busy.Store(true)
	returned := false
	defer func() {
		l.busy.Store(false)
		released := l.Release()
		switch {
		case released == nil:
		case returned:
			err = errors.Join(err, released)
		default: // fn panics or ends its goroutine: nobody is there to be told
			l.core.log.Warn("a function did not return, and its lease was not released", "name", l.shown, "err", released)
		}
	}()
	err = fn(&l.ctx, l)
	returned = true
	return err
}

// TryLock takes the lock called name if it is free, else answers a *HeldError. The lease outlives ctx: release it.
func (c *Client) TryLock(ctx context.Context, name string) (*Lease, error) {
	t, err := c.lockTarget(name)
	if err != nil {
		return nil, err
	}
	return c.try(ctx, context.WithoutCancel(ctx), t)
}

// Lock waits for the lock called name until it gets it, ctx ends, or Options.Wait has passed. It wakes when the name is
// released, if the store can tell, and when its lease would end. Those who wait in one client are served in the order they
// came. The lease outlives ctx: release it.
func (c *Client) Lock(ctx context.Context, name string) (*Lease, error) {
	t, err := c.lockTarget(name)
	if err != nil {
		return nil, err
	}
	return c.wait(ctx, context.WithoutCancel(ctx), t)
}

func (c *Client) lockTarget(name string) (target, error) {
	full, err := c.names.name(kindLock, name)
	return target{shown: name, name: full}, err
}
