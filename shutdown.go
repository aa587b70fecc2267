package soloist

import (
	"context"
	"errors"
	"time"

	"github.com/soloist-dev/soloist/internal/rand"
)

// Shutdown closes the client when its work has ended. It begins nothing more; Run and Lead end as if their context had ended; and it waits
// until all functions under Run, Lead, Do, Semaphore.Do and Process have returned. Then it releases every lease that is left, whose context ends with
// ErrClosed. If ctx ends first, Shutdown goes on as Close and returns the error of ctx, too.
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

// Close closes the client at once: it begins nothing more and cancels the contexts of all functions under leases, with the cause
// ErrInterrupted. Those that return within a RequestTimeout have their leases released; those that do not keep theirs until the TTL ends them,
// because releasing them would let others in. Every other lease is released. Close returns within four times the RequestTimeout, even if
// the store does not respond. It does not close the store. The error joins what could not be released. Every call of Close and Shutdown waits for the same end.
func (c *Client) Close() error {
	c.beginShutdown()
	c.interrupt(ErrInterrupted)
	<-c.over
	return c.closeErr
}

// beginShutdown makes the client begin nothing more, and end when its work has.
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

// end waits for the functions under leases, for a RequestTimeout only after c.interrupted has ended, and then ends all leases.
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
	c.interrupt(ErrClosed) // bounds what is left to do
	err := c.renewer.close()
	c.work.Wait()
	if rand.N(sweepOneIn) == 0 {
		c.sweep()
	}
	return err
}

// within waits for done, at most for d.
func within(done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(max(0, d))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
