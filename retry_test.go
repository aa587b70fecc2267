package soloist

import (
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/store"
)

// The pauses between attempts double up to the longest, however many attempts there were.
func TestPausesBetweenAttempts(t *testing.T) {
	for _, row := range []struct {
		retry   Retry
		attempt int
		want    time.Duration
	}{
		{Retry{}, 1, 0}, {Retry{}, 100, 0},
		{Retry{Backoff: time.Second}, 1, time.Second}, {Retry{Backoff: time.Second}, 2, 2 * time.Second}, {Retry{Backoff: time.Second}, 4, 8 * time.Second},
		{Retry{Backoff: time.Second}, 13, time.Hour}, {Retry{Backoff: time.Second}, 1000, time.Hour},
		{Retry{Backoff: time.Second, MaxBackoff: 3 * time.Second}, 2, 2 * time.Second}, {Retry{Backoff: time.Second, MaxBackoff: 3 * time.Second}, 3, 3 * time.Second},
		{Retry{Backoff: time.Second, MaxBackoff: time.Second}, 2, time.Second},
		{Retry{Backoff: 2 * time.Hour}, 1, 2 * time.Hour}, {Retry{Backoff: 2 * time.Hour}, 5, 2 * time.Hour},
		{Retry{Backoff: store.MaxTTL}, 2, store.MaxTTL}, {Retry{Backoff: time.Second, MaxBackoff: store.MaxTTL}, 1000, store.MaxTTL},
	} {
		filled, err := row.retry.filled()
		if got := filled.after(row.attempt); got != row.want || err != nil {
			t.Errorf("%+v, after attempt %d: %v, %v; want %v", row.retry, row.attempt, got, err, row.want)
		}
	}
}

// What contradicts itself in a Retry, or is more than a name can linger for, is named.
func TestRetryThatIsNotValid(t *testing.T) {
	for what, rs := range map[string][]Retry{
		"Retry.Attempts":   {{Attempts: -1}},
		"Retry.Backoff":    {{Backoff: -time.Second, Attempts: 1}, {Backoff: store.MaxTTL + 1}, {Backoff: Forever}},
		"Retry.MaxBackoff": {{MaxBackoff: time.Second, Attempts: 3}, {Backoff: time.Second, MaxBackoff: store.MaxTTL + 1}},
	} {
		for _, r := range rs {
			_, err := r.filled()
			if bad, ok := errors.AsType[*InvalidError](err); !ok || bad.What != what {
				t.Errorf("%+v: %v; want that %s is not valid", r, err, what)
			}
		}
	}
	if _, err := (Retry{Backoff: time.Minute, MaxBackoff: time.Second}).filled(); err == nil {
		t.Error("the longest pause may be shorter than the first")
	}
}
