package cron_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cron"
)

// TestHash: what H stands for never changes, since it decides when jobs run.
func TestHash(t *testing.T) {
	for _, test := range []struct{ rule, expression, job, want string }{
		{"H stands for one value of each field", "H H * * *", "report", "at 19:56 every day (UTC)"},
		{"the empty name has its values", "H H * * *", "", "at 00:39 every day (UTC)"},
		{"seconds too", "H H H * * *", "report", "at 19:56:03 every day (UTC)"},
		{"a range bounds it", "H H(2-4) * * *", "report", "at 03:56 every day (UTC)"},
		{"a range of one value", "H(7-7) 3 * * *", "report", "at 03:07 every day (UTC)"},
		{"a step begins at it", "H/15 * * * *", "report", "at minutes 11, 26, 41 and 56 of every hour (UTC)"},
		{"a step within a range", "H(0-29)/10 * * * *", "report", "at minutes 6, 16 and 26 of every hour (UTC)"},
		{"in a list", "0,H(30-59) 3 * * *", "report", "at 03:00 and 03:56 every day (UTC)"},
		{"days that every month has", "0 0 H * *", "report", "at 00:00 on day 18 of the month (UTC)"},
		{"months and weekdays", "0 0 * H H", "report", "at 00:00 on Friday in January (UTC)"},
		{"numbers of Quartz do not change the weekday", "WEEKDAYS=quartz 0 0 * H H", "report", "at 00:00 on Friday in January (UTC)"},
		{"small letters", "h h * * *", "report", "at 19:56 every day (UTC)"},
		{"small letters in a list", "0,h(30-59) 3 * * *", "report", "at 03:00 and 03:56 every day (UTC)"},
		{"an offset", "@every 1h offset H", "report", "every hour, counted from 957 seconds after 1970-01-01T00:00:00Z"},
		{"an offset of less than a second", "@every 300ms offset H", "report", "every 300ms, counted from 140ms after 1970-01-01T00:00:00Z"},
		{"the rules of daylight saving stay", "TZ=Europe/Berlin H/30 2 * * *", "report", "at 02:26 and 02:56 every day, whenever the clocks show it (Europe/Berlin)"},
	} {
		e, err := cron.MustParse(test.expression).For(test.job)
		if err != nil {
			t.Fatal(err)
		}
		if got := cron.Describe(e); got != test.want {
			t.Errorf("%s: %q for %q is %q, want %q", test.rule, test.expression, test.job, got, test.want)
		}
		if e.String() != test.expression {
			t.Errorf("%q became %q", test.expression, e)
		}
	}
}

func TestHashSpreads(t *testing.T) {
	const jobs = 6000
	minutes := map[int]int{}
	e := cron.MustParse("H * * * *")
	for i := range jobs {
		named, err := e.For(fmt.Sprintf("tenant-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		minutes[named.Next(time.Unix(0, 0)).Minute()]++
	}
	for minute := range 60 {
		if n := minutes[minute]; n < jobs/60/2 || n > jobs/60*2 {
			t.Errorf("%d of %d jobs have minute %d, want about %d", n, jobs, minute, jobs/60)
		}
	}
}

// TestHashThatNeverFires: whether an expression ever fires can depend on the name.
func TestHashThatNeverFires(t *testing.T) {
	e, err := cron.Parse("0 0 H(27-31) 2 *")
	if err != nil {
		t.Fatal(err) // H of the empty name fires
	}
	fires := map[bool]int{}
	for i := range 100 {
		named, err := e.For(fmt.Sprint(i))
		fires[err == nil]++
		if err == nil && named.Next(time.Unix(0, 0)).IsZero() {
			t.Errorf("%q never fires for %d, and For did not say so", e, i)
		}
	}
	if fires[true] == 0 || fires[false] == 0 {
		t.Errorf("fires for %d names and is refused for %d, want some of each", fires[true], fires[false])
	}
}

func TestForWithoutHash(t *testing.T) {
	e := cron.MustParse("0 3 * * THU")
	if named, err := e.For("thursday"); named != e || err != nil {
		t.Errorf("For made %v, %v of an expression without an H", named, err)
	}
}

// What H of a range stands for is in it, for every name, however wide the steps are.
func TestHashStaysInItsRange(t *testing.T) {
	e := cron.MustParse("H(10-12)/30 * * * *")
	for i := range 100 {
		named, err := e.For(fmt.Sprint("job ", i))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(0, 0)
		for range 3 {
			if at = named.Next(at); at.Minute() < 10 || at.Minute() > 12 {
				t.Fatalf("job %d is due at minute %d, want 10 to 12", i, at.Minute())
			}
		}
	}
}
