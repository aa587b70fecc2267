package croncompare

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones must be the same on every machine
)

const layout = "2006-01-02T15:04:05"

// A requirement is a question to every candidate. Its expressions are spelled for each of them; want are the times
// that must come after the given one, in UTC.
type requirement struct {
	name, expression, zone string
	after                  string
	want                   []string
	refuse                 bool // the right answer is an error
}

var requirements = []requirement{
	{name: "seconds: `0/30 * * * * ?`", expression: "0/30 * * * * ?", after: "2026-01-01T00:00:01", want: []string{"2026-01-01T00:00:30", "2026-01-01T00:01:00"}},
	{name: "seven fields", expression: "0 0 0 1 1 ? 2030", after: "2026-01-01T00:00:00", want: []string{"2030-01-01T00:00:00"}},
	{name: "`?` for a day", expression: "0 0 0 ? * FRI", after: "2026-01-01T00:00:00", want: []string{"2026-01-02T00:00:00", "2026-01-09T00:00:00"}},
	{name: "names", expression: "0 0 * feb,MAR mon", after: "2026-01-01T00:00:00", want: []string{"2026-02-02T00:00:00", "2026-02-09T00:00:00"}},
	{name: "Sunday is 0 and 7", expression: "0 0 * * 7", after: "2026-01-01T00:00:00", want: []string{"2026-01-04T00:00:00", "2026-01-11T00:00:00"}},
	{name: "a step from a value: `10/25`", expression: "10/25 * * * *", after: "2026-01-01T00:00:00", want: []string{"2026-01-01T00:10:00", "2026-01-01T00:35:00", "2026-01-01T01:10:00"}},
	{name: "`L`", expression: "0 0 L * ?", after: "2026-02-01T00:00:00", want: []string{"2026-02-28T00:00:00", "2026-03-31T00:00:00"}},
	{name: "`L-3`", expression: "0 0 L-3 * ?", after: "2026-02-01T00:00:00", want: []string{"2026-02-25T00:00:00", "2026-03-28T00:00:00"}},
	{name: "`1,L`", expression: "0 0 1,L * ?", after: "2026-02-01T00:00:00", want: []string{"2026-02-28T00:00:00", "2026-03-01T00:00:00"}},
	{name: "`15W`", expression: "0 0 15W * ?", after: "2026-02-01T00:00:00", want: []string{"2026-02-16T00:00:00", "2026-03-16T00:00:00"}},
	{name: "`1W` inside the month", expression: "0 0 1W 8 ?", after: "2026-01-01T00:00:00", want: []string{"2026-08-03T00:00:00"}},
	{name: "`LW`", expression: "0 0 LW * ?", after: "2026-01-01T00:00:00", want: []string{"2026-01-30T00:00:00", "2026-02-27T00:00:00"}},
	{name: "`FRIL`", expression: "0 0 ? * FRIL", after: "2026-01-01T00:00:00", want: []string{"2026-01-30T00:00:00", "2026-02-27T00:00:00"}},
	{name: "`FRI#2`", expression: "0 0 ? * FRI#2", after: "2026-01-01T00:00:00", want: []string{"2026-01-09T00:00:00", "2026-02-13T00:00:00"}},
	{name: "`FRI-MON`", expression: "0 0 ? * FRI-MON", after: "2026-01-05T00:00:00", want: []string{"2026-01-09T00:00:00", "2026-01-10T00:00:00", "2026-01-11T00:00:00", "2026-01-12T00:00:00"}},
	{name: "`NOV-FEB`", expression: "0 0 1 NOV-FEB ?", after: "2026-01-15T00:00:00", want: []string{"2026-02-01T00:00:00", "2026-11-01T00:00:00"}},
	{name: "`22-2`", expression: "0 22-2 * * *", after: "2026-01-01T01:30:00", want: []string{"2026-01-01T02:00:00", "2026-01-01T22:00:00"}},
	{name: "`13` or `FRI`, as in Vixie cron", expression: "0 0 13 * FRI", after: "2026-04-04T00:00:00", want: []string{"2026-04-10T00:00:00", "2026-04-13T00:00:00"}},
	{name: "`*/2` and `MON`, as in Vixie cron", expression: "0 0 */2 * MON", after: "2026-02-01T00:00:00", want: []string{"2026-02-09T00:00:00", "2026-02-23T00:00:00"}},
	{name: "29 February over 2100", expression: "0 0 29 2 *", after: "2096-03-01T00:00:00", want: []string{"2104-02-29T00:00:00"}},
	{name: "`@daily`", expression: "@daily", after: "2026-01-01T00:30:00", want: []string{"2026-01-02T00:00:00"}},
	{name: "`@every` from the epoch", expression: "@every 10m", after: "2026-01-01T00:03:07", want: []string{"2026-01-01T00:10:00", "2026-01-01T00:20:00"}},
	{name: "`TZ=` prefix", expression: "TZ=Asia/Tokyo 0 3 * * *", after: "2026-01-01T00:00:00", want: []string{"2026-01-01T18:00:00"}},
	{name: "gap: a fixed time fires once", zone: "Europe/Berlin", expression: "30 2 * * *", after: "2026-03-28T02:00:00", want: []string{"2026-03-29T01:00:00", "2026-03-30T00:30:00"}},
	{name: "gap: a missing midnight", zone: "America/Sao_Paulo", expression: "0 0 * * *", after: "2018-11-03T12:00:00", want: []string{"2018-11-04T03:00:00", "2018-11-05T02:00:00"}},
	{name: "gap: every hour goes on", zone: "Europe/Berlin", expression: "0 * * * *", after: "2026-03-28T23:30:00", want: []string{"2026-03-29T00:00:00", "2026-03-29T01:00:00", "2026-03-29T02:00:00"}},
	{name: "overlap: a fixed time fires once", zone: "Europe/Berlin", expression: "30 2 * * *", after: "2026-10-24T02:00:00", want: []string{"2026-10-25T00:30:00", "2026-10-26T01:30:00"}},
	{name: "overlap: every hour, both passes", zone: "Europe/Berlin", expression: "0 * * * *", after: "2026-10-24T23:30:00", want: []string{"2026-10-25T00:00:00", "2026-10-25T01:00:00", "2026-10-25T02:00:00"}},
	{name: "overlap: of half an hour", zone: "Australia/Lord_Howe", expression: "45 1 * * *", after: "2026-04-03T20:00:00", want: []string{"2026-04-04T14:45:00", "2026-04-05T15:15:00"}},
	{name: "error: can never fire", expression: "0 0 30 2 *", refuse: true},
	{name: "error: a step of 0", expression: "*/0 * * * *", refuse: true},
	{name: "error: eight fields", expression: "0 0 0 * * ? 2030 9", refuse: true},
	{name: "error: `FRI#6`", expression: "0 0 ? * FRI#6", refuse: true},
	{name: "error: `15-20W`", expression: "0 0 15-20W * ?", refuse: true},
}

