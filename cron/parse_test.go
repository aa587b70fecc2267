package cron_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist/cron"
)

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		rule, expression string
		field, piece     string // of the ParseError
		says             string // a part of the problem that tells what would be right
	}{
		{"nothing at all", "", "", "", "give five to seven"},
		{"only spaces", " \t ", "", "", "give five to seven"},
		{"a zone and no fields", "TZ=UTC", "", "", "give five to seven"},
		{"too few fields", "* * * *", "", "", "has 4 fields"},
		{"too many fields", "* * * * * * * *", "", "", "has 8 fields"},
		{"one field", "5", "", "", "has 1 field:"},
		{"a line break does not separate fields", "0 0 *\n* *", "", "", "line break"},
		{"a crontab of two lines", "0 0 * * *\n0 1 * * *", "", "", "line break"},
		{"a no-break space", "0 0 *\u00a0* *", "", "", "the blank U+00A0"},
		{"a character that nobody sees", "0 0 * * *\u200b", "", "", "U+200B, which is not visible"},
		{"a control character", "@dai\x1b[31mly", "", "", "U+001B, which is not visible"},
		{"bytes that are not text", "0 0 * * \xff", "", "", "not visible"},
		{"a comment behind", "0 0 * * * # nightly", "", "", "remove \"# nightly\""},
		{"a comment without a space", "0 0 * * * #nightly", "", "", "remove \"#nightly\""},
		{"a zone prefix in small letters", "tz=Europe/Berlin 0 0 * * *", "", "", "in capitals"},
		{"another prefix", "ZONE=Europe/Berlin 0 0 * * *", "", "", "begins with \"ZONE=\""},
		{"a bomb", strings.Repeat("0,", 2000) + "0 * * * *", "", "", "at most 1024"},
		{"minute too large", "60 * * * *", "minute", "60", "0 to 59"},
		{"second too large", "60 * * * * *", "second", "60", "0 to 59"},
		{"hour too large", "0 24 * * *", "hour", "24", "0 to 23"},
		{"day too small", "0 0 0 * *", "day-of-month", "0", "1 to 31"},
		{"day too large", "0 0 32 * *", "day-of-month", "32", "1 to 31"},
		{"month too small", "0 0 * 0 *", "month", "0", "1 to 12 or JAN to DEC"},
		{"month too large", "0 0 * 13 *", "month", "13", "1 to 12 or JAN to DEC"},
		{"weekday too large", "0 0 * * 8", "day-of-week", "8", "0 to 7 or SUN to SAT"},
		{"year too early", "0 0 0 * * ? 1969", "year", "1969", "1970 to 2199"},
		{"year too late", "0 0 0 * * ? 2200", "year", "2200", "1970 to 2199"},
		{"a number beyond any integer", "0 0 0 * * ? 99999999999999999999", "year", "99999999999999999999", "1970 to 2199"},
		{"a number that is 5 and 2 to the power of 64", "18446744073709551621 * * * *", "minute", "18446744073709551621", "0 to 59"},
		{"years do not wrap", "0 0 0 * * ? 2030-2020", "year", "2030-2020", "write 2020-2030"},
		{"the piece of a list is named", "1,2,99 * * * *", "minute", "99", "0 to 59"},
		{"a range out of bounds", "0 9-25 * * *", "hour", "9-25", "0 to 23"},
		{"a range without an end", "5- * * * *", "minute", "5-", "lacks a value"},
		{"a negative number", "-5 * * * *", "minute", "-5", "is negative"},
		{"a negative number with a step", "-5/2 * * * *", "minute", "-5/2", "is negative"},
		{"two ranges in one", "1-2-3 * * * *", "minute", "1-2-3", "not understood"},
		{"a step of zero", "*/0 * * * *", "minute", "*/0", "from 1 on"},
		{"a step beyond the minutes", "*/90 * * * *", "minute", "*/90", "1 to 60, or @every"},
		{"a step beyond the hours", "0 */36 * * *", "hour", "*/36", "1 to 24, or @every"},
		{"a step beyond the days", "0 0 */32 * *", "day-of-month", "*/32", "1 to 31"},
		{"a step beyond the months", "0 0 1 */13 *", "month", "*/13", "1 to 12"},
		{"a step beyond any number", "*/1000000 * * * *", "minute", "*/1000000", "1 to 60"},
		{"a step that is no number", "*/x * * * *", "minute", "*/x", "from 1 on"},
		{"a step that is missing", "*/ * * * *", "minute", "*/", "from 1 on"},
		{"two steps", "*/2/3 * * * *", "minute", "*/2/3", "from 1 on"},
		{"an empty element", "1,,2 * * * *", "minute", "", "each side of a comma"},
		{"a comma at the end", "1, * * * *", "minute", "", "each side of a comma"},
		{"a fraction", "1.5 * * * *", "minute", "1.5", "0 to 59"},
		{"junk", "a * * * *", "minute", "a", "0 to 59"},
		{"an unknown month", "0 0 * FOO *", "month", "FOO", "JAN to DEC"},
		{"part of a month's name", "0 0 * JANU *", "month", "JANU", "JAN to DEC"},
		{"more than a month's name", "0 0 * MAYO *", "month", "MAYO", "JAN to DEC"},
		{"H in the year", "0 0 0 1 1 ? H", "year", "H", "write it out"},
		{"H with something behind", "H5 * * * *", "minute", "H5", "H stands alone"},
		{"H with a range that is open", "H(5 * * * *", "minute", "H(5", "H stands alone"},
		{"H with a range that is not closed", "H(5-10 * * * *", "minute", "H(5-10", "H stands alone"},
		{"H with a range that is not opened", "H5-10) * * * *", "minute", "H5-10)", "H stands alone"},
		{"H with one value", "H(5) * * * *", "minute", "H(5)", "H stands alone"},
		{"H with a range out of bounds", "H(0-60) * * * *", "minute", "H(0-60)", "0 to 59"},
		{"H with a range backwards", "H(30-10) * * * *", "minute", "H(30-10)", "write H(10-30)"},
		{"H with a step of zero", "H/0 * * * *", "minute", "H/0", "from 1 on"},
		{"H with a step too large", "H/90 * * * *", "minute", "H/90", "1 to 60"},
		{"H in a wrong list", "1,H/x * * * *", "minute", "H/x", "from 1 on"},
		{"a zone twice", "TZ=Asia/Tokyo CRON_TZ=UTC 0 0 * * *", "", "", "gives TZ= twice"},
		{"the rule for days, unknown", "DAYS=all 0 0 * * *", "", "", "DAYS=both"},
		{"the rule for days, twice", "DAYS=both DAYS=both 0 0 * * *", "", "", "twice"},
		{"the numbers of weekdays, unknown", "WEEKDAYS=iso 0 0 * * *", "", "", "WEEKDAYS=quartz"},
		{"weekday 0 as in Quartz", "WEEKDAYS=quartz 0 0 * * 0", "day-of-week", "0", "1 to 7 or SUN to SAT"},
		{"weekday 8 as in Quartz", "WEEKDAYS=quartz 0 0 * * 8L", "day-of-week", "8L", "1 to 7"},
		{"both days, which never meet", "DAYS=both 0 0 1 * MON#2", "", "", "never fires"},
		{"an unknown weekday", "0 0 * * FOO", "day-of-week", "FOO", "SUN to SAT"},
		{"a letter that only folds to another", "0 0 * * \u017fUN", "day-of-week", "\u017fUN", "SUN to SAT"},
		{"a weekday as a day of the month", "0 0 MON * *", "day-of-month", "MON", "1 to 31"},
		{"? where no day is", "? * * * *", "minute", "?", "day-of-month or day-of-week"},
		{"? in a list", "0 0 ?,5 * *", "day-of-month", "?", "stands alone"},
		{"? with a step", "0 0 ?/2 * *", "day-of-month", "?/2", "stands alone"},
		{"W with a range", "0 0 15-20W * *", "day-of-month", "15-20W", "15W or LW"},
		{"W with a step", "0 0 15W/2 * *", "day-of-month", "15W/2", "15W or LW"},
		{"W alone", "0 0 W * *", "day-of-month", "W", "15W or LW"},
		{"W out of range", "0 0 32W * *", "day-of-month", "32W", "1 to 31"},
		{"W in the day-of-week", "0 0 * * 5W", "day-of-week", "5W", "SUN to SAT"},
		{"L before a number", "0 0 L5 * *", "day-of-month", "L5", "L-1 to L-30"},
		{"L minus nothing", "0 0 L- * *", "day-of-month", "L-", "L-1 to L-30"},
		{"L minus more than a month", "0 0 L-31 * *", "day-of-month", "L-31", "L-1 to L-30"},
		{"L in a range", "0 0 15-L * *", "day-of-month", "15-L", "1 to 31"},
		{"L minus days in the day-of-week", "0 0 * * L-3", "day-of-week", "L-3", "FRIL or 5L"},
		{"L with a range of weekdays", "0 0 * * MON-FRIL", "day-of-week", "MON-FRIL", "FRIL"},
		{"L with weekday 8", "0 0 * * 8L", "day-of-week", "8L", "0 to 7"},
		{"a sixth Friday", "0 0 * * FRI#6", "day-of-week", "FRI#6", "#1 to #5"},
		{"a Friday before the first", "0 0 * * FRI#0", "day-of-week", "FRI#0", "#1 to #5"},
		{"# without a number", "0 0 * * FRI#", "day-of-week", "FRI#", "#1 to #5"},
		{"# without a weekday", "0 0 * * #2", "day-of-week", "#2", "FRI#2"},
		{"# in the day-of-month", "0 0 5#2 * *", "day-of-month", "5#2", "day-of-week"},
		{"30 February", "0 0 30 2 *", "", "", "never fires"},
		{"31 in months of 30", "0 0 31 2,4 *", "", "", "never fires"},
		{"29 February in a year without", "0 0 0 29 2 ? 2027", "", "", "never fires"},
		{"2100 is no leap year", "0 0 0 29 2 ? 2100", "", "", "never fires"},
		{"the weekday nearest 30 February", "0 0 30W 2 *", "", "", "never fires"},
		{"30 days before the last of April", "0 0 L-30 4 *", "", "", "never fires"},
		{"a year as the sixth field", "0 0 1 1 * 2027", "", "", "a year needs all seven"},
		{"@reboot", "@reboot", "", "", "a cluster does not"},
		{"an unknown name", "@fortnightly", "", "", "\"@fortnightly\" is unknown: use @hourly"},
		{"a name with an argument", "@daily 5", "", "", "remove \"5\""},
		{"@every without a duration", "@every", "", "", "needs a duration"},
		{"@every with a bare number", "@every 5", "", "", "90s, 10m, 1h30m"},
		{"@every zero", "@every 0s", "", "", "one or more whole milliseconds"},
		{"@every backwards", "@every -1h", "", "", "use whole milliseconds"},
		{"@every finer than a run's name", "@every 1500us", "", "", "whole milliseconds"},
		{"@every with months", "@every P1M", "", "", "lengths differ"},
		{"@every with nothing behind P", "@every P", "", "", "is not a duration"},
		{"@every with nothing behind T", "@every P1DT", "", "", "is not a duration"},
		{"@every with units in the wrong order", "@every PT5S1M", "", "", "is not a duration"},
		{"@every with days behind hours", "@every 1h1d", "", "", "is not a duration"},
		{"@every with a day of no number", "@every d", "", "", "is not a duration"},
		{"@every with a sign inside", "@every 1d-1h", "", "", "is not a duration"},
		{"@every for longer than time is counted", "@every 106752d", "", "", "is not a duration"},
		{"@every a little longer than time is counted", "@every 106751d24h", "", "", "is not a duration"},
		{"@every a little longer as in ISO 8601", "@every P106751DT24H", "", "", "is not a duration"},
		{"@every a little longer in weeks and days", "@every 15250w2d", "", "", "is not a duration"},
		{"@every with weeks beyond all bounds", "@every 99999999999999999999w", "", "", "is not a duration"},
		{"@every with a word behind", "@every 1h now", "", "", "one duration and one offset"},
		{"@every with an offset that is none", "@every 1h offset x", "", "", "the offset \"x\" is not a duration"},
		{"@every with an offset as long as itself", "@every 1h offset 60m", "", "", "not less than \"1h\""},
		{"@every with two offsets", "@every 1h offset 1m offset 2m", "", "", "one duration and one offset"},
		{"an unknown zone", "TZ=Mars/Olympus 0 0 * * *", "", "", "time/tzdata"},
		{"a zone without a name", "TZ= 0 0 * * *", "", "", "TZ=Europe/Berlin"},
		{"the zone of this machine", "CRON_TZ=Local 0 0 * * *", "", "", "differs between machines"},
		{"a link to it", "CRON_TZ=localtime 0 0 * * *", "", "", "zone localtime differs between machines"},
		{"the link by a longer way", "TZ=./localtime 0 0 * * *", "", "", "./localtime differs between machines"},
		{"a zone file outside the database", "TZ=../../etc/passwd 0 0 * * *", "", "", "is unknown"},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			_, err := cron.Parse(test.expression)
			var wrong *cron.ParseError
			if !errors.As(err, &wrong) {
				t.Fatalf("Parse(%q) = %v, want a *ParseError", test.expression, err)
			}
			if wrong.Field != test.field || wrong.Piece != test.piece || !strings.Contains(wrong.Problem, test.says) {
				t.Errorf("Parse(%q) = %v\nwant field %q, piece %q and %q", test.expression, err, test.field, test.piece, test.says)
			}
			if len(err.Error()) > 2048 {
				t.Errorf("the error has %d bytes: a bound for expressions is one for what is told of them", len(err.Error()))
			}
			if quoted := strconv.Quote(wrong.Expression); !strings.Contains(err.Error(), quoted) {
				t.Errorf("the error %q does not name the expression", err)
			}
		})
	}
}

