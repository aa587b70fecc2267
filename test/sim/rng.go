package sim

import "time"

// An rng draws numbers from a seed (splitmix64). Making one costs nothing, so that each request and each thread has its own, and
// what one of them draws does not depend on the others.
type rng struct{ state uint64 }

func newRNG(seed uint64) *rng { return &rng{seed} }

// Uint64 makes it a source for math/rand/v2.
func (r *rng) Uint64() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// upTo returns 0 to n-1.
func (r *rng) upTo(n int) int { return int(r.Uint64() % uint64(n)) }

// span returns a duration up to d, in nanoseconds, so that hardly two things happen at the same instant.
func (r *rng) span(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(r.Uint64() % uint64(d))
}

func (r *rng) chance(percent int) bool { return r.upTo(100) < percent }
