package soloist

import (
	"context"
	"time"

	"github.com/soloist-dev/soloist/internal/rand"
)

// A backoff spaces repetitions of something that failed: 1/16 of its longest wait at first, doubling.
type backoff struct{ next, longest time.Duration }

func newBackoff(longest time.Duration) *backoff {
	return &backoff{max(longest/16, time.Millisecond), max(longest, time.Millisecond)}
}

// sleep waits for the next pause and says false when ctx ended instead.
func (b *backoff) sleep(ctx context.Context) bool { return sleep(ctx, b.pause()) }

// pause is the next pause, with jitter, so that those who began together do not go on together.
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

// A pacer slows down a loop whose steps come back at once, again and again, because a store does not do what it is asked to.
type pacer struct {
	quick int // steps in a row
	pause *backoff
}

// took notes how long a step took, and waits if there were several that took no time.
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
