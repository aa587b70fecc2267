package cron_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the tests need zones on any machine

	"github.com/soloist-dev/soloist/cron"
)

const (
	toMinute = "2006-01-02T15:04"
	toSecond = "2006-01-02T15:04:05"
)

// nextTest is a row of a table: after the time, exactly these times come, all written as the clock shows them in UTC.
type nextTest struct {
	rule, expression, after string
	want                    []string
}

func TestNext(t *testing.T) {
	runNext(t, toMinute, []nextTest{
		{"* is every minute", "* * * * *", "2026-01-01T23:58", []string{"2026-01-01T23:59", "2026-01-02T00:00"}},
		{"next is strictly after", "0 3 * * *", "2026-01-01T03:00", []string{"2026-01-02T03:00"}},
		{"a step over all", "*/20 * * * *", "2026-01-01T00:00", []string{"2026-01-01T00:20", "2026-01-01T00:40", "2026-01-01T01:00"}},
		{"a step that does not divide the hour starts anew", "*/25 * * * *", "2026-01-01T00:30", []string{"2026-01-01T00:50", "2026-01-01T01:00"}},
		{"a step from a value", "10/25 * * * *", "2026-01-01T00:00", []string{"2026-01-01T00:10", "2026-01-01T00:35", "2026-01-01T01:10"}},
		{"a step in a range", "5-30/10 * * * *", "2026-01-01T00:00", []string{"2026-01-01T00:05", "2026-01-01T00:15", "2026-01-01T00:25", "2026-01-01T01:05"}},
		{"a step as large as the range leaves the first", "*/60 * * * *", "2026-01-01T00:00", []string{"2026-01-01T01:00", "2026-01-01T02:00"}},
		{"a list in any order", "40,10 * * * *", "2026-01-01T00:00", []string{"2026-01-01T00:10", "2026-01-01T00:40"}},
		{"a list of everything", "1-2,10/30,50 1 * * *", "2026-01-01T00:00", []string{"2026-01-01T01:01", "2026-01-01T01:02", "2026-01-01T01:10", "2026-01-01T01:40", "2026-01-01T01:50", "2026-01-02T01:01"}},
		{"leading zeros", "05 03 01 01 *", "2026-01-01T03:05", []string{"2027-01-01T03:05"}},
		{"tabs and spaces", "5\t3  * *\t *", "2026-01-01T00:00", []string{"2026-01-01T03:05"}},
		{"hours over midnight", "0 22-2 * * *", "2026-01-01T01:30", []string{"2026-01-01T02:00", "2026-01-01T22:00", "2026-01-01T23:00", "2026-01-02T00:00"}},
		{"hours over midnight by steps", "0 22-3/2 * * *", "2026-01-01T00:30", []string{"2026-01-01T02:00", "2026-01-01T22:00", "2026-01-02T00:00"}},
		{"minutes over the hour", "58-1 0 * * *", "2026-01-01T00:00", []string{"2026-01-01T00:01", "2026-01-01T00:58", "2026-01-01T00:59", "2026-01-02T00:00"}},
		{"days over the month's end", "0 0 30-2 * *", "2026-02-01T00:00", []string{"2026-02-02T00:00", "2026-03-01T00:00", "2026-03-02T00:00", "2026-03-30T00:00"}},
		{"months over the year's end", "0 0 1 NOV-FEB *", "2026-01-15T00:00", []string{"2026-02-01T00:00", "2026-11-01T00:00", "2026-12-01T00:00", "2027-01-01T00:00"}},
		{"weekdays over the week's end", "0 0 * * FRI-MON", "2026-01-05T00:00", []string{"2026-01-09T00:00", "2026-01-10T00:00", "2026-01-11T00:00", "2026-01-12T00:00", "2026-01-16T00:00"}},
		{"names in any case", "0 0 * feb mOn", "2026-01-01T00:00", []string{"2026-02-02T00:00", "2026-02-09T00:00"}},
		{"names in full", "0 0 * February MONDAY", "2026-01-01T00:00", []string{"2026-02-02T00:00", "2026-02-09T00:00"}},
		{"names in full with L and #", "0 0 * * FridayL,monday#1", "2026-01-01T00:00", []string{"2026-01-05T00:00", "2026-01-30T00:00", "2026-02-02T00:00"}},
		{"a name and a number", "0 0 * * SAT-0", "2026-01-01T00:00", []string{"2026-01-03T00:00", "2026-01-04T00:00", "2026-01-10T00:00"}},
		{"Sunday is 0", "0 0 * * 0", "2026-01-01T00:00", []string{"2026-01-04T00:00", "2026-01-11T00:00"}},
		{"Sunday is 7", "0 0 * * 7", "2026-01-01T00:00", []string{"2026-01-04T00:00", "2026-01-11T00:00"}},
		{"7-7 is Sunday alone", "0 0 * * 7-7", "2026-01-01T00:00", []string{"2026-01-04T00:00", "2026-01-11T00:00"}},
		{"5-7 ends with Sunday", "0 0 * * 5-7", "2026-01-05T00:00", []string{"2026-01-09T00:00", "2026-01-10T00:00", "2026-01-11T00:00", "2026-01-16T00:00"}},
		{"7-2 begins with Sunday", "0 0 * * 7-2", "2026-01-01T00:00", []string{"2026-01-04T00:00", "2026-01-05T00:00", "2026-01-06T00:00", "2026-01-11T00:00"}},
		{"0-7 is the week", "0 0 * * 0-7", "2026-01-01T00:00", []string{"2026-01-02T00:00", "2026-01-03T00:00", "2026-01-04T00:00"}},
		{"a step from a weekday ends on Saturday", "0 0 * * 1/2", "2026-01-04T00:00", []string{"2026-01-05T00:00", "2026-01-07T00:00", "2026-01-09T00:00", "2026-01-12T00:00"}},
		{"a step from 7 is one from Sunday", "0 0 * * 7/3", "2026-01-04T00:00", []string{"2026-01-07T00:00", "2026-01-10T00:00", "2026-01-11T00:00"}},
		{"a month without the day is passed over", "0 0 31 * *", "2026-01-31T00:00", []string{"2026-03-31T00:00", "2026-05-31T00:00", "2026-07-31T00:00", "2026-08-31T00:00"}},
		{"29 February", "0 0 29 2 *", "2026-01-01T00:00", []string{"2028-02-29T00:00", "2032-02-29T00:00"}},
		{"29 February over 2100", "0 0 29 2 *", "2096-02-29T00:00", []string{"2104-02-29T00:00"}},
		{"29 February on a Sunday, by star and step", "0 0 29 2 */7", "2026-01-01T00:00", []string{"2032-02-29T00:00", "2060-02-29T00:00", "2088-02-29T00:00", "2128-02-29T00:00"}},
		{"a fifth Monday in February", "0 0 * 2 MON#5", "2026-01-01T00:00", []string{"2044-02-29T00:00", "2072-02-29T00:00", "2112-02-29T00:00"}},
	})
}

