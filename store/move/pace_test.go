package move

import (
	"testing"
	"time"
)

// Batches grow while the stores are quick, and shrink while they are slow, within bounds; a batch that was not full says nothing.
func TestPace(t *testing.T) {
	p := newPace()
	for _, step := range []struct {
		n    int
		took time.Duration
		size int // after it
	}{
		{16, quickly, 16},
		{15, quickly - 1, 16},
		{16, quickly - 1, 32},
		{32, slowly, 32},
		{16, slowly + 1, 32},
		{17, slowly + 1, 16},
		{16, slowly + 1, 8}, {8, slowly + 1, 4}, {4, slowly + 1, 2}, {2, slowly + 1, 1}, {1, slowly + 1, 1},
		{1, 0, 2}, {2, 0, 4}, {4, 0, 8}, {8, 0, 16}, {16, 0, 32}, {32, 0, 64}, {64, 0, 128}, {128, 0, 256}, {256, 0, 512}, {512, 0, 1024}, {1024, 0, 1024},
	} {
		was := p.now()
		if p.took(step.n, step.took); p.now() != step.size {
			t.Errorf("after a batch of %d of %d in %v: %d, want %d", step.n, was, step.took, p.now(), step.size)
		}
	}
}
