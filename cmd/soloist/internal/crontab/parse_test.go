package crontab

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func parse(t *testing.T, name, text string, d Dialect) *File {
	t.Helper()
	f, err := Parse(name, whole(text), d)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// whole ends the last line of a text.
func whole(text string) []byte {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return []byte(text)
}

func wantError(t *testing.T, name, text string, d Dialect, says ...string) {
	t.Helper()
	_, err := Parse(name, whole(text), d)
	for _, s := range says {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%.80q: error %v, want one that says %q", text, err, s)
		}
	}
}

func TestNamesFollowFromContent(t *testing.T) {
	names := func(text string) (names []string) {
		for _, j := range parse(t, "c", text, Dialect{}).Jobs {
			names = append(names, j.Name)
		}
		slices.Sort(names)
		return names
	}
	base := names("0 3 * * * a\n0 4 * * * b\n")
	for name, text := range map[string]string{
		"reordered":  "0 4 * * * b\n0 3 * * * a\n",
		"spaced":     "\n\n# x\n  0  3 *\t* *   a  \r\n0 4 * * * b",
		"options":    "# soloist: ttl=5s\n0 3 * * * a\n0 4 * * * b\n",
		"zone named": "CRON_TZ=UTC\n0 3 * * * a\n0 4 * * * b\n",
	} {
		if got := names(text); !slices.Equal(got, base) {
			t.Errorf("%s: %q, want %q", name, got, base)
		}
	}
	for name, text := range map[string]string{
		"schedule": "0 2 * * * a\n0 5 * * * b\n",
		"env":      "X=1\n0 3 * * * a\n0 4 * * * b\n",
		"shell":    "SHELL=/bin/bash\n0 3 * * * a\n0 4 * * * b\n",
		"zone":     "CRON_TZ=Europe/Berlin\n0 3 * * * a\n0 4 * * * b\n",
		"stdin":    "0 3 * * * a%\n0 4 * * * b%x\n",
		"command":  "0 3 * * * a 1\n0 4 * * * b 1\n",
	} {
		for _, got := range names(text) {
			if slices.Contains(base, got) {
				t.Errorf("another %s gives the same name %q", name, got)
			}
		}
	}
	// The names of jobs are what the fleet agrees on: this one must never change.
	if got := names("@daily /opt/Report_x.sh --all"); got[0] != "report-x-sh-156d646a" {
		t.Errorf("the derived name has changed to %q", got[0])
	}
}