func TestNextDays(t *testing.T) {
	runNext(t, toMinute, []nextTest{
		{"both day fields on request", "DAYS=both 0 0 13 * FRI", "2026-01-01T00:00", []string{"2026-02-13T00:00", "2026-03-13T00:00", "2026-11-13T00:00"}},
		{"both day fields, with a zone", "DAYS=both TZ=UTC 0 0 13 * FRI", "2026-01-01T00:00", []string{"2026-02-13T00:00"}},
		{"Quartz counts weekdays from Sunday, 1", "WEEKDAYS=quartz 0 0 ? * 2", "2026-01-01T00:00", []string{"2026-01-05T00:00", "2026-01-12T00:00"}},
		{"a range as Quartz counts", "WEEKDAYS=quartz 0 0 ? * 6-2", "2026-01-05T00:00", []string{"2026-01-09T00:00", "2026-01-10T00:00", "2026-01-11T00:00", "2026-01-12T00:00", "2026-01-16T00:00"}},
		{"a step as Quartz counts", "WEEKDAYS=quartz 0 0 ? * 2/2", "2026-01-04T00:00", []string{"2026-01-05T00:00", "2026-01-07T00:00", "2026-01-09T00:00", "2026-01-12T00:00"}},
		{"the last Friday as Quartz counts", "WEEKDAYS=quartz 0 0 ? * 6L", "2026-01-01T00:00", []string{"2026-01-30T00:00", "2026-02-27T00:00"}},
		{"the second Saturday as Quartz counts", "WEEKDAYS=quartz 0 0 ? * 7#2", "2026-01-01T00:00", []string{"2026-01-10T00:00", "2026-02-14T00:00"}},
		{"names do not change", "WEEKDAYS=quartz 0 0 ? * FRI", "2026-01-01T00:00", []string{"2026-01-02T00:00", "2026-01-09T00:00"}},
		{"L alone is Saturday as Quartz counts too", "WEEKDAYS=quartz 0 0 ? * L", "2026-01-01T00:00", []string{"2026-01-03T00:00"}},
		{"both restricted: either", "0 0 13 * FRI", "2026-02-06T00:00", []string{"2026-02-13T00:00", "2026-02-20T00:00", "2026-02-27T00:00", "2026-03-06T00:00", "2026-03-13T00:00", "2026-03-20T00:00", "2026-03-27T00:00", "2026-04-03T00:00", "2026-04-10T00:00", "2026-04-13T00:00"}},
		{"six fields: either as well", "0 0 0 13 * FRI", "2026-04-04T00:00", []string{"2026-04-10T00:00", "2026-04-13T00:00", "2026-04-17T00:00"}},
		{"seven fields: either as well", "0 0 0 13 * FRI 2026", "2026-04-04T00:00", []string{"2026-04-10T00:00", "2026-04-13T00:00", "2026-04-17T00:00"}},
		{"day-of-month begins with *: both", "0 0 */2 * MON", "2026-02-01T00:00", []string{"2026-02-09T00:00", "2026-02-23T00:00", "2026-03-09T00:00"}},
		{"day-of-week begins with *: both", "0 0 13 * */5", "2026-01-01T00:00", []string{"2026-02-13T00:00", "2026-03-13T00:00", "2026-09-13T00:00"}},
		{"a list that begins with *: both", "0 0 *,5 * MON", "2026-02-01T00:00", []string{"2026-02-02T00:00", "2026-02-09T00:00"}},
		{"* later in a list: either", "0 0 5,* * MON", "2026-02-01T00:00", []string{"2026-02-02T00:00", "2026-02-03T00:00"}},
		{"1/2 does not begin with *: either", "0 0 1/2 * MON", "2026-02-01T00:00", []string{"2026-02-02T00:00", "2026-02-03T00:00", "2026-02-05T00:00"}},
		{"? for the weekday", "0 0 0 13 * ?", "2026-01-01T00:00", []string{"2026-01-13T00:00", "2026-02-13T00:00"}},
		{"? for the day of the month", "0 0 0 ? * FRI", "2026-01-01T00:00", []string{"2026-01-02T00:00", "2026-01-09T00:00"}},
		{"? for both", "0 0 0 ? * ?", "2026-01-01T00:00", []string{"2026-01-02T00:00", "2026-01-03T00:00"}},
		{"? in five fields", "0 0 ? * FRI", "2026-01-01T00:00", []string{"2026-01-02T00:00", "2026-01-09T00:00"}},

		{"L is the last day", "0 0 L * *", "2028-01-01T00:00", []string{"2028-01-31T00:00", "2028-02-29T00:00", "2028-03-31T00:00", "2028-04-30T00:00"}},
		{"a lower-case l", "0 0 l * *", "2026-02-01T00:00", []string{"2026-02-28T00:00"}},
		{"L-3 is three days before it", "0 0 L-3 * *", "2026-01-01T00:00", []string{"2026-01-28T00:00", "2026-02-25T00:00"}},
		{"L-30 needs 31 days", "0 0 L-30 * *", "2026-01-01T00:00", []string{"2026-03-01T00:00", "2026-05-01T00:00"}},
		{"L in a list", "0 0 1,L * *", "2026-01-01T00:00", []string{"2026-01-31T00:00", "2026-02-01T00:00", "2026-02-28T00:00"}},
		{"W on a weekday is the day", "0 0 15W 1 *", "2026-01-01T00:00", []string{"2026-01-15T00:00"}},
		{"W on a Saturday is Friday", "0 0 15W 8 *", "2026-01-01T00:00", []string{"2026-08-14T00:00"}},
		{"W on a Sunday is Monday", "0 0 15W 2 *", "2026-01-01T00:00", []string{"2026-02-16T00:00"}},
		{"1W on a Saturday stays in the month", "0 0 1W 8 *", "2026-01-01T00:00", []string{"2026-08-03T00:00"}},
		{"1W on a Sunday", "0 0 1W 2 *", "2026-01-01T00:00", []string{"2026-02-02T00:00"}},
		{"31W on a Sunday stays in the month", "0 0 31W 5 *", "2026-01-01T00:00", []string{"2026-05-29T00:00"}},
		{"31W only in months of 31 days", "0 0 31W * *", "2026-03-31T00:00", []string{"2026-05-29T00:00", "2026-07-31T00:00"}},
		{"28W on the last Sunday of February", "0 0 28W 2 *", "2027-01-01T00:00", []string{"2027-02-26T00:00"}},
		{"W in a list", "0 0 1W,15W * *", "2026-08-01T00:00", []string{"2026-08-03T00:00", "2026-08-14T00:00", "2026-09-01T00:00"}},
		{"LW is the last weekday", "0 0 LW * *", "2026-01-01T00:00", []string{"2026-01-30T00:00", "2026-02-27T00:00", "2026-03-31T00:00", "2026-04-30T00:00", "2026-05-29T00:00"}},
		{"L-3W is the weekday nearest L-3", "0 0 L-3W * *", "2026-02-01T00:00", []string{"2026-02-25T00:00", "2026-03-27T00:00", "2026-04-27T00:00"}},
		{"L-30W is the weekday nearest the first day of 31", "0 0 L-30W * *", "2026-01-01T00:00", []string{"2026-03-02T00:00", "2026-05-01T00:00"}},
		{"5L is the last Friday", "0 0 * * 5L", "2026-01-01T00:00", []string{"2026-01-30T00:00", "2026-02-27T00:00", "2026-03-27T00:00"}},
		{"FRIL as well", "0 0 ? * fril", "2026-01-01T00:00", []string{"2026-01-30T00:00", "2026-02-27T00:00"}},
		{"0L and 7L are the last Sunday", "0 0 * * 7L", "2026-01-01T00:00", []string{"2026-01-25T00:00", "2026-02-22T00:00"}},
		{"L alone is Saturday", "0 0 ? * L", "2026-01-01T00:00", []string{"2026-01-03T00:00", "2026-01-10T00:00"}},
		{"FRI#2 is the second Friday", "0 0 * * FRI#2", "2026-01-01T00:00", []string{"2026-01-09T00:00", "2026-02-13T00:00"}},
		{"5#2 as well", "0 0 0 ? * 5#2", "2026-01-01T00:00", []string{"2026-01-09T00:00", "2026-02-13T00:00"}},
		{"7#1 is the first Sunday", "0 0 * * 7#1", "2026-01-01T00:00", []string{"2026-01-04T00:00", "2026-02-01T00:00"}},
		{"#5 only where there are five", "0 0 * * THU#5", "2026-01-01T00:00", []string{"2026-01-29T00:00", "2026-04-30T00:00"}},
		{"# and L in a list", "0 0 * * MON#1,FRIL", "2026-01-01T00:00", []string{"2026-01-05T00:00", "2026-01-30T00:00", "2026-02-02T00:00"}},
		{"L or a weekday", "0 0 L * SUN#1", "2026-01-01T00:00", []string{"2026-01-04T00:00", "2026-01-31T00:00", "2026-02-01T00:00"}},
	})
}

