package cron_test

import (
	"slices"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cron"
)

// TestBefore: Prev and Before give the same times as Next and After, backwards.
func TestBefore(t *testing.T) {
	for _, text := range []string{
		"*/15 * * * *", "TZ=Europe/Berlin 30 2 * * *", "TZ=Europe/Berlin */30 2 * * *", "TZ=Europe/Berlin 0 * * * *",
		"TZ=Australia/Lord_Howe */10 1-2 * * *", "TZ=Pacific/Apia 0 12 * * *", "0 0 29 2 *", "0 0 0 1 1 ? 2020-2030", "@every 7h offset 1h",
	} {
		e := cron.MustParse(text)
		for _, start := range []time.Time{
			time.Date(2011, 12, 28, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 3, 0, 0, 0, 0, time.UTC),
		} {
			forward := upTo(e, start, 100)
			if len(forward) == 0 {
				continue
			}
			var backward []time.Time
			for prev := range e.Before(forward[len(forward)-1].Add(time.Nanosecond)) {
				if !prev.After(start) {
					break
				}
				backward = append(backward, prev)
			}
			slices.Reverse(backward)
			if !slices.EqualFunc(forward, backward, time.Time.Equal) {
				t.Fatalf("%q: forward %v\nbackward %v", e, forward, backward)
			}
		}
	}
	for _, test := range []struct{ expression, before, want string }{
		{"0 0 * * *", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
		{"0 0 * * *", "1970-01-01T00:00:01Z", "1970-01-01T00:00:00Z"},
		{"0 0 * * *", "1950-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
		{"TZ=Europe/Berlin 1 0 1 1 *", "1970-01-01T00:00:00Z", "1970-01-01T00:01:00+01:00"}, // the zone's years begin earlier
		{"TZ=Europe/Berlin 1 0 1 1 *", "1969-12-31T23:01:00Z", "0001-01-01T00:00:00Z"},
		{"0 0 * * *", "2300-01-01T00:00:00Z", "2199-12-31T00:00:00Z"},
		{"TZ=America/New_York 0 * * * *", "2300-01-01T00:00:00Z", "2199-12-31T23:00:00-05:00"}, // the zone's years end later
		{"0 0 0 1 1 ? 1999", "2026-01-01T00:00:00Z", "1999-01-01T00:00:00Z"},
		{"@every 250ms", "2026-01-01T00:00:00.6Z", "2026-01-01T00:00:00.5Z"},
	} {
		before, err := time.Parse(time.RFC3339, test.before)
		if err != nil {
			t.Fatal(err)
		}
		if got := cron.MustParse(test.expression).Prev(before).Format(time.RFC3339Nano); got != test.want {
			t.Errorf("%q before %s: %s, want %s", test.expression, test.before, got, test.want)
		}
	}
}
