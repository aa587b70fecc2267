package cron_test

import (
	"testing"

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
		"*/25 * * * *":                 "at minutes 0, 25 and 50 of every hour (UTC)",
		"*/3 1-58 * * * *":             "at seconds 0, 3 and so on by 3 to 57 of minutes 1 to 58 of every hour (UTC)",
		"*/15 9-17 * * MON-FRI":        "every 15 minutes from 09:00 to 17:59 on weekdays (UTC)",
		"*/15 22-2 * * *":              "every 15 minutes from 22:00 to 02:59 (UTC)",
		"*/15 */4 * * *":               "every 15 minutes of hours 0, 4, 8, 12, 16 and 20 (UTC)",
		"15 * * * *":                   "at minute 15 of every hour (UTC)",
		"0 * * * *":                    "every hour (UTC)",
		"0 */2 * * *":                  "every 2 hours from 00:00 (UTC)",
		"0 9-17 * * *":                 "on the hour from 09:00 to 17:59 (UTC)",
		"0 0 13 * FRI":                 "at 00:00 on day 13 of the month or on Friday (UTC)",
		"0 0 13 * */5":                 "at 00:00 on day 13 of the month if also on Friday and Sunday (UTC)",
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
		"0 0 0 1 1 ? 2027,2030-2033":   "at 00:00 on day 1 of the month in January in 2027 and 2030 to 2033 (UTC)",
		"@every 90m":                   "every 90 minutes, counted from 1970-01-01T00:00:00Z",
		"@every 1h":                    "every hour, counted from 1970-01-01T00:00:00Z",
		"@every 1500ms":                "every 1.5s, counted from 1970-01-01T00:00:00Z",
		"CRON_TZ=Asia/Tokyo @weekly":   "at 00:00 on Sunday (Asia/Tokyo)",
	} {
		if got := cron.Describe(cron.MustParse(expression)); got != want {
			t.Errorf("Describe(%q)\n got %s\nwant %s", expression, got, want)
		}
	}
}
