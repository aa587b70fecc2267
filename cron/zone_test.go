package cron_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cron"
)

// TestDaylightSaving checks the rules of docs/reference/cron.md. All times are instants in UTC.
//
//	Europe/Berlin        2026-03-29 02:00 -> 03:00 at 01:00Z    2026-10-25 03:00 -> 02:00 at 01:00Z
//	America/New_York     2026-03-08 02:00 -> 03:00 at 07:00Z    2026-11-01 02:00 -> 01:00 at 06:00Z
//	Australia/Lord_Howe  2026-10-04 02:00 -> 02:30 at 15:30Z    2026-04-05 02:00 -> 01:30 at 15:00Z, a day before
//	America/Sao_Paulo    2018-11-04 00:00 -> 01:00 at 03:00Z    2018-02-18 00:00 -> 23:00 at 02:00Z
//	Africa/Cairo         2024-04-26 00:00 -> 01:00 at 22:00Z, a day before
//	Asia/Beirut          2024-03-31 00:00 -> 01:00 at 22:00Z, a day before
//	Pacific/Apia         2011-12-30 left out, at 10:00Z
func TestDaylightSaving(t *testing.T) {
	runNext(t, toMinute, []nextTest{
		{"a fixed time in the gap fires when the gap ends", "TZ=Europe/Berlin 30 2 * * *", "2026-03-28T02:00", []string{"2026-03-29T01:00", "2026-03-30T00:30"}},
		{"the first time of the gap as well", "TZ=Europe/Berlin 0 2 * * *", "2026-03-28T02:00", []string{"2026-03-29T01:00", "2026-03-30T00:00"}},
		{"several fixed times in the gap fire once", "TZ=Europe/Berlin 10,20,30 2 * * *", "2026-03-28T02:00", []string{"2026-03-29T01:00", "2026-03-30T00:10"}},
		{"a fixed time in the gap joins one at its end", "TZ=Europe/Berlin 0 2,3 * * *", "2026-03-28T03:00", []string{"2026-03-29T01:00", "2026-03-30T00:00"}},
		{"hours told as a range are fixed times", "TZ=Europe/Berlin 0 1-4 * * *", "2026-03-28T04:00", []string{"2026-03-29T00:00", "2026-03-29T01:00", "2026-03-29T02:00", "2026-03-29T23:00"}},
		{"a fixed time in the overlap fires in the first pass", "TZ=Europe/Berlin 30 2 * * *", "2026-10-24T01:00", []string{"2026-10-25T00:30", "2026-10-26T01:30"}},
		{"asked in the second pass, it is past", "TZ=Europe/Berlin 30 2 * * *", "2026-10-25T01:10", []string{"2026-10-26T01:30"}},
		{"the hour after the overlap is not repeated", "TZ=Europe/Berlin 0 3 * * *", "2026-10-25T00:00", []string{"2026-10-25T02:00"}},
		{"a range of hours does not fire in the second pass", "TZ=Europe/Berlin 0 1-4 * * *", "2026-10-24T12:00", []string{"2026-10-24T23:00", "2026-10-25T00:00", "2026-10-25T02:00", "2026-10-25T03:00"}},
		{"every hour skips the gap", "TZ=Europe/Berlin 0 * * * *", "2026-03-28T23:30", []string{"2026-03-29T00:00", "2026-03-29T01:00", "2026-03-29T02:00"}},
		{"every hour fires in both passes", "TZ=Europe/Berlin 0 * * * *", "2026-10-24T23:30", []string{"2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00"}},
		{"every half hour fires in both passes", "TZ=Europe/Berlin */30 * * * *", "2026-10-25T00:00", []string{"2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2026-10-25T02:00"}},
		{"* in the minute alone fires in both passes", "TZ=Europe/Berlin */30 2 * * *", "2026-10-24T12:00", []string{"2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2026-10-26T01:00"}},
		{"* in the minute alone skips the gap", "TZ=Europe/Berlin */30 2 * * *", "2026-03-28T12:00", []string{"2026-03-30T00:00"}},
		{"an open step is as good as a *", "TZ=Europe/Berlin 0 0/2 * * *", "2026-10-24T21:00", []string{"2026-10-24T22:00", "2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T03:00"}},
		{"the same in New York, spring", "TZ=America/New_York 30 2 * * *", "2026-03-07T12:00", []string{"2026-03-08T07:00", "2026-03-09T06:30"}},
		{"the same in New York, autumn", "TZ=America/New_York 30 1 * * *", "2026-10-31T12:00", []string{"2026-11-01T05:30", "2026-11-02T06:30"}},
		{"@hourly in New York, autumn", "TZ=America/New_York @hourly", "2026-11-01T04:30", []string{"2026-11-01T05:00", "2026-11-01T06:00", "2026-11-01T07:00"}},
		{"a gap of half an hour", "TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-02T20:00", []string{"2026-10-03T15:30", "2026-10-04T15:15"}},
		{"an overlap of half an hour", "TZ=Australia/Lord_Howe 45 1 * * *", "2026-04-03T20:00", []string{"2026-04-04T14:45", "2026-04-05T15:15"}},
		{"every quarter through half an hour twice", "TZ=Australia/Lord_Howe */15 * * * *", "2026-04-04T14:30", []string{"2026-04-04T14:45", "2026-04-04T15:00", "2026-04-04T15:15", "2026-04-04T15:30"}},
		{"no midnight in Sao Paulo", "TZ=America/Sao_Paulo @daily", "2018-11-03T12:00", []string{"2018-11-04T03:00", "2018-11-05T02:00"}},
		{"late in an hour that is shown again", "TZ=Europe/Berlin 50 2 * * *", "2026-10-25T01:35", []string{"2026-10-26T01:50"}},
		{"late in two hours that are shown again", "TZ=Antarctica/Troll 50 2 * * *", "2026-10-25T02:10", []string{"2026-10-26T02:50"}},
		{"two hours that are shown again, at a pace", "TZ=Antarctica/Troll 0 * * * *", "2026-10-24T23:30", []string{"2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00", "2026-10-25T03:00"}},
		{"late in three hours that are shown again", "TZ=Antarctica/Casey 50 1 * * *", "2010-03-04T17:30", []string{"2010-03-05T17:50"}},
		{"an hour before midnight twice in Sao Paulo", "TZ=America/Sao_Paulo 30 23 * * *", "2018-02-17T12:00", []string{"2018-02-18T01:30", "2018-02-19T02:30"}},
		{"midnight after that is not repeated", "TZ=America/Sao_Paulo @daily", "2018-02-17T12:00", []string{"2018-02-18T03:00", "2018-02-19T03:00"}},
		{"no midnight in Cairo", "TZ=Africa/Cairo @daily", "2024-04-25T12:00", []string{"2024-04-25T22:00", "2024-04-26T21:00"}},
		{"no midnight in Beirut", "TZ=Asia/Beirut 0 0 * * SUN", "2024-03-30T12:00", []string{"2024-03-30T22:00", "2024-04-06T21:00"}},
		{"a month that begins without a midnight", "TZ=Asia/Amman 0 0 1 4 *", "2022-01-01T00:00", []string{"2022-03-31T21:00"}},
		{"a day that never was", "TZ=Pacific/Apia 0 12 * * *", "2011-12-29T12:00", []string{"2011-12-29T22:00", "2011-12-30T10:00", "2011-12-30T22:00"}},
		{"the date that never was", "TZ=Pacific/Apia 0 12 30 12 *", "2011-12-01T00:00", []string{"2011-12-30T10:00", "2012-12-29T22:00"}},
		{"every six hours over the day that never was", "TZ=Pacific/Apia 0 */6 * * *", "2011-12-29T22:00", []string{"2011-12-30T04:00", "2011-12-30T10:00", "2011-12-30T16:00"}},
		{"months ahead, over other changes", "TZ=Europe/Berlin 30 2 1 12 *", "2026-03-01T12:00", []string{"2026-12-01T01:30", "2027-12-01T01:30"}},
		{"months ahead, by steps", "TZ=Europe/Berlin */30 2 1 12 *", "2026-03-01T12:00", []string{"2026-12-01T01:00", "2026-12-01T01:30", "2027-12-01T01:00"}},
		{"months ahead, by steps, west of Greenwich", "TZ=America/New_York */30 2 1 7 *", "2026-01-01T12:00", []string{"2026-07-01T06:00", "2026-07-01T06:30", "2027-07-01T06:00"}},
		{"months ahead, into an overlap", "TZ=Europe/Berlin */30 2 25 10 *", "2026-01-01T12:00", []string{"2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2027-10-25T00:00"}},
		{"at a pace in one overlap and never again", "TZ=Europe/Berlin 0 */30 2 25 10 ? 2026", "2026-10-24T12:00", []string{"2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", ""}},
		{"years ahead, into a gap", "TZ=Europe/Berlin 0 30 2 29 3 ? 2026", "2019-01-01T12:00", []string{"2026-03-29T01:00", ""}},
		{"only in a gap, at a pace: never", "TZ=Europe/Berlin 0 */30 2 29 3 ? 2026", "2019-01-01T12:00", []string{""}},
		{"years from now the rules still hold", "TZ=Europe/Berlin 30 2 * * *", "2098-03-29T12:00", []string{"2098-03-30T01:00", "2098-03-31T00:30"}},
	})
}

