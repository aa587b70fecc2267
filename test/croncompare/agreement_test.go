package croncompare

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A difference is a known one: expressions of which a candidate makes something else, and why.
type difference struct {
	candidate, why string
	concerns       func(fields []string) bool // of minute, hour, day-of-month, month, day-of-week
}

var differences = []difference{
	{"reugn/go-quartz", "refuses a day-of-month together with a day-of-week, as Quartz does", bothDays},
	{"hashicorp/cronexpr", "takes SUN-SUN for the whole week", hasSundayToSunday},
	{"netresearch/go-cron", "refuses a step that is not smaller than its range", hasWideStep},
}

func bothDays(fields []string) bool { return fields[2] != "*" && fields[4] != "*" }

func hasSundayToSunday(fields []string) bool { return strings.HasPrefix(fields[4], "SUN-SUN") }

func hasWideStep(fields []string) bool {
	_, err := parseNetresearch(strings.Join(fields, " "))
	return err != nil && strings.Contains(err.Error(), "must be less than range size")
}

// isNextDayMistake recognizes what go-quartz does now and then when it is asked after the last time of a day: it answers
// with a time on the next day although that day, or its month, does not match. After 2028-04-30T23:42 it has
// "42 * * JAN,APR *" fire on 1 May.
func isNextDayMistake(c candidate, at, got, want time.Time) bool {
	return c.name == "reugn/go-quartz" && want.After(got) && got.Truncate(24*time.Hour).Equal(at.Truncate(24*time.Hour).AddDate(0, 0, 1))
}

// shared makes up a field of the dialect that all candidates share: values, forward ranges, steps and lists.
func shared(r *rand.Rand, low, high int, name func(int) string) string {
	from := low + r.IntN(high-low+1)
	to := from + r.IntN(high-from+1)
	switch r.IntN(5) {
	case 0:
		return name(from)
	case 1:
		return name(from) + "-" + name(to)
	case 2:
		return fmt.Sprintf("%s-%s/%d", name(from), name(to), 1+r.IntN(5))
	case 3:
		return name(from) + "," + name(to)
	}
	return "*"
}

// TestAgreement compares next times over years, in UTC, on the shared dialect.
func TestAgreement(t *testing.T) {
	number := func(n int) string { return fmt.Sprint(n) }
	weekday := func(n int) string { return []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}[n] }
	month := func(n int) string { return strings.ToUpper(time.Month(n).String()[:3]) }
	for _, c := range candidates[1:] {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 11))
			compared, known, unlike := 0, 0, 0
			for range 400 {
				fields := []string{shared(r, 0, 59, number), shared(r, 0, 23, number), shared(r, 1, 28, number),
					shared(r, 1, 12, month), shared(r, 0, 6, weekday)}
				if r.IntN(2) == 0 {
					fields[3] = "*"
				}
				if isKnown(c, fields) {
					known++
					continue
				}
				compared++
				if difference := compare(t, c, strings.Join(fields, " "), r); difference != "" {
					if unlike++; unlike <= 3 {
						t.Error(difference)
					}
				}
			}
			t.Logf("%d expressions compared, %d differ; %d set aside", compared, unlike, known)
			if unlike > 3 {
				t.Errorf("%d expressions differ in all", unlike)
			}
		})
	}
}

func isKnown(c candidate, fields []string) bool {
	for _, d := range differences {
		if d.candidate == c.name && d.concerns(fields) {
			return true
		}
	}
	return false
}

// compare walks forty times ahead, jumping days in between, and tells the first difference.
func compare(t *testing.T, c candidate, expression string, r *rand.Rand) string {
	t.Helper()
	ours, err := parseSoloist(expression)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := safely(func() (next, error) { return c.parse(c.write(expression)) })
	if err != nil {
		return fmt.Sprintf("%q: %v", expression, err)
	}
	at := time.Date(2020+r.IntN(10), 1, 1, 0, 0, 0, 0, time.UTC)
	for range 40 {
		want := ours(at)
		got, err := safely(func() (time.Time, error) { return theirs(at), nil })
		if err != nil || !got.Equal(want) && !isNextDayMistake(c, at, got, want) {
			return fmt.Sprintf("%q after %s: %s, %v; ours %s", expression, at, got.UTC(), err, want)
		}
		at = want
		if r.IntN(2) == 0 {
			at = at.Add(time.Duration(r.IntN(60*24)) * time.Hour)
		}
	}
	return ""
}
