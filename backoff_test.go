package soloist

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Pauses double up to the longest, and each is shortened by at most half of it, at random.
func TestPausesGrow(t *testing.T) {
	for _, longest := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, time.Second} {
		b := newBackoff(longest)
		full := max(longest/16, time.Millisecond)
		differ := false
		for i := range 12 {
			got := b.pause()
			if got < full/2 || got > full {
				t.Errorf("pause %d of at most %v: %v, want %v to %v", i+1, longest, got, full/2, full)
			}
			differ = differ || got != full
			full = min(2*full, max(longest, time.Millisecond))
		}
		if !differ {
			t.Errorf("with pauses of at most %v there is no jitter", longest)
		}
	}
}

// A loop whose steps take no time is slowed down after a few of them, and one step that takes its time undoes that.
func TestPacerSlowsDownWhatDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		begin := time.Now()
		quick := func(n int) time.Duration {
			for range n {
				p.took(t.Context(), time.Millisecond)
			}
			return time.Since(begin)
		}
		if waited := quick(8); waited != 0 {
			t.Errorf("8 quick steps waited for %v", waited)
		}
		if waited := quick(4); waited < time.Second/8 {
			t.Errorf("12 quick steps waited for %v only", waited)
		}
		p.took(t.Context(), time.Second)
		begin = time.Now()
		if waited := quick(8); waited != 0 {
			t.Errorf("8 quick steps after a slow one waited for %v", waited)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if p.took(ctx, 0); time.Since(begin) != 0 {
			t.Errorf("waited for %v although the context had ended", time.Since(begin))
		}
	})
}
