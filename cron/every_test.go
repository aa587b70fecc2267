package cron_test

import (
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cron"
)

// TestEvery: multiples of a duration, counted from 1970 and an offset.
func TestEvery(t *testing.T) {
	for _, test := range []struct{ expression, after, want string }{
		{"@every 1d", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
		{"@every 2w", "2026-01-01T00:00:00Z", "2026-01-15T00:00:00Z"},
		{"@every 1d12h", "2026-01-01T00:00:00Z", "2026-01-02T12:00:00Z"},
		{"@every P1D", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
		{"@every PT90M", "2026-01-01T00:00:00Z", "2026-01-01T01:30:00Z"},
		{"@every PT1H30M", "2026-01-01T00:00:00Z", "2026-01-01T01:30:00Z"},
		{"@every 1w1d", "1970-01-01T00:00:00Z", "1970-01-09T00:00:00Z"},
		{"@every +1h", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"},
		{"@every P1DT12H", "2026-01-01T00:00:00Z", "2026-01-02T12:00:00Z"},
		{"@every PT5000000S", "2026-01-01T00:00:00Z", "2026-02-02T02:40:00Z"},
		{"@every 1d offset 3h", "2026-01-01T00:00:00Z", "2026-01-01T03:00:00Z"},
		{"@every 1d offset 3h", "2026-01-01T03:00:00Z", "2026-01-02T03:00:00Z"},
		{"@every 1d offset 3h", "1970-01-01T00:00:00Z", "1970-01-01T03:00:00Z"},
		{"@every 1d offset 3h", "1960-01-01T00:00:00Z", "1970-01-01T03:00:00Z"},
		{"@every 1h offset 0s", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"},
	} {
		after, err := time.Parse(time.RFC3339, test.after)
		if err != nil {
			t.Fatal(err)
		}
		if got := cron.MustParse(test.expression).Next(after).Format(time.RFC3339); got != test.want {
			t.Errorf("%q after %s is due at %s, want %s", test.expression, test.after, got, test.want)
		}
	}
}