func TestSlug(t *testing.T) {
	for command, want := range map[string]string{
		"./report.sh --all":                      "report-sh",
		"/usr/bin/python3 -u /app/send_mails.py": "send-mails-py",
		"cd /app && ./run me":                    "me",
		"PASSWORD=secret FOO=bar backup":         "backup",
		"bash -c 'x'":                            "x",
		"bash":                                   "bash",
		"[ -x /a ] && /usr/sbin/Anacron":         "a",
		"123":                                    "job",
		"émile":                                  "mile",
		"a-very-long-name-of-a-command-that-goes-on": "a-very-long-name-of-a-command-th",
	} {
		if got := slug(command); got != want {
			t.Errorf("slug(%q) = %q, want %q", command, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for text, want := range map[string][2]string{
		`date`:           {`date`, ""},
		`date +\%F`:      {`date +%F`, ""},
		`cat%a%b`:        {`cat`, "a\nb\n"},
		`cat%a\%b%`:      {`cat`, "a%b\n"},
		`cat%`:           {`cat`, "\n"},
		`echo \\%x`:      {`echo \%x`, ""},
		`echo a\b`:       {`echo a\b`, ""},
		`cat  % kept  %`: {`cat`, " kept  \n"},
	} {
		j := parse(t, "c", "@daily "+text, Dialect{}).Jobs[0]
		if j.Command != want[0] || j.Stdin != want[1] {
			t.Errorf("%q: command %q, stdin %q; want %q", text, j.Command, j.Stdin, want)
		}
	}
	j := parse(t, "c", `@daily date +%F \%`, Dialect{LiteralPercent: true}).Jobs[0]
	if j.Command != `date +%F \%` || j.Stdin != "" {
		t.Errorf("literal: %q, %q", j.Command, j.Stdin)
	}
}

func TestUserColumn(t *testing.T) {
	d := Dialect{SystemUsers: true, User: "app"}
	j := parse(t, "c", "0 3 * * * app ./report\n@daily app x", d).Jobs
	if j[0].User != "app" || j[0].Command != "./report" || j[1].Command != "x" {
		t.Errorf("%+v", j)
	}
	wantError(t, "c", "0 3 * * * root ./report", d, `c:1: it is "root"'s, and this is "app"`)
	wantError(t, "c", "0 3 * * * app", d, "no command")
	f := parse(t, "c", "0 3 * * * root ./report", Dialect{})
	if len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0].Error(), "user column") {
		t.Errorf("warnings %v", f.Warnings)
	}
}

func TestFields(t *testing.T) {
	for line, want := range map[string][2]string{
		"* * * * * cmd a":        {"* * * * *", "cmd a"},
		"0 * * * * ? cmd":        {"0 * * * * ?", "cmd"},
		"0 * * * * ? * cmd":      {"0 * * * * ? *", "cmd"},
		"* * * * * w":            {"* * * * *", "w"},
		"* * * * * ./5":          {"* * * * *", "./5"},
		"* * * * * 7z a":         {"* * * * *", "7z a"},
		"0 0 L-3 * * last":       {"0 0 L-3 * *", "last"},
		"0 0 15W,LW * FRIL sort": {"0 0 15W,LW * FRIL", "sort"},
		"0 4 * * 1 sun --x":      {"0 4 * * 1 sun", "--x"},
		"@every 5m cmd":          {"@every 5m", "cmd"},
		"@Daily cmd":             {"@Daily", "cmd"},

		"@every 1d offset 3h cmd":        {"@every 1d offset 3h", "cmd"},
		"@every 1d offset H offset":      {"@every 1d offset H", "offset"},
		"H H(2-4) * * * cmd":             {"H H(2-4) * * *", "cmd"},
		"H/15,3 * * * * hash":            {"H/15,3 * * * *", "hash"},
		"0 0 * January MondayL cmd":      {"0 0 * January MondayL", "cmd"},
		"DAYS=both 0 0 13 * FRI cmd":     {"DAYS=both 0 0 13 * FRI", "cmd"},
		"CRON_TZ=Asia/Tokyo 0 3 * * * x": {"CRON_TZ=Asia/Tokyo 0 3 * * *", "x"},
		"TZ=Asia/Tokyo @daily x":         {"TZ=Asia/Tokyo @daily", "x"},
	} {
		j := parse(t, "c", line, Dialect{}).Jobs[0]
		if j.Schedule != want[0] || j.Command != want[1] {
			t.Errorf("%q: %q and %q, want %q", line, j.Schedule, j.Command, want)
		}
	}
}

// A setting in front of one schedule is of that line alone; the zone of the lines above yields to it.
func TestSettingsOfOneSchedule(t *testing.T) {
	jobs := parse(t, "c", "CRON_TZ=Europe/Berlin\n0 3 * * * a\nCRON_TZ=Asia/Tokyo 0 3 * * * b\nDAYS=both 0 0 13 * FRI c\nDAYS=5\n0 4 * * * d\nDAYS=both TZ=Asia/Tokyo 0 0 13 * FRI e", Dialect{}).Jobs
	want := []string{
		"CRON_TZ=Europe/Berlin 0 3 * * *", "CRON_TZ=Asia/Tokyo 0 3 * * *",
		"CRON_TZ=Europe/Berlin DAYS=both 0 0 13 * FRI", "CRON_TZ=Europe/Berlin 0 4 * * *",
		"DAYS=both TZ=Asia/Tokyo 0 0 13 * FRI",
	}
	for i, j := range jobs {
		if j.Schedule != want[i] {
			t.Errorf("%q, want %q", j.Schedule, want[i])
		}
	}
}

// A bound may be as long as what it bounds.
func TestEqualBoundsAreAccepted(t *testing.T) {
	j := parse(t, "c", "# soloist: at-least=1m at-most=1m attempts=2 backoff=5s max-backoff=5s\n@daily a\n", Dialect{}).Jobs[0]
	if j.AtLeast != time.Minute || j.AtMost != time.Minute || j.Retry.Backoff != 5*time.Second || j.Retry.MaxBackoff != 5*time.Second {
		t.Errorf("got %+v", j.Options)
	}
}

func TestVariablesHoldBelow(t *testing.T) {
	jobs := parse(t, "c", "@daily a\nX=1\n@daily b\nX=2\nSHELL=/bin/zsh\n@daily c\n", Dialect{}).Jobs
	for i, want := range [][]string{nil, {"X=1"}, {"SHELL=/bin/zsh", "X=2"}} {
		if !slices.Equal(jobs[i].Env, want) {
			t.Errorf("job %d has %q, want %q", i, jobs[i].Env, want)
		}
	}
	if jobs[1].Shell != "/bin/sh" || !slices.Equal(jobs[2].Argv(), []string{"/bin/zsh", "-c", "c"}) {
		t.Errorf("shells %q, %q", jobs[1].Shell, jobs[2].Argv())
	}
}

// CRON_TZ outranks TZ wherever they stand, until an empty one gives the schedules back to TZ.
func TestZones(t *testing.T) {
	at := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	const job = "\n0 3 * * * x\n"
	for text, hour := range map[string]int{
		job:                      3,
		"TZ=Europe/Berlin" + job: 1,
		"TZ=Europe/Berlin\nCRON_TZ=America/New_York" + job:           7,
		"CRON_TZ=America/New_York\nTZ=Europe/Berlin" + job:           7,
		"CRON_TZ=America/New_York\nTZ=Europe/Berlin\nCRON_TZ=" + job: 1,
		"CRON_TZ=America/New_York\nCRON_TZ=" + job:                   3,
		"TZ=Europe/Berlin\nTZ=" + job:                                3,
	} {
		if got := parse(t, "c", text, Dialect{}).Jobs[0].Expression.Next(at).UTC().Hour(); got != hour {
			t.Errorf("%q: at %d, want %d", text, got, hour)
		}
	}
	f := parse(t, "c", "CRON_TZ=America/New_York\nA=b\nTZ=Europe/Berlin"+job, Dialect{})
	if len(f.Warnings) != 1 || f.Warnings[0].Error() != "c:3: TZ: it is passed on to the commands below; their schedules stay in America/New_York, by CRON_TZ on line 1; an empty CRON_TZ= above gives them to TZ" {
		t.Errorf("warnings %v", f.Warnings)
	}
	if f := parse(t, "c", "TZ=Europe/Berlin\nCRON_TZ=America/New_York"+job, Dialect{}); len(f.Warnings) != 0 {
		t.Errorf("warnings %v", f.Warnings)
	}
}

// An error points at the field that is wrong, also at one that does not look like a field.
func TestErrorsPointAtTheField(t *testing.T) {
	for line, want := range map[string]string{
		"5- * * * * cmd":   `c:1: "5- * * * *": minute "5-": `,
		"* 1-,2 * * * cmd": `hour "1-": `,
		"* * * * MON- cmd": `day-of-week "MON-": `,
		"0 3 * * cmd a b":  `"cmd" comes after 4 fields, where the day-of-week is due`,
		"* * * * missing":  `"missing" comes after 4 fields`,
	} {
		wantError(t, "c", line, Dialect{}, want)
	}
}

func TestWholeFiles(t *testing.T) {
	for _, name := range []string{"jobs", "jobs.yaml"} {
		for _, text := range []string{"", "\n", "# x\n", "\ufeff"} {
			wantError(t, name, text, Dialect{}, name+": there are no jobs in it")
		}
		wantError(t, name, "a\nb\x00", Dialect{}, name+":2: there is a NUL")
		wantError(t, name, strings.Repeat("#", MaxSize+1), Dialect{}, "longer than")
	}
	wantError(t, "j.yml", "jobs: []", Dialect{}, "no jobs")
	wantError(t, "j.yml", "jobs:", Dialect{}, "no jobs")
	wantError(t, "j.yml", "defaults: {}", Dialect{}, "j.yml:1: jobs: there is no such key")
	wantError(t, "j.yml", "- a", Dialect{}, "a list stands here")
	wantError(t, "j.yml", "jobs: [{name: a, every: 1s, command: [x]}]\n---\njobs: []", Dialect{}, "j.yml:2: a second document")
	wantError(t, "j.yml", "jobs: {a", Dialect{}, "no YAML")
	wantError(t, "j.yml", "jobs: [*x]", Dialect{}, "no YAML")
	wantError(t, "j", "x", Dialect{Format: "toml"}, "no format")
	f := parse(t, "jobs", "@daily "+strings.Repeat("x", MaxSize-10), Dialect{})
	if len(f.Jobs[0].Command) != MaxSize-10 {
		t.Error("a long line was cut")
	}
	if f := parse(t, "jobs", "jobs: [{name: a, every: 1s, command: [x]}]", Dialect{Format: YAML}); f.Jobs[0].Name != "a" {
		t.Error("the format is not followed")
	}
	const job = "@daily x\n"
	for long, refused := range map[int]bool{MaxSize: false, MaxSize + 1: true, MaxSize + 10: true} {
		text := job + strings.Repeat("#", long-len(job)-1) + "\n"
		_, err := Read("jobs", strings.NewReader(text), Dialect{})
		if refused != (err != nil && strings.Contains(err.Error(), "longer than")) {
			t.Errorf("a file of %d bytes: %v", long, err)
		}
	}
}

// A file that ends within a line may have been cut there, and what is left of the line can still mean something.
func TestLastLineWithoutItsEnd(t *testing.T) {
	for text, name := range map[string]string{
		"@daily a\n0 3 * * * rm -rf /srv/app/ca": "jobs", "@daily a\n# comm": "jobs", "@daily a\n ": "jobs",
		"jobs:\n- {name: a, every: 1s, command: [x]}": "jobs.yaml", "jobs: [{name: a, every: 1s, command: [x]}]\n# comm": "jobs.yaml",
	} {
		if _, err := Parse(name, []byte(text), Dialect{}); err == nil || err.Error() != name+":2: the file ends within this line: write it to its end, and a newline" {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := Parse(name, []byte(text+"\n"), Dialect{}); err != nil {
			t.Errorf("%q with its end: %v", text, err)
		}
	}
}

func TestAliases(t *testing.T) {
	f := parse(t, "j.yaml", `
x-env: &env {A: a, B: b}
x-base: &base {ttl: 10s, at-most: 1m}
x-other: &other {at-most: 2m, jitter: 1s}
jobs:
  - &one {<<: [*base, *other], name: one, every: 1s, command: &c [x], env: {<<: *env, B: c}}
  - {name: two, every: 1s, command: *c, env: *env}
`, Dialect{})
	one, two := f.Jobs[0], f.Jobs[1]
	if one.TTL != 10*time.Second || one.AtMost != time.Minute || one.Jitter != time.Second || !slices.Equal(one.Env, []string{"A=a", "B=c"}) {
		t.Errorf("%+v", one)
	}
	if !slices.Equal(two.Args, []string{"x"}) || !slices.Equal(two.Env, []string{"A=a", "B=b"}) {
		t.Errorf("%+v", two)
	}
	wantError(t, "j.yaml", "x-a: &a {<<: *a}\njobs: [*a]", Dialect{}, "nested too deeply")
	wantError(t, "j.yaml", "x-a: &a {ttl: 1s}\njobs: [{<<: *a, <<: *a}]", Dialect{}, "<<: it is set already")
	long := "x-a: &a {" + strings.Repeat("ttl: 1s, ", 2000) + "}\njobs:\n" + strings.Repeat("- *a\n", 2000)
	wantError(t, "j.yaml", long, Dialect{}, "errors more")
	var env strings.Builder
	for i := range 2000 {
		_, _ = fmt.Fprintf(&env, "A%d: x, ", i)
	}
	job := "- {name: a, every: 1s, command: [x], env: *a}\n"
	wantError(t, "j.yaml", "x-a: &a {"+env.String()+"}\njobs:\n"+strings.Repeat(job, 60), Dialect{}, "aliases make more than")
}

func TestProblemsAreSortedAndTyped(t *testing.T) {
	_, err := Parse("c", []byte("# soloist: x=1\n@daily a\n@daily a\n99 * * * * b\nA='\n"), Dialect{})
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatal(err)
	}
	last := 0
	for _, e := range joined.Unwrap() {
		var p *Problem
		if !errors.As(e, &p) || p.Line < last || p.File != "c" || p.Text == "" {
			t.Errorf("%#v after line %d", e, last)
		}
		last = p.Line
	}
	if len(joined.Unwrap()) != 4 {
		t.Errorf("%v", err)
	}
}

// A doubt about many lines is one warning.
func TestWarningsAreGrouped(t *testing.T) {
	var text strings.Builder
	for i := range 40 {
		_, _ = fmt.Fprintf(&text, "0 * * * * * echo %d\n\n", i)
	}
	f := parse(t, "c", text.String(), Dialect{})
	if len(f.Warnings) != 1 || f.Warnings[0].Line != 1 || !strings.HasSuffix(f.Warnings[0].Text, " (also on lines 3, 5, 7, 9, 11, and 34 more)") {
		t.Errorf("%d warnings: %v", len(f.Warnings), f.Warnings)
	}
}

// What a file must not have is refused with the place and the mend.
func TestMistakes(t *testing.T) {
	for text, says := range map[string]string{
		"# soloist: ttl=1us\n@daily a":   "c:1: ttl: 1us is too short; at least ",
		"# soloist: =x\n@daily a":        `c:1: "=x" is no key=value`,
		"# soloist: nice=20\n@daily a":   `c:1: nice: "20" is no niceness from 0 to 19`,
		"A-B=x\n@daily a":                `c:1: "A-B" is no name of a variable`,
		"'A B'=x\n@daily a":              `c:1: "A B" is no name of a variable`,
		"hourly = yes, twice\n@hourly\n": "c:2: ",
	} {
		wantError(t, "c", text, Dialect{}, says)
	}
	for job, says := range map[string]string{
		"delay: 5m, missed: all, command: [x]":                           "missed: a job with delay misses no times",
		"every: 1s, zone: Asia/Tokyo, command: [x]":                      "zone: it is for schedule, and means nothing beside every",
		"every: 1s, command: []":                                         "command: there is no program",
		`every: 1s, command: [""]`:                                       "command: there is no program",
		"every: 1s, command: [[x]]":                                      "command: ",
		"every: 1s, command: [{x: y}, z]":                                "command: ",
		"every: 1s, retry: {backoff: 1s}, command: x":                    "backoff: it means something with attempts only",
		"every: 1s, retry: {attempts: 3, max-backoff: 1m}, command: [x]": "max-backoff: it means something with backoff only; set that too",
	} {
		wantError(t, "j.yaml", "jobs: [{name: a, "+job+"}]", Dialect{}, "j.yaml:1: ", says)
	}
}

// A job that has retries of its own has none of the settings that the defaults give them.
func TestRetriesOfAJobReplaceTheDefaults(t *testing.T) {
	text := "defaults: {retry: {attempts: 5, backoff: 2s}}\njobs: [{name: a, every: 1m, command: [x], retry: {attempts: 2}}, {name: b, every: 1m, command: [x]}]"
	jobs := parse(t, "j.yaml", text, Dialect{}).Jobs
	if own, given := jobs[0].Retry, jobs[1].Retry; own.Attempts != 2 || own.Backoff != 0 || given.Attempts != 5 || given.Backoff != 2*time.Second {
		t.Errorf("%+v and %+v", own, given)
	}
}

func TestNiceness(t *testing.T) {
	if j := parse(t, "c", "# soloist: nice=19\n@daily a", Dialect{}).Jobs[0]; j.Nice != 19 {
		t.Errorf("%+v", j.Options)
	}
}

func TestNamesOfVariablesMayBeQuoted(t *testing.T) {
	for _, text := range []string{`"A"=x`, `'A' = "x"`, "A=x", "\tA\t= x "} {
		if j := parse(t, "c", text+"\n@daily a", Dialect{}).Jobs[0]; !slices.Equal(j.Env, []string{"A=x"}) {
			t.Errorf("%q sets %q", text, j.Env)
		}
	}
}

// The zone database of Debian, among others, has a link to the zone of the machine: each of several machines may run a
// job in it at another time.
func TestZoneOfTheMachineIsNoZone(t *testing.T) {
	for _, zone := range []string{"Local", "localtime", "./localtime"} {
		for name, text := range map[string]string{
			"c":      "CRON_TZ=" + zone + "\n0 3 * * * x\n",
			"d":      "TZ=" + zone + "\n0 3 * * * x\n",
			"e":      "# soloist: zone=" + zone + "\n0 3 * * * x\n",
			"j.yaml": "jobs: [{name: a, schedule: 0 3 * * *, command: [x], zone: " + zone + "}]\n",
		} {
			_, err := Parse(name, []byte(text), Dialect{})
			want := strconv.Quote(zone) + " is another zone on each machine"
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: error %v, want one that says %s", text, err, want)
			}
		}
	}
}