// TestNextInFixedZone: a zone without rules is the simplest of all.
func TestNextInFixedZone(t *testing.T) {
	e, err := cron.ParseIn("0 3 * * *", time.FixedZone("", 5*3600+45*60))
	if err != nil {
		t.Fatal(err)
	}
	got := e.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if want := time.Date(2026, 1, 1, 21, 15, 0, 0, time.UTC); !got.Equal(want) || got.Location() != e.Location() {
		t.Errorf("got %v, want %v", got, want)
	}
}

// rules are those of some zones, in the form of the TZ variable.
var rules = []string{
	"CET-1CEST,M3.5.0,M10.5.0/3",                                     // Europe/Berlin
	"EST5EDT,M3.2.0,M11.1.0",                                         // America/New_York
	"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",                           // Australia/Lord_Howe
	"<-04>4<-03>,M9.1.6/24,M4.1.6/24",                                // America/Santiago
	"<+12>-12<+13>,M12.5.0/23,M12.5.0/24",                            // an hour of daylight saving within the last days of the year
	"IST-1GMT0,M10.5.0,M3.5.0/1", "<+00>0<+02>-2,M3.5.0/1,M10.5.0/3", // Europe/Dublin, Antarctica/Troll
}

// ruleZone returns a zone whose clocks follow a rule from 1970 on, as every zone does once the last change in its file has passed. Some
// files have no more than that from the last year on in which the rule changed: zic -b slim makes them.
func ruleZone(t *testing.T, rule string) *time.Location {
	t.Helper()
	return zoneOf(t, rule, []change{{0, 0}})
}