func TestParseIn(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	inBerlin, err := cron.ParseIn(" 0 3 * * * ", berlin)
	if err != nil {
		t.Fatal(err)
	}
	if inBerlin.Location() != berlin || inBerlin.String() != "0 3 * * *" {
		t.Errorf("got %q in %v, want the text as given, in Berlin", inBerlin, inBerlin.Location())
	}
	prefixed, err := cron.ParseIn("CRON_TZ=Asia/Tokyo 0 3 * * *", berlin)
	if err != nil {
		t.Fatal(err)
	}
	if prefixed.Location().String() != "Asia/Tokyo" || prefixed.String() != "CRON_TZ=Asia/Tokyo 0 3 * * *" {
		t.Errorf("got %q in %v, want the prefix to win over the argument", prefixed, prefixed.Location())
	}
	if _, err := cron.ParseIn("0 3 * * *", nil); err == nil {
		t.Error("ParseIn accepted a nil zone")
	}
}

// TestDefaultZone: replicas with different TZ variables must agree.
func TestDefaultZone(t *testing.T) {
	local := time.Local
	defer func() { time.Local = local }()
	time.Local = zone(t, "Asia/Tokyo")
	got := cron.MustParse("0 3 * * *").Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if want := time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC); !got.Equal(want) || got.Location() != time.UTC {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMustParsePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("MustParse did not panic")
		}
	}()
	cron.MustParse("nonsense")
}

