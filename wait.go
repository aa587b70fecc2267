package soloist

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/internal/rand"
	"github.com/soloist-dev/soloist/store"
)

// wait tries until it acquires a lease, ctx ends, or Options.Wait has passed if it is positive. Of all local waiters
// for the same thing, only the first asks the store; the others wait behind it in the order in which they called.
func (c *Client) wait(ctx context.Context, t target) (*Lease, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	if c.opts.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = bounded(ctx, c.opts.Wait)
		defer cancel()
	}
	me := c.waiters.join(t.waitKey())
	defer me.leave()
	if !me.untilFirst(ctx, c.ctx) || !c.outlast(ctx, t, me) {
		return nil, c.waited(ctx, t, me.held(t))
	}
	var wake <-chan struct{} // nil without a subscription
	stop := func() {}
	defer func() { stop() }()
	var last *HeldError // the last refusal
	var pace refusals
	for poll := newBackoff(time.Second); ; {
		if q, ok := c.storeQueue(t); ok && me.busy() {
			l, err := c.waitInStoreQueue(ctx, q, t, me)
			if !errors.Is(err, errors.ErrUnsupported) {
				me.tellNext(l)
				return l, err
			}
			c.noStoreQueue.Store(true)
		}
		subscribe := wake == nil
		if subscribe && (last != nil || me.busy()) { // before the claim: a release between its refusal and the watch would not be noticed
			stop()
			wake, stop = c.watch(ctx, t)
			subscribe = false
		}
		l, err := c.try(ctx, t)
		held, isHeld := errors.AsType[*HeldError](err)
		if !isHeld {
			switch {
			case err == nil && last == nil:
				me.setBusy(false)
			case err != nil && ctx.Err() != nil:
				if last != nil && !errors.Is(err, ErrUnknown) { // it was not sent, so the last refusal is the reason
					err = last
				}
				err = c.waited(ctx, t, err)
			}
			me.tellNext(l)
			return l, err
		}
		last = held
		t.refused()
		me.setBusy(true)
		if _, ok := c.storeQueue(t); ok {
			continue
		}
		if subscribe {
			if wake, stop = c.watch(ctx, t); wake != nil {
				continue
			}
		}
		pause := pace.refused(ctx, last.Token, last.Left)
		if wake == nil { // the store does not notify of a release
			pause = min(pause, poll.pause())
		}
		if !c.pause(ctx, pause, &wake, me) {
			return nil, c.waited(ctx, t, last)
		}
	}
}

// bounded returns a context that ends with ctx, and when wait has passed.
func bounded(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, wait, waitOver(wait))
}

// A waitOver is the error of a wait that has taken as long as it may. Its text is made when somebody reads it: thousands may wait, with little memory each.
type waitOver time.Duration

func (w waitOver) Error() string {
	return fmt.Sprintf("the wait of %v is over: %v", time.Duration(w), context.DeadlineExceeded)
}

func (w waitOver) Unwrap() error { return context.DeadlineExceeded }

// outlast waits while an earlier waiter of this client holds the lease: until then there is no need to ask the store.
// It reports false if ctx or the client ended. It does not wait for a semaphore, because another permit may be free.
func (c *Client) outlast(ctx context.Context, t target, me *localWaiter) bool {
	if me.predecessor == nil || len(t.names) > 1 {
		return true
	}
	var none <-chan struct{}
	for left := me.predecessor.Left(); left > 0; left = me.predecessor.Left() { // Left grows when the lease is renewed, and is 0 once it is lost
		if !c.pause(ctx, left, &none, me) {
			return false
		}
	}
	return true
}

// watch subscribes to releases of the target until stop is called. wake is nil if the store cannot notify, or does not do so in time.
func (c *Client) watch(ctx context.Context, t target) (wake <-chan struct{}, stop context.CancelFunc) {
	w, ok := store.As[store.Watcher](c.store)
	if !ok {
		return nil, func() {}
	}
	ctx, stop = context.WithCancel(ctx)
	late := time.AfterFunc(c.cfg.RequestTimeout, stop)
	wake, err := w.Watch(ctx, t.all())
	if err != nil || !late.Stop() {
		return nil, stop
	}
	return wake, stop
}

// refusals slow down a waiter that is refused because of the same lease again and again, at once each time, although it was told
// that a name had become free, or that the lease was about to end.
type refusals struct {
	token int64 // of the lease that was in the way last
	same  int   // refusals in a row because of that lease, none of them long after the one before
	last  time.Time
	idle  *backoff
}

// refused waits, if it must, after a refusal because of a lease. It returns how long to wait then, unless a release wakes the waiter.
func (r *refusals) refused(ctx context.Context, token int64, left time.Duration) time.Duration {
	const most, longest = 8, 100 * time.Millisecond
	now := time.Now()
	if r.same++; r.idle == nil || token != r.token || now.Sub(r.last) > 2*longest {
		r.token, r.same, r.idle = token, 1, newBackoff(longest)
	}
	if r.last = now; r.same > most {
		r.idle.sleep(ctx)
	}
	return min(left, store.MaxTTL) + rand.N(20*time.Millisecond)
}

// pause waits for d or for a release. It reports false if ctx or the client ended.
func (c *Client) pause(ctx context.Context, d time.Duration, wake *<-chan struct{}, me *localWaiter) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case _, open := <-*wake:
		if !open { // the subscription is lost, perhaps with the connection: do not retry in a tight loop
			*wake = nil
			sleep(ctx, min(d, 100*time.Millisecond))
		}
	case <-me.wake:
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	return ctx.Err() == nil && c.ctx.Err() == nil
}

// waited returns the error of a wait for t that ended without a lease. last is the error of the last attempt, or nil if
// none was made.
func (c *Client) waited(ctx context.Context, t target, last error) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	cause := context.Cause(ctx)
	if last == nil {
		last = cause
	}
	if errors.Is(last, cause) || errors.Is(last, ctx.Err()) {
		return fmt.Errorf("gave up waiting for %q: %w", t.shown, last)
	}
	return fmt.Errorf("%w; gave up waiting: %w", last, cause)
}