// listZone returns the same zone from a file that lists all changes until 2037, as zic -b fat makes them.
func listZone(t *testing.T, rule string) *time.Location {
	t.Helper()
	loc := ruleZone(t, rule)
	offset := func(at int64) int32 { _, offset := time.Unix(at, 0).In(loc).Zone(); return int32(offset) }
	const day = 24 * 3600
	changes := []change{{0, offset(0)}}
	for at := int64(0); at < time.Date(2037, 12, 31, 0, 0, 0, 0, time.UTC).Unix(); at += day {
		same, end := at, at+day
		for offset(same) != offset(end) && end-same > 1 {
			if middle := (same + end) / 2; offset(middle) == offset(at) {
				same = middle
			} else {
				end = middle
			}
		}
		if offset(end) != offset(at) {
			changes = append(changes, change{end, offset(end)})
		}
	}
	return zoneOf(t, rule, changes)
}

// A change of the clocks: what they show minus UTC from an instant on, both in seconds.
type change struct {
	at     int64
	offset int32
}

// zoneOf returns the zone of a file (RFC 9636) that has these changes and then a rule.
func zoneOf(t *testing.T, rule string, changes []change) *time.Location {
	t.Helper()
	var header [44]byte
	copy(header[:], "TZif2")
	data := append([]byte(nil), header[:]...) // the old part, empty
	for i, count := range []uint32{0, 0, 0, uint32(len(changes)), uint32(len(changes)), 4} {
		binary.BigEndian.PutUint32(header[20+4*i:], count)
	}
	data = append(data, header[:]...)
	for _, c := range changes {
		data = binary.BigEndian.AppendUint64(data, uint64(c.at))
	}
	for i := range changes {
		data = append(data, byte(i))
	}
	for _, c := range changes {
		data = append(binary.BigEndian.AppendUint32(data, uint32(c.offset)), 0, 0)
	}
	data = append(data, "UTC\x00\n"+rule+"\n"...)
	loc, err := time.LoadLocationFromTZData(rule, data)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// TestZoneFilesOfBothKinds: what is due does not depend on whether the file of a zone lists its changes until 2037 or has a rule instead. All replicas
// of a job must agree, although their machines have files of different kinds.
func TestZoneFilesOfBothKinds(t *testing.T) {
	for _, rule := range rules {
		t.Run(rule, func(t *testing.T) {
			ruled, listed := ruleZone(t, rule), listZone(t, rule)
			for _, text := range []string{"30 2 * * *", "0 0 * * *", "*/30 2 * * *", "0 3 29 2 *", "15 23 L * *", "0 2 * * SUN#1"} {
				one, err := cron.ParseIn(text, ruled)
				if err != nil {
					t.Fatal(err)
				}
				other, err := cron.ParseIn(text, listed)
				if err != nil {
					t.Fatal(err)
				}
				for _, year := range []int{2024, 2037, 2038, 2100} {
					end := time.Date(year+1, 1, 2, 0, 0, 0, 0, time.UTC)
					for at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC); at.Before(end); {
						next, same := one.Next(at), other.Next(at)
						if !next.Equal(same) || !next.After(at) {
							t.Fatalf("%q after %v: %v by the rule, %v by the list", text, at, next, same)
						}
						if last, same := one.Prev(next), other.Prev(next); !last.Equal(same) || !last.Before(next) {
							t.Fatalf("%q before %v: %v by the rule, %v by the list", text, next, last, same)
						}
						at = next
					}
				}
			}
		})
	}
}

