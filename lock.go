package soloist

import (
	"context"
	"errors"
)

// Do runs fn while this client holds the lock called name, and releases it afterwards. If the lock is held, Do returns ErrHeld immediately,
// or after Options.Wait; see also Options.Overdue. The context of fn ends when ctx does, when the lease is lost (the cause is ErrLost then), and when the client
// interrupts it to shut down (ErrInterrupted). Lease.Context lasts for as long as the lease is held: use it to finish what fn must not
// leave half done.
//
// Do returns the error of fn, joined with the error of the release. ErrLost means that the lease ended before fn did, so another holder may
// have run meanwhile. If fn panics, Do releases the lock and returns a *PanicError. If fn calls runtime.Goexit, Do releases the lock and
// the goroutine ends. Do cannot stop a function that ignores its context: it returns when fn returns.
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
	lease, err := c.acquire(ctx, t, c.opts.Wait != 0)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// do runs fn under the lease and releases it.
func (l *Lease) do(ctx context.Context, fn func(context.Context, *Lease) error) error {
	return l.run(ctx, Work{}, func(ctx context.Context) error { return fn(ctx, l) }, func(err, _ error) error {
		if released := l.Release(); released != nil {
			return errors.Join(err, released)
		}
		return err
	})
}

// run calls fn under the lease, inside the middleware. Then it calls end with the error of fn and with the cause if the context of fn had
// ended, and returns the result of end. run sets the fields of work that describe the lease.
func (l *Lease) run(ctx context.Context, work Work, fn func(context.Context) error, end func(err, cause error) error) error {
	work.Subject, work.Lease = l.subject, l
	ctx = l.work(ctx)
	l.busy.Store(true)
	return concluded(func() error { return l.core.handle(ctx, work, fn) }, func(err error) error {
		cause := context.Cause(ctx)
		ended := end(err, cause) // still busy: a release by Close before that of end would record nothing
		l.busy.Store(false)
		if errors.Is(err, errExited) { // no caller is waiting for it
			l.core.log.Warn("a function did not return", "kind", l.subject.Kind, "name", l.shown, "err", ended)
		}
		(*l.stop.Load())(errReleased)
		return ended
	})
}

// TryLock acquires the lock called name if it is free. Otherwise it returns a *HeldError, immediately but for Options.Overdue. The lease outlives ctx: the caller
// must release it, and stop working when its Context ends.
func (c *Client) TryLock(ctx context.Context, name string) (*Lease, error) {
	t, err := c.lockTarget(name)
	if err != nil {
		return nil, err
	}
	return c.acquire(ctx, t, false)
}

// Lock waits until it acquires the lock called name, ctx ends, or Options.Wait has passed. While it waits, it asks the store again when the
// name is released, if the store notifies, and when the other lease would expire. The waiters of one client are served in the order in
// which they called. The lease outlives ctx: the caller must release it, and stop working when its Context ends.
func (c *Client) Lock(ctx context.Context, name string) (*Lease, error) {
	t, err := c.lockTarget(name)
	if err != nil {
		return nil, err
	}
	return c.acquire(ctx, t, true)
}

func (c *Client) lockTarget(name string) (target, error) {
	full, err := c.names.name(kindLock, name)
	return target{kind: KindLock, shown: name, name: full}, err
}