func TestZeroExpressionNeverFires(t *testing.T) {
	var zero cron.Expression
	if got := zero.Next(time.Now()); !got.IsZero() {
		t.Errorf("got %v, want the zero time", got)
	}
	if got := cron.Describe(&zero); got != "never" {
		t.Errorf("got %q, want never", got)
	}
}

func TestText(t *testing.T) {
	tests := []struct {
		rule, expression, zone string
		want                   string // empty for an error
	}{
		{"UTC needs no prefix", "0 3 * * *", "UTC", "0 3 * * *"},
		{"a prefix stays as it is", "CRON_TZ=Asia/Tokyo 0 3 * * *", "UTC", "CRON_TZ=Asia/Tokyo 0 3 * * *"},
		{"a zone given apart is written down", "0 3 * * *", "Europe/Berlin", "TZ=Europe/Berlin 0 3 * * *"},
		{"the zone of a machine has no name", "0 3 * * *", "Local", ""},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			e, err := cron.ParseIn(test.expression, zone(t, test.zone))
			if err != nil {
				t.Fatal(err)
			}
			text, err := e.MarshalText()
			if (err != nil) != (test.want == "") || string(text) != test.want {
				t.Fatalf("got %q, %v, want %q", text, err, test.want)
			}
		})
	}
	var configuration struct{ Schedule cron.Expression }
	if err := json.Unmarshal([]byte(`{"Schedule": "TZ=Asia/Tokyo 0 3 * * *"}`), &configuration); err != nil {
		t.Fatal(err)
	}
	if got := configuration.Schedule.String(); got != "TZ=Asia/Tokyo 0 3 * * *" {
		t.Errorf("got %q", got)
	}
	if err := json.Unmarshal([]byte(`{"Schedule": "0 3 * *"}`), &configuration); err == nil {
		t.Error("a wrong expression was accepted")
	}
}

// zone loads a zone or ends the test.
func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}