func TestNextSecondsAndYears(t *testing.T) {
	runNext(t, toSecond, []nextTest{
		{"0/30 seconds, as in Spring", "0/30 * * * * ?", "2026-01-01T00:00:01", []string{"2026-01-01T00:00:30", "2026-01-01T00:01:00", "2026-01-01T00:01:30"}},
		{"six fields lead with seconds", "15 30 3 * * *", "2026-01-01T00:00:00", []string{"2026-01-01T03:30:15"}},
		{"every second", "* * * * * *", "2026-12-31T23:59:58", []string{"2026-12-31T23:59:59", "2027-01-01T00:00:00"}},
		{"a minute to come starts from its first second", "0,45 10 * * * *", "2026-01-01T00:05:30", []string{"2026-01-01T00:10:00", "2026-01-01T00:10:45", "2026-01-01T01:10:00"}},
		{"an hour to come starts from its first minute", "0 5,50 3 * * *", "2026-01-01T01:30:00", []string{"2026-01-01T03:05:00", "2026-01-01T03:50:00", "2026-01-02T03:05:00"}},
		{"five fields mean second 0", "30 3 * * *", "2026-01-01T03:30:00", []string{"2026-01-02T03:30:00"}},
		{"seven fields end with years", "0 0 0 1 1 ? 2030", "2026-01-01T00:00:00", []string{"2030-01-01T00:00:00", ""}},
		{"a list of years", "0 0 0 1 1 ? 2020,2028-2029,2040/100", "2026-01-01T00:00:00", []string{"2028-01-01T00:00:00", "2029-01-01T00:00:00", "2040-01-01T00:00:00", "2140-01-01T00:00:00", ""}},
		{"a step of years counts from 1970", "0 0 0 1 1 ? */50", "2026-01-01T00:00:00", []string{"2070-01-01T00:00:00", "2120-01-01T00:00:00", "2170-01-01T00:00:00", ""}},
		{"all years", "0 0 0 1 1 ? *", "2026-01-01T00:00:00", []string{"2027-01-01T00:00:00"}},
		{"years that have passed are no error", "0 0 0 1 1 ? 1999", "2026-01-01T00:00:00", []string{""}},
		{"the calendar ends with 2199", "0 0 * * *", "2199-12-30T00:00:00", []string{"2199-12-31T00:00:00", ""}},
		{"the calendar ends with 2199 by the clocks of the zone", "TZ=America/New_York 0 22,23 * * *", "2200-01-01T01:00:00", []string{"2200-01-01T03:00:00", "2200-01-01T04:00:00", ""}},
		{"after the end", "* * * * * *", "9999-01-01T00:00:00", []string{""}},
		{"the calendar begins with 1970", "0 3 * * *", "0001-01-01T00:00:00", []string{"1970-01-01T03:00:00"}},
		{"1970 began at a scheduled time", "* * * * *", "1969-12-31T23:59:59", []string{"1970-01-01T00:00:00"}},
	})
}

