package cron_test

import (
	"slices"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cron"
)

func TestDescribe(t *testing.T) {
	for expression, want := range map[string]string{
		"TZ=Europe/Berlin 0 3 * * 1-5": "at 03:00 on weekdays (Europe/Berlin)",
		"0 3 * * *":                    "at 03:00 every day (UTC)",
		"0 0,12 * * SAT,SUN":           "at 00:00 and 12:00 on weekends (UTC)",
		"15 30 3 * * ?":                "at 03:30:15 every day (UTC)",
		"* * * * *":                    "every minute (UTC)",
		"* * * * * *":                  "every second (UTC)",
		"0/30 * * * * ?":               "every 30 seconds (UTC)",
		"*/40 * * * * *":               "at seconds 0 and 40 of every minute (UTC)",
		"* * 5 * * *":                  "every second from 05:00 to 05:59 (UTC)",
		"* 5 * * * *":                  "every second of minute 5 of every hour (UTC)",
		"5,10 1-5 * * * *":             "at seconds 5 and 10 of minutes 1 to 5 of every hour (UTC)",
		"*/5 * * * *":                  "every 5 minutes (UTC)",
		"*/12 5-53 * * * *":            "at every 12th second from 0 to 48 of minutes 5 to 53 of every hour (UTC)",
		"*/11 5-53 * * * *":            "at every 11th second from 0 to 55 of minutes 5 to 53 of every hour (UTC)",
		"*/25 * * * *":                 "at minutes 0, 25 and 50 of every hour (UTC)",
		"15-45/15 * * * *":             "at minutes 15, 30 and 45 of every hour (UTC)",
		"*/3 1-58 * * * *":             "at every 3rd second from 0 to 57 of minutes 1 to 58 of every hour (UTC)",
		"*/15 9-17 * * MON-FRI":        "every 15 minutes from 09:00 to 17:59 on weekdays (UTC)",
		"*/15 22-2 * * *":              "every 15 minutes from 22:00 to 02:59 (UTC)",
		"*/15 */4 * * *":               "every 15 minutes of every 4th hour from 0 to 20 (UTC)",
		"15 * * * *":                   "at minute 15 of every hour (UTC)",
		"0 * * * *":                    "every hour (UTC)",
		"0 */2 * * *":                  "every 2 hours from 00:00 (UTC)",
		"0 9-17 * * *":                 "every hour from 09:00 to 17:00 (UTC)",
		"0 0 13 * FRI":                 "at 00:00 on day 13 of the month or on Friday (UTC)",
		"0 0 13 * */5":                 "at 00:00 on day 13 of the month, if that is a Friday or Sunday (UTC)",
		"0 0 5,* * MON":                "at 00:00 on days 1 to 31 of the month or on Monday (UTC)",
		"0 0 13 * 1,0-6":               "at 00:00 on day 13 of the month or on any day of the week (UTC)",
		"0 0 1,15 * *":                 "at 00:00 on days 1 and 15 of the month (UTC)",
		"0 0 L * *":                    "at 00:00 on the last day of the month (UTC)",
		"0 0 L-1 * *":                  "at 00:00 on the day before the last day of the month (UTC)",
		"0 0 L-3W * *":                 "at 00:00 on the weekday nearest the day 3 days before the last day of the month (UTC)",
		"0 0 1W,LW * *":                "at 00:00 on the weekday nearest day 1 and on the last weekday of the month (UTC)",
		"0 0 * * FRI#2,5L":             "at 00:00 on the second Friday of the month and on the last Friday of the month (UTC)",
		"0 0 1 NOV-FEB *":              "at 00:00 on day 1 of the month in November to February (UTC)",
		"0 0 * JAN,FEB *":              "at 00:00 in January and February (UTC)",
		"0 0 0 1 1 ? 2027,2030-2033":   "at 00:00 on day 1 of January in 2027 and 2030 to 2033 (UTC)",
		"0 0 0 1 1 ? 2030-2036/2":      "at 00:00 on day 1 of January in 2030, 2032, 2034 and 2036 (UTC)",
		"0 0 0 1 1 ? 2030-2038/2":      "at 00:00 on day 1 of January in every 2nd year from 2030 to 2038 (UTC)",
		"0 0,5,10 * * *":               "at 00:00, 05:00 and 10:00 every day (UTC)",
		"0 */5 * * *":                  "at 00:00, 05:00, 10:00, 15:00 and 20:00 every day (UTC)",
		"0 6-9,17-20 * * *":            "every hour from 06:00 to 09:00 and from 17:00 to 20:00 (UTC)",
		"0 0 0 1 1 ? 2030/2":           "at 00:00 on day 1 of January in every 2nd year from 2030 to 2198 (UTC)",
		"0 0 * MAR FRI#2":              "at 00:00 on the second Friday of March (UTC)",
		"0 0 */10 * MON#1":             "at 00:00 on days 1, 11, 21 and 31 of the month, if that is the first Monday of the month (UTC)",
		"DAYS=both 0 0 13 * 5":         "at 00:00 on day 13 of the month, if that is a Friday (UTC)",
		"WEEKDAYS=quartz 0 0 * * 6L":   "at 00:00 on the last Friday of the month (UTC)",
		"@every 1d offset 3h":          "every day, counted from 3 hours after 1970-01-01T00:00:00Z",
		"@every P2W offset 1d":         "every 14 days, counted from 1 day after 1970-01-01T00:00:00Z",
		"@every 90m":                   "every 90 minutes, counted from 1970-01-01T00:00:00Z",
		"@every 1h":                    "every hour, counted from 1970-01-01T00:00:00Z",
		"@every 1500ms":                "every 1.5s, counted from 1970-01-01T00:00:00Z",
		"CRON_TZ=Asia/Tokyo @weekly":   "at 00:00 on Sunday (Asia/Tokyo)",

		// Where clocks are set, a pace and fixed times differ.
		"TZ=Europe/Berlin */30 2 * * *": "at 02:00 and 02:30 every day, whenever the clocks show it (Europe/Berlin)",
		"TZ=Europe/Berlin 0,30 2 * * *": "at 02:00 and 02:30 every day (Europe/Berlin)",
		"TZ=Europe/Berlin 0 * * * *":    "every hour (Europe/Berlin)",
		"TZ=Europe/Berlin 0 0-23 * * *": "every hour, each time once a day (Europe/Berlin)",
		"TZ=Asia/Tokyo 0 0-23 * * *":    "every hour (Asia/Tokyo)",
	} {
		if got := cron.Describe(cron.MustParse(expression)); got != want {
			t.Errorf("Describe(%q)\n got %s\nwant %s", expression, got, want)
		}
	}
}

