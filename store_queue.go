package soloist

import (
	"context"
	"errors"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// storeQueue returns the store's Queuer, unless the store has reported that it keeps no queues.
func (c *core) storeQueue(t target) (store.Queuer, bool) {
	q, ok := store.As[store.Queuer](c.store)
	return q, ok && len(t.names) <= 1 && t.mark == 0 && !c.noStoreQueue.Load()
}

// waitInStoreQueue waits in the store's queue until it is granted the name or ctx ends. It returns
// errors.ErrUnsupported if the store keeps no queues.
func (c *Client) waitInStoreQueue(ctx context.Context, q store.Queuer, t target, me *localWaiter) (*Lease, error) {
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	claim := store.Claim{Name: t.name, Holder: c.holderFor(t), TTL: c.opts.TTL}
	asked := false // the client may have a place in the queue
	trouble, pause := time.Time{}, newBackoff(c.cfg.RequestTimeout/8)
	var last error
	for pace := (pacer{}); ctx.Err() == nil; {
		before, begun := c.clock.earliest(), time.Now()
		grant, after, err := c.askStoreQueue(ctx, q, claim)
		switch {
		case err == nil:
			if !asked && after == 0 {
				me.setBusy(false)
			}
			l, err := c.adopt(caller, t, claim, grant, c.grantedAt(before, after))
			if !errors.Is(err, ErrLost) {
				return l, err
			}
			trouble, pause = time.Time{}, newBackoff(c.cfg.RequestTimeout/8)
			claim.Holder, asked, last, t.again = c.holderFor(t), false, err, false
			pace.took(ctx, time.Since(begun))
		case errors.Is(err, ErrHeld):
			trouble, pause = time.Time{}, newBackoff(c.cfg.RequestTimeout/8)
			asked, last = true, t.named(err)
			t.refused()
			pace.took(ctx, time.Since(begun))
		case errors.Is(err, ErrUnknown) && (trouble.IsZero() || time.Since(trouble) < 2*c.cfg.RequestTimeout):
			if trouble.IsZero() {
				trouble = time.Now()
			}
			asked, last, t.again = true, err, true
			pause.sleep(ctx)
		case last != nil && ctx.Err() != nil && !errors.Is(err, ErrUnknown): // it was not sent, so the last refusal is the reason
		default:
			if asked || errors.Is(err, ErrUnknown) {
				c.leaveStoreQueue(q, claim)
			}
			return nil, err
		}
	}
	if asked {
		c.leaveStoreQueue(q, claim)
	}
	return nil, c.waited(ctx, t, last)
}

// askStoreQueue makes one request, which returns soon after the holder's TTL at the latest. So the store knows that
// this client still waits, and the time between request and grant, in which clocks drift, is short.
func (c *Client) askStoreQueue(ctx context.Context, q store.Queuer, claim store.Claim) (grant store.Grant, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, claim.TTL+c.cfg.RequestTimeout)
	defer cancel()
	asked := c.clock.earliest()
	outs, err := observed(c.core, VerbQueue, func(ctx context.Context, claims []store.Claim) (_ []store.Outcome, err error) {
		grant, after, err = q.Queue(ctx, claims[0])
		return answered(grant, err)
	})(ctx, []store.Claim{claim})
	if err != nil {
		return store.Grant{}, 0, err
	}
	out := credible{c.store}.outcome("Queue", claim, outs[0])
	return out.Grant, min(after, c.clock.latest().Sub(asked)), out.Err // no lease begins after its grant is known
}

// grantedAt returns the earliest time at which a lease can have begun. before is when the request was sent; after is
// the store's measure of the time between request and grant. The clocks drift no more in that time than in a TTL, which
// the margin covers.
func (c *Client) grantedAt(before time.Time, after time.Duration) time.Time {
	drift := time.Duration(float64(c.opts.Margin) * float64(max(after, -after)) / float64(c.opts.TTL))
	return before.Add(after - drift)
}

// leaveStoreQueue gives up a place in the store's queue, in the background, and releases the name if it was handed over
// meanwhile.
func (c *core) leaveStoreQueue(q store.Queuer, claim store.Claim) {
	c.background(func() {
		ctx, cancel := c.cleanupContext(context.Background(), claim.TTL)
		defer cancel()
		for pause := newBackoff(c.cfg.RequestTimeout / 8); ; {
			request, done := context.WithTimeout(ctx, c.cfg.RequestTimeout)
			left, err := q.Leave(request, claim.Name, claim.Holder)
			done()
			switch {
			case err == nil && left, errors.Is(err, store.ErrClosed):
				return
			case err == nil:
				c.releaseOrphans([]store.Claim{claim}, c.clock.earliest())
				return
			}
			if !pause.sleep(ctx) {
				return
			}
		}
	})
}
