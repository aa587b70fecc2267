package cron_test

import (
	"fmt"
	"time"

	"github.com/soloist-dev/soloist/cron"
)

func Example() {
	nightly, err := cron.Parse("TZ=Europe/Berlin 30 2 * * MON-FRI")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cron.Describe(nightly))
	next := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	for range 3 {
		next = nightly.Next(next)
		fmt.Println(next)
	}
	// Output:
	// at 02:30 on weekdays (Europe/Berlin)
	// 2026-01-01 02:30:00 +0100 CET
	// 2026-01-02 02:30:00 +0100 CET
	// 2026-01-05 02:30:00 +0100 CET
}

func ExampleParse() {
	everyHalfMinute, err := cron.Parse("0/30 * * * * ?")
	fmt.Println(everyHalfMinute, err)
	_, err = cron.Parse("0 25 * * *")
	fmt.Println(err)
	_, err = cron.Parse("0 0 30 2 *")
	fmt.Println(err)
	// Output:
	// 0/30 * * * * ? <nil>
	// cron: "0 25 * * *": hour "25": 25 is out of range: use 0 to 23
	// cron: "0 0 30 2 *": never fires: no day from 1970 to 2199 is in day-of-month "30", month "2", day-of-week "*" and year "*"
}

func ExampleParseIn() {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		fmt.Println(err)
		return
	}
	closing, err := cron.ParseIn("0 16 * * MON-FRI", newYork)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(closing.Next(time.Date(2026, time.July, 3, 21, 0, 0, 0, time.UTC)))
	// Output: 2026-07-06 16:00:00 -0400 EDT
}

// The clocks of Berlin go from 02:00 to 03:00 on 29 March 2026, and from 03:00 to 02:00 on 25 October.
func ExampleExpression_Next_daylightSaving() {
	fixed := cron.MustParse("TZ=Europe/Berlin 30 2 * * *")
	fmt.Println(fixed.Next(time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)))
	fmt.Println(fixed.Next(time.Date(2026, time.October, 24, 12, 0, 0, 0, time.UTC)))

	hourly := cron.MustParse("TZ=Europe/Berlin 0 * * * *")
	next := time.Date(2026, time.October, 24, 23, 59, 0, 0, time.UTC)
	for range 3 {
		next = hourly.Next(next)
		fmt.Println(next)
	}
	// Output:
	// 2026-03-29 03:00:00 +0200 CEST
	// 2026-10-25 02:30:00 +0200 CEST
	// 2026-10-25 02:00:00 +0200 CEST
	// 2026-10-25 02:00:00 +0100 CET
	// 2026-10-25 03:00:00 +0100 CET
}

func ExampleExpression_For() {
	night := cron.MustParse("H H(1-4) * * *")
	for _, tenant := range []string{"acme", "globex", "initech"} {
		own, err := night.For("bill/" + tenant)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(tenant, cron.Describe(own))
	}
	// Output:
	// acme at 02:10 every day (UTC)
	// globex at 04:33 every day (UTC)
	// initech at 01:08 every day (UTC)
}

func ExampleExpression_After() {
	for next := range cron.MustParse("0 9 * * MON-FRI").After(time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)) {
		fmt.Println(next.Format("Mon 2 Jan"))
		if next.Weekday() == time.Monday {
			break
		}
	}
	// Output:
	// Fri 2 Jan
	// Mon 5 Jan
}

func ExampleExpression_Prev() {
	monthly := cron.MustParse("0 6 LW * *")
	fmt.Println(monthly.Prev(time.Date(2026, time.June, 15, 0, 0, 0, 0, time.UTC)))
	// Output: 2026-05-29 06:00:00 +0000 UTC
}
