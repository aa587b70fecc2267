package soloist

import (
	"time"

	"github.com/soloist-dev/soloist/internal/rand"
)

// Close stops Run from starting anything and waits, for Config.Drain, for the functions that run under leases: of Run, Do,
// Process and Lead. Then it cancels their contexts, and after another TTL it leaves those that ignore that alone, and their
// leases to expire. Every other lease is released; its context ends with ErrClosed. What is to be cleaned up behind callers who have
// given up, such as a place in a line, is waited for until a RequestTimeout after Close was called. It does not close the store. The error
// joins what could not be released. Every call of Close waits for the same end and returns the same error.
func (c *Client) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		c.closeErr = c.close()
		close(c.over)
	}
	<-c.over
	return c.closeErr
}

func (c *core) close() error {
	c.cancel(ErrClosed)
	returned := make(chan struct{})
	go func() {
		c.runs.Wait()
		close(returned)
	}()
	if !within(returned, c.cfg.Drain) {
		c.renewer.cancelAll(ErrClosed)
		within(returned, max(c.cfg.TTL, time.Second))
	}
	err := c.renewer.close()
	c.work.Wait()
	if rand.N(sweepOneIn) == 0 {
		c.sweep()
	}
	return err
}

// within waits for done, at most for d.
func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(max(0, d))
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