// The zone of a job in YAML is its own, or that of the defaults, or UTC.
func TestZonesInYAML(t *testing.T) {
	at := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	const job, defaults = "jobs: [{name: a, schedule: 0 3 * * *, command: [x]", "defaults: {zone: America/New_York}\n"
	for text, hour := range map[string]int{
		job + "}]":                                 3,
		job + ", zone: Europe/Berlin}]":            1,
		defaults + job + "}]":                      7,
		defaults + job + ", zone: Europe/Berlin}]": 1,
	} {
		if got := parse(t, "j.yaml", text, Dialect{}).Jobs[0].Expression.Next(at).UTC().Hour(); got != hour {
			t.Errorf("%q: at %d, want %d", text, got, hour)
		}
	}
}

// A TZ that says what CRON_TZ says is no doubt; a doubt about few lines names them all.
func TestFewDoubts(t *testing.T) {
	if f := parse(t, "c", "CRON_TZ=Europe/Berlin\nTZ=Europe/Berlin\n@daily x", Dialect{}); len(f.Warnings) != 0 {
		t.Errorf("warnings %v", f.Warnings)
	}
	f := parse(t, "c", "0 * * * * * a\n0 * * * * * b\n0 * * * * * c", Dialect{})
	if len(f.Warnings) != 1 || !strings.HasSuffix(f.Warnings[0].Text, " (also on lines 2, 3)") {
		t.Errorf("warnings %v", f.Warnings)
	}
}
