package soloist

import (
	"context"
	"errors"

	"github.com/soloist-dev/soloist/store"
)

// sweepOneIn is the reciprocal of the probability that a client sweeps when it closes. Clients of commands live for a
// moment only, so not every one should sweep.
const sweepOneIn = 16

// sweep lets the store delete some of the records that it may delete, if the backend does not do that itself. No client
// is responsible for it, so every client does some of it: now and then while it runs jobs, and sometimes when it
// closes.
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
