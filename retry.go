package soloist

import (
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// Retry bounds how often something that failed is tried again, and how soon.
type Retry struct {
	Attempts   int           // in all, crashes included; 0: see where it is used
	Backoff    time.Duration // before the second attempt; doubles from one to the next; at most store.MaxTTL
	MaxBackoff time.Duration // where the doubling ends; 0 means 1 h; at most store.MaxTTL
}

func (r Retry) filled() (Retry, error) {
	if r.MaxBackoff > 0 && r.Backoff == 0 {
		return r, invalid("Retry.MaxBackoff", r.MaxBackoff.String(), "must be 0 unless Retry.Backoff is more than 0")
	}
	if r.MaxBackoff == 0 && r.Backoff > 0 {
		r.MaxBackoff = max(time.Hour, r.Backoff)
	}
	switch {
	case r.Attempts < 0:
		return r, invalid("Retry.Attempts", fmt.Sprint(r.Attempts), "must be >= 0")
	case r.Backoff < 0 || r.Backoff > store.MaxTTL:
		return r, invalid("Retry.Backoff", r.Backoff.String(), "must be >= 0 and at most %v", store.MaxTTL)
	case r.MaxBackoff < r.Backoff:
		return r, invalid("Retry.MaxBackoff", r.MaxBackoff.String(), "must not be less than Retry.Backoff (%v)", r.Backoff)
	case r.MaxBackoff > store.MaxTTL:
		return r, invalid("Retry.MaxBackoff", r.MaxBackoff.String(), "must be at most %v", store.MaxTTL)
	}
	return r, nil
}

// after is the pause after a failed attempt, the first being 1.
func (r Retry) after(attempt int) time.Duration {
	d := r.Backoff
	for ; attempt > 1 && d < r.MaxBackoff; attempt-- {
		d *= 2
	}
	return min(d, r.MaxBackoff)
}