func TestNextNamed(t *testing.T) {
	runNext(t, toSecond, []nextTest{
		{"@hourly", "@hourly", "2026-01-01T00:30:00", []string{"2026-01-01T01:00:00", "2026-01-01T02:00:00"}},
		{"@daily", "@daily", "2026-01-01T00:30:00", []string{"2026-01-02T00:00:00", "2026-01-03T00:00:00"}},
		{"@midnight", "@midnight", "2026-01-01T00:30:00", []string{"2026-01-02T00:00:00"}},
		{"@weekly is Sunday", "@weekly", "2026-01-01T00:30:00", []string{"2026-01-04T00:00:00", "2026-01-11T00:00:00"}},
		{"@monthly", "@monthly", "2026-01-01T00:30:00", []string{"2026-02-01T00:00:00", "2026-03-01T00:00:00"}},
		{"@yearly", "@yearly", "2026-01-01T00:30:00", []string{"2027-01-01T00:00:00", "2028-01-01T00:00:00"}},
		{"@annually", "@ANNUALLY", "2026-01-01T00:30:00", []string{"2027-01-01T00:00:00"}},
		{"a zone before a name", "TZ=Asia/Tokyo @daily", "2026-01-01T00:00:00", []string{"2026-01-01T15:00:00"}},
		{"@every counts from 1970, not from now", "@every 10m", "2026-01-01T00:03:07", []string{"2026-01-01T00:10:00", "2026-01-01T00:20:00"}},
		{"@every a time that divides no day", "@every 7h", "2026-01-02T00:00:00", []string{"2026-01-02T04:00:00", "2026-01-02T11:00:00"}},
		{"@every is strictly after", "@every 1h", "2026-01-01T01:00:00", []string{"2026-01-01T02:00:00"}},
		{"@every begins with 1970", "@every 1h", "1950-01-01T00:00:00", []string{"1970-01-01T00:00:00", "1970-01-01T01:00:00"}},
		{"@every ends with 2199", "@every 1h", "2199-12-31T22:30:00", []string{"2199-12-31T23:00:00", ""}},
		{"@every pays no heed to the zone", "CRON_TZ=Asia/Kolkata @every 1h", "2026-01-01T00:00:00", []string{"2026-01-01T01:00:00"}},
	})
	after := time.Date(2026, 1, 1, 0, 0, 0, 1_200_000, time.UTC)
	if got, want := cron.MustParse("@every 1ms").Next(after), after.Truncate(time.Millisecond).Add(time.Millisecond); !got.Equal(want) {
		t.Errorf("@every 1ms: got %v, want %v", got, want)
	}
}

// TestNextFractions: between two whole seconds the earlier is past and the later is not.
func TestNextFractions(t *testing.T) {
	e := cron.MustParse("0 3 * * *")
	due := time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC)
	if got := e.Next(due.Add(-time.Nanosecond)); !got.Equal(due) {
		t.Errorf("a nanosecond before: got %v, want %v", got, due)
	}
	if got := e.Next(due.Add(time.Nanosecond)); !got.Equal(due.AddDate(0, 0, 1)) {
		t.Errorf("a nanosecond after: got %v, want a day later", got)
	}
}

// runNext checks the rows of a table.
func runNext(t *testing.T, layout string, tests []nextTest) {
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			e, err := cron.Parse(test.expression)
			if err != nil {
				t.Fatal(err)
			}
			after, err := time.Parse(layout, test.after)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				next := e.Next(after)
				got := ""
				if !next.IsZero() {
					got = next.UTC().Format(layout)
				}
				if got != want {
					t.Fatalf("%q after %s: got %q, want %q", e, after.Format(layout), got, want)
				}
				after = next
			}
		})
	}
}