// TestEndOfLeapYears: on the last day of a leap year package time reports that a zone with daylight saving changed its clocks in the
// past (https://go.dev/issue/81583). A search that believed it never ended.
func TestEndOfLeapYears(t *testing.T) {
	for _, rule := range rules {
		t.Run(rule, func(t *testing.T) {
			loc := ruleZone(t, rule)
			r := rand.New(rand.NewPCG(5, 6))
			for year := 2000; year <= 2196; year += 28 {
				after := time.Date(year, 12, 30, 12, 0, 0, 0, time.UTC)
				for range 4 {
					compareIn(t, randomReference(r, true, false), loc, after, 72*time.Hour, time.Minute)
				}
			}
			for _, year := range []int{2024, 2028, 2029, 2040, 2041, 2100, 2199} {
				e, err := cron.ParseIn(fmt.Sprintf("0 30 12 31 12 ? %d", year), loc)
				if err != nil {
					t.Fatal(err)
				}
				want := time.Date(year, 12, 31, 12, 30, 0, 0, loc)
				if got := e.Next(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)); !got.Equal(want) {
					t.Errorf("%q: got %v, want %v", e, got, want)
				}
			}
		})
	}
}

// TestLastDaysOfLeapYearsInRealZones asks the zones of this machine, whose files reach further than a rule.
func TestLastDaysOfLeapYearsInRealZones(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Sydney", "America/Santiago", "Africa/Casablanca", "Asia/Tokyo"} {
		for year := 2024; year < 2100; year += 4 {
			for _, text := range []string{"0 3 * * *", "*/20 * * * *", "30 2,14 * * *"} {
				e := cron.MustParse("TZ=" + name + " " + text)
				for _, after := range []time.Time{
					time.Date(year, 12, 30, 12, 0, 0, 0, time.UTC), time.Date(year, 12, 31, 5, 0, 0, 0, time.UTC), time.Date(year, 12, 31, 23, 59, 0, 0, time.UTC),
				} {
					if next := e.Next(after); !next.After(after) || next.Sub(after) > 37*time.Hour {
						t.Errorf("%q after %v: got %v", e, after, next)
					}
				}
			}
		}
	}
}

// A zone of the program that has the name of another one is not written down by that: who reads it would have the times of the other.
func TestZoneWithTheNameOfAnother(t *testing.T) {
	for _, test := range []struct {
		loc  *time.Location
		want string // empty for an error
	}{
		{time.FixedZone("CET", 3600), ""}, // CET has daylight saving
		{time.FixedZone("Europe/Berlin", 3600), ""},
		{time.FixedZone("UTC", 60), ""},
		{time.FixedZone("UTC", 0), "TZ=UTC 0 3 * * *"},
		{time.FixedZone("Asia/Tokyo", 9*3600), "TZ=Asia/Tokyo 0 3 * * *"}, // which has set no clock since 1970
		{zone(t, "America/New_York"), "TZ=America/New_York 0 3 * * *"},
		{zone(t, "Africa/Casablanca"), "TZ=Africa/Casablanca 0 3 * * *"},
	} {
		e, err := cron.ParseIn("0 3 * * *", test.loc)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := e.MarshalText(); string(text) != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%v: %q, %v; want %q", test.loc, text, err, test.want)
		}
	}
}
