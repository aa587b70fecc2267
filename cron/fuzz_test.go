package cron_test

import (
	"errors"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cron"
)

// FuzzParse: whatever the text, Parse ends without a panic and every error is a ParseError; whatever it accepts can be
// parsed again from its String, and its times run forward, within the calendar, the same from any moment in between.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"* * * * *", "0/30 * * * * ?", "*/15 9-17 * * MON-FRI", "0 0 29 2 */7", "0 0 L-3,15W,LW * FRI#2,5L",
		"0 0 0 1 1 ? 2030-2040/3", "TZ=Europe/Berlin 30 2 * * *", "CRON_TZ=Pacific/Apia 0 12 * * *", "@every 90s",
		"@weekly", "H H(2-5) H * H", "DAYS=both WEEKDAYS=quartz 0 0 H/3 * 6L", "@every P1DT2H offset H", "@every 2w1d", "22-2/2 22-2 30-2 NOV-FEB FRI-MON", "0 0 L-31W * 7", "TZ=Africa/Casablanca */7 1 * * *",
		"TZ=Europe/Berlin 1 * 1 1 0", "*/0 * * * *", "0 0 30 2 *", "99999999999999999999 * * * *", "1,,2 * * * *", "? ? ? ? ?", "TZ=", "@", "\x00",
	} {
		for _, after := range []int64{-1 << 62, 0, 1_774_746_000, 1_792_889_000, 7_258_118_399, 1 << 62} {
			f.Add(seed, after)
		}
	}
	f.Fuzz(func(t *testing.T, expression string, seconds int64) {
		e, err := cron.Parse(expression)
		if err != nil {
			if wrong := (*cron.ParseError)(nil); !errors.As(err, &wrong) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		again, err := cron.Parse(e.String())
		if err != nil || *again != *e {
			t.Fatalf("String() = %q is not the same expression: %v", e, err)
		}
		if cron.Describe(e) == "" {
			t.Fatal("nothing to describe")
		}
		checkForward(t, e, time.Unix(seconds, 0))
		for _, name := range []string{"", "a", expression} {
			named, err := e.For(name)
			if wrong := (*cron.ParseError)(nil); err != nil && !errors.As(err, &wrong) {
				t.Fatalf("%T: %v", err, err)
			}
			if err == nil && named.String() != e.String() {
				t.Fatalf("For(%q) changed the text to %q", name, named)
			}
		}
	})
}

// checkForward walks a few times ahead.
func checkForward(t *testing.T, e *cron.Expression, after time.Time) {
	t.Helper()
	for range 5 {
		next := e.Next(after)
		if next.IsZero() {
			return
		}
		if prev := e.Prev(next); !prev.IsZero() && (!prev.Before(next) || prev.After(after)) {
			t.Fatalf("Prev(%s) = %s, but the time before it is not after %s", next, prev, after)
		}
		if prev := e.Prev(next.Add(1)); !prev.Equal(next) {
			t.Fatalf("Prev right after %s = %s", next, prev)
		}
		if !next.After(after) {
			t.Fatalf("Next(%s) = %s is not after it", after, next)
		}
		if year := next.Year(); year < 1970 || year > 2200 {
			t.Fatalf("Next(%s) = %s is outside the calendar", after, next)
		}
		if between := max(after.Unix(), -1<<40) + (next.Unix()-max(after.Unix(), -1<<40))/2; between >= after.Unix() {
			if got := e.Next(time.Unix(between, 0)); between < next.Unix() && !got.Equal(next) {
				t.Fatalf("Next(%s) = %s, but from %d on the way there it is %s", after, next, between, got)
			}
		}
		after = next
	}
}
