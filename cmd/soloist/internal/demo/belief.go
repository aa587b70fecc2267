package demo

import (
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/fleet"
)

// A belief follows until when the holder of a lease may act on it, by what its own client says. The process can be
// paused between any two instructions, so the clock is always read before the client is asked: the belief may then seem
// to end earlier than it does, but never later.
type belief struct {
	lease *soloist.Lease
	until time.Duration // as fleet.Now
}

func believe(lease *soloist.Lease) *belief {
	b := &belief{lease: lease}
	b.look()
	return b
}

// look notes until when the lease is held, and reports whether it is.
func (b *belief) look() bool {
	now := fleet.Now()
	left := b.lease.Left()
	if left > 0 {
		b.until = max(b.until, now+left)
	}
	return left > 0
}

// end returns the time now, and until when the lease was believed to be held.
func (b *belief) end() (now, held time.Duration) {
	now = fleet.Now()
	if b.lease.Err() == nil {
		return now, now
	}
	return now, min(now, b.until)
}