// answer returns in a word how a candidate meets a requirement.
func (r requirement) answer(c candidate) string {
	ask, err := safely(func() (next, error) {
		if r.zone == "" {
			return c.parse(c.write(r.expression))
		}
		zone, err := time.LoadLocation(r.zone)
		if err != nil {
			return nil, err
		}
		return c.in(c.write(r.expression), zone)
	})
	switch {
	case r.refuse && err != nil:
		return "yes"
	case r.refuse:
		return "accepts it"
	case err != nil:
		return "refuses"
	}
	at, err := time.Parse(layout, r.after)
	if err != nil {
		return err.Error()
	}
	for _, want := range r.want {
		at, err = safely(func() (time.Time, error) { return ask(at), nil })
		if err != nil {
			return "panics"
		}
		if at.UTC().Format(layout) != want {
			return "other times"
		}
	}
	return "yes"
}

// sameAnywhere describes whether the answer depends on the zone of the time that is asked with.
func sameAnywhere(c candidate) string {
	ask, err := c.parse(c.write("0 3 * * *"))
	if err != nil {
		return "refuses"
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if !ask(at).Equal(ask(at.In(time.FixedZone("", 9*3600)))) {
		return "no"
	}
	return "yes"
}

// requires counts the modules that a candidate's own go.mod requires.
func requires(t *testing.T, c candidate) string {
	t.Helper()
	command := exec.Command("go", "mod", "graph")
	command.Env = append(os.Environ(), "GOWORK=off")
	graph, err := command.Output()
	if err != nil {
		t.Fatalf("go mod graph: %v", err)
	}
	count := 0
	for line := range strings.Lines(string(graph)) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		path, _, _ := strings.Cut(from, "@")
		if path == c.module && !strings.HasPrefix(to, "go@") && !strings.HasPrefix(to, "toolchain@") {
			count++
		}
	}
	return fmt.Sprint(count)
}

// TestFindings asserts that the table in the decision record is what the parsers do.
func TestFindings(t *testing.T) {
	var table strings.Builder
	row := func(name string, cell func(candidate) string) {
		fmt.Fprintf(&table, "| %s |", name)
		for _, c := range candidates {
			fmt.Fprintf(&table, " %s |", cell(c))
		}
		table.WriteString("\n")
	}
	row("requirement", func(c candidate) string { return c.name })
	row("---", func(candidate) string { return "---" })
	for _, r := range requirements {
		row(r.name, r.answer)
		if answer := r.answer(candidates[0]); answer != "yes" {
			t.Errorf("our own parser, asked for %s: %s", r.name, answer)
		}
	}
	row("the same times, whatever the zone of the clock", sameAnywhere)
	row("modules required", func(c candidate) string { return requires(t, c) })
	t.Log("\n" + table.String())

	record, err := os.ReadFile("../../docs/adr/0002-own-cron-parser.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(record), table.String()) {
		t.Error("docs/adr/0002-own-cron-parser.md says something else: put this table there, and think again")
	}
}