// TestDescribeIsExact: expressions with the same words have the same scheduled times, also when the clocks are set.
func TestDescribeIsExact(t *testing.T) {
	starts := []time.Time{
		time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC), // two days before the clocks of Berlin are put forward
		time.Date(2026, 10, 23, 0, 0, 0, 0, time.UTC),
		time.Date(2028, 2, 26, 0, 0, 0, 0, time.UTC),
	}
	same := map[string][]*cron.Expression{}
	for _, minute := range []string{"0", "*", "0,30", "*/30", "0/30", "0-59", "15", "0,20,40,50", "*/25", "0-59/2", "1/2"} {
		for _, hour := range []string{"*", "0-23", "2", "2,3", "*/2", "0-22/2", "0/2", "2-3", "0-11", "*/5", "0,5,10,15,20", "22-2"} {
			for _, days := range []string{"* * *", "? * 0-6", "1-31 * *", "1-31 * MON", "*/2 * MON", "1/2 * MON", "1/2 * *", "L * *",
				"28,L 2 *", "1,8 3,4 1-5", "* 1-12 1-5", "* 3 FRI#2", "15W * *", "* 3,10 0,6", "31 * 7", "* 2/1 SAT-SUN"} {
				for _, prefix := range []string{"", "DAYS=both ", "TZ=Europe/Berlin ", "DAYS=both TZ=Europe/Berlin "} {
					e := cron.MustParse(prefix + minute + " " + hour + " " + days)
					same[cron.Describe(e)] = append(same[cron.Describe(e)], e)
				}
			}
		}
	}
	compared := 0
	for words, all := range same {
		for _, other := range all[1:] {
			compared++
			for _, start := range starts {
				a, b := upTo(all[0], start, 60), upTo(other, start, 60)
				if !slices.EqualFunc(a, b, time.Time.Equal) {
					t.Fatalf("%q and %q are both %q, but are due at\n%v\n%v", all[0], other, words, a, b)
				}
			}
		}
	}
	if compared < 1000 {
		t.Errorf("only %d expressions had the words of another", compared)
	}
}

// upTo lists the next scheduled times, at most n.
func upTo(e *cron.Expression, after time.Time, n int) (times []time.Time) {
	for next := range e.After(after) {
		if times = append(times, next); len(times) == n {
			break
		}
	}
	return times
}
