package load

import (
	"math/bits"
	"time"
)

// Times counts durations in buckets that are at most 1/32 of their value wide, so that a percentile is off by no more
// than that. The zero value is empty. It is not safe for concurrent use.
type Times struct {
	buckets [bucketCount]uint32
	n       int64
	longest time.Duration
}

const (
	steps       = 32 // buckets for each doubling
	stepBits    = 5
	bucketCount = (64 - stepBits) * steps
)

func bucketOf(d time.Duration) int {
	v := uint64(max(0, d))
	if v < steps {
		return int(v)
	}
	shift := bits.Len64(v) - stepBits - 1
	return (shift+1)*steps + int(v>>shift) - steps
}

// middle returns the duration in the middle of a bucket.
func middle(bucket int) time.Duration {
	if bucket < steps {
		return time.Duration(bucket)
	}
	shift := bucket/steps - 1
	low := uint64(bucket%steps+steps) << shift
	return time.Duration(low + 1<<shift/2)
}

// Add counts one duration.
func (t *Times) Add(d time.Duration) {
	t.buckets[bucketOf(d)]++
	t.n++
	t.longest = max(t.longest, d)
}

// Merge adds the durations of other.
func (t *Times) Merge(other *Times) {
	for i, n := range other.buckets {
		t.buckets[i] += n
	}
	t.n += other.n
	t.longest = max(t.longest, other.longest)
}

// Count returns the number of durations.
func (t *Times) Count() int64 { return t.n }

// Max returns the longest duration.
func (t *Times) Max() time.Duration { return t.longest }

// Quantile returns the duration that a share q of all does not exceed: 0.5 is the median. It returns 0 if there are
// none.
func (t *Times) Quantile(q float64) time.Duration {
	rank := max(1, int64(q*float64(t.n)+0.5))
	var seen int64
	for i, n := range t.buckets {
		if seen += int64(n); seen >= rank {
			return min(middle(i), t.longest)
		}
	}
	return 0
}
