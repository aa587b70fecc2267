package soloist

import (
	"context"
	"errors"

	"github.com/soloist-dev/soloist/store"
)

// sweepOneIn: of clients that live for a moment only, as those of commands, one in so many sweeps.
const sweepOneIn = 16

// sweep lets the store forget some of what it may forget, if that is not done by the backend. It is nobody's duty, so
// every client does some of it: now and then while it runs jobs, and sometimes when it closes.
func (c *core) sweep() {
	s, ok := store.As[store.Sweeper](c.store)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.RequestTimeout)
	defer cancel()
	if _, err := s.Sweep(ctx, batchLimit); err != nil && !errors.Is(err, store.ErrClosed) && !errors.Is(err, errors.ErrUnsupported) {
		c.log.Warn("sweeping the store", "err", err)
	}
}
