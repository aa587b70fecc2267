package soloist

import (
	"context"
	"errors"
	"time"

	"github.com/soloist-dev/soloist/internal/rand"
)

// Shutdown closes the client when its work has ended. The client starts nothing new; Run and Lead end as if their
// context had ended, but no run is tried again here, except one with CrashGiveUp; and Shutdown waits until all functions
// under Run, Lead, Do, Semaphore.Do and Process have returned, and for the attempts that are left of such a run. Then it
// releases every remaining lease, whose context ends with ErrClosed. If ctx ends first, Shutdown continues as Close and
// its error includes that of ctx. It does not close the store.
func (c *Client) Shutdown(ctx context.Context) error {
	c.beginShutdown()
	select {
	case <-c.over:
		return c.closeErr
	case <-ctx.Done():
	}
	c.interrupt(ErrInterrupted)
	<-c.over
	return errors.Join(context.Cause(ctx), c.closeErr)
}

// Close closes the client without waiting for its work: it starts nothing new and cancels the contexts of all functions
// under leases, with the cause ErrInterrupted. If a function returns within a RequestTimeout, its lease is released. If
// it does not, its lease is left to expire, because releasing it would let another holder run beside it. So is the lease
// of a job whose run has ended and is not recorded by then: the next holder learns from that that there was one. Every other
// lease is released. Close returns within four times the RequestTimeout, even if the store does not respond. It does
// not close the store. Its error joins the errors of all leases that could not be released. Close and Shutdown can be
// called several times; all calls return when the client has ended.
func (c *Client) Close() error {
	c.beginShutdown()
	c.interrupt(ErrInterrupted)
	<-c.over
	return c.closeErr
}

// beginShutdown makes the client start nothing new, and end when its work has ended.
func (c *core) beginShutdown() {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		c.cancel(ErrClosed)
		go func() {
			c.closeErr = c.end()
			close(c.over)
		}()
	}
}

// end waits for the functions under leases, but at most a RequestTimeout once c.interrupted has ended. Then it ends all
// leases.
func (c *core) end() error {
	returned := make(chan struct{})
	go func() {
		c.runs.Wait()
		close(returned)
	}()
	select {
	case <-returned:
	case <-c.interrupted.Done():
		c.renewer.interrupt(context.Cause(c.interrupted))
		within(returned, c.cfg.RequestTimeout)
	}
	c.interrupt(ErrClosed) // bounds the remaining requests
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	err := c.renewer.close()
	c.work.Wait()
	if err == nil && rand.N(sweepOneIn) == 0 { // else the store may not answer that either
		c.sweep()
	}
	return err
}

// within waits until done is closed, at most for d.
func within(done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(max(0, d))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
