package soloist

import (
	"context"
	"time"

	"github.com/soloist-dev/soloist/internal/rand"
)

// A backoff computes the pauses between retries: 1/16 of the longest pause at first, then doubling.
type backoff struct{ next, longest time.Duration }

func newBackoff(longest time.Duration) *backoff {
	return &backoff{max(longest/16, time.Millisecond), max(longest, time.Millisecond)}
}

// sleep waits for the next pause. It reports false if ctx ended before.
func (b *backoff) sleep(ctx context.Context) bool { return sleep(ctx, b.pause()) }

// pause returns the next pause, with jitter, so that retries that began together do not stay together.
func (b *backoff) pause() time.Duration {
	d := b.next/2 + rand.N(b.next/2+1)
	b.next = min(2*b.next, b.longest)
	return d
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A pacer slows down a loop whose steps return immediately, again and again, because a store does not wait as
// requested.
type pacer struct {
	quick int // steps in a row
	pause *backoff
}

// took records how long a step took, and waits if several steps in a row took no time.
func (p *pacer) took(ctx context.Context, step time.Duration) {
	const atOnce, most = 5 * time.Millisecond, 8
	if step >= atOnce {
		p.quick = 0
		return
	}
	if p.quick == 0 {
		p.pause = newBackoff(time.Second)
	}
	if p.quick++; p.quick > most {
		p.pause.sleep(ctx)
	}
}
