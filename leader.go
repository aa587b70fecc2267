package soloist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Lead runs fn while this client holds the leadership called name. It waits until it is elected, and again whenever the leadership was lost
// and fn has returned. If fn returns while this client leads, Lead returns the error of fn. When ctx ends or the client shuts down, Lead
// waits for fn, releases the leadership and returns nil. An error then means that fn failed for another reason than ctx, or that the
// leadership could not be released.
//
// The context of fn ends when ctx does, when the leadership is lost, and as soon as the client begins to shut down. Lease.Context lasts for
// as long as the leadership is held: use it to finish, for example with Lease.SetState. Panics and runtime.Goexit are handled as in Do. If
// the store fails, also at the start, Lead logs the error and retries, unless the first request fails with store.ErrUnusable or
// fs.ErrPermission.
func (c *Client) Lead(ctx context.Context, name string, fn func(ctx context.Context, lease *Lease) error) error {
	t, err := c.leaderTarget(name)
	if err != nil {
		return err
	}
	if err := c.enter(); err != nil {
		return err
	}
	defer c.runs.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(ErrInterrupted) })()
	t.tried = new(bool)
	for {
		lease, err := c.campaign(ctx, t)
		switch {
		case err == nil:
		case ctx.Err() != nil || c.ctx.Err() != nil:
			return nil
		default:
			return err
		}
		if err, led := lease.lead(ctx, fn); led {
			return err
		}
	}
}

// Campaign waits until this client holds the leadership called name, or ctx ends. The leadership outlives ctx: the caller must release it,
// and stop working when its Context ends. If the store fails, Campaign logs the error and retries, unless the first request fails with
// store.ErrUnusable or fs.ErrPermission.
func (c *Client) Campaign(ctx context.Context, name string) (*Lease, error) {
	t, err := c.leaderTarget(name)
	if err != nil {
		return nil, err
	}
	t.tried = new(bool)
	return c.campaign(ctx, t)
}

// Leader returns a description of the leadership called name. Its Replica is "" if no replica leads. Leader makes one request, which writes
// nothing. Another replica may lead by the time that it returns: use it to find the leader, not to exclude others.
func (c *Client) Leader(ctx context.Context, name string) (LeaseInfo, error) {
	t, err := c.leaderTarget(name)
	if err == nil {
		err = c.usable()
	}
	if err != nil {
		return LeaseInfo{}, err
	}
	records, err := c.peek(ctx, []string{t.name})
	if err != nil {
		return LeaseInfo{}, err
	}
	if records[0].Free() {
		return LeaseInfo{Kind: t.kind, Name: name}, nil
	}
	return leaseInfo(t.kind, name, records[0]), nil
}

func (c *Client) leaderTarget(name string) (target, error) {
	full, err := c.names.name(kindLeader, name)
	return target{kind: KindLeader, shown: name, name: full}, err
}

// campaign waits for the leadership, for as long as ctx allows. Only before a request was made can an error be permanent.
func (c *Client) campaign(ctx context.Context, t target) (*Lease, error) {
	patient := &Client{core: c.core, given: c.given, opts: c.opts, err: c.err}
	patient.opts.Wait = 0
	wait := newBackoff(5 * time.Second)
	for {
		lease, err := patient.acquire(ctx, t, true)
		first := !*t.tried
		*t.tried = true
		if err == nil || ctx.Err() != nil || patient.usable() != nil || errors.Is(err, store.ErrClosed) || first && permanent(err) {
			return lease, err
		}
		c.log.Warn("no leadership: a request to the store has failed", "name", t.shown, "err", err)
		if !wait.sleep(ctx) {
			return nil, c.waited(ctx, t, err)
		}
	}
}

// permanent reports whether the first request failed in a way that a retry does not change: the input is invalid, the store is closed, its
// tables or a permission are missing. Later requests that fail in this way are retried, because somebody may be changing permissions or
// tables.
func permanent(err error) bool {
	for _, lasting := range []error{store.ErrInvalid, store.ErrClosed, ErrClosed, store.ErrUnusable, fs.ErrPermission} {
		if errors.Is(err, lasting) {
			return true
		}
	}
	return false
}

// lead runs one term. It reports whether the term ended for another reason than the loss of the lease.
func (l *Lease) lead(ctx context.Context, fn func(context.Context, *Lease) error) (error, bool) {
	err := l.do(ctx, func(ctx2 context.Context, l *Lease) error {
		err := fn(ctx2, l)
		asked := ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
		closing := l.core.ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ErrInterrupted)) // ctx may end a moment after ctx2
		if asked || closing {
			return nil // it stopped because of its context
		}
		return err
	})
	if lost := errors.Is(context.Cause(&l.ctx), ErrLost); lost && ctx.Err() == nil {
		l.core.log.Warn("leadership lost; trying to get it again", "name", l.shown, "err", err)
		return nil, false
	}
	if err != nil {
		return fmt.Errorf("leading %q: %w", l.shown, err), true
	}
	return nil, true
}
