package importer

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/crontab"
)

const kube = `
apiVersion: batch/v1
kind: CronJob
metadata: {name: a}
spec:
  schedule: "SCHEDULE"
  timeZone: UTC
  suspend: SUSPEND
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      template:
        spec:
          containers:
          - name: c
            command: COMMAND
            args: ARGS
            env: ENV
`

// TestKubernetesSaysWhatItMeans: what Kubernetes means otherwise than soloist cron is written so that it means the same, or is named.
func TestKubernetesSaysWhatItMeans(t *testing.T) {
	for what, c := range map[string]struct {
		replace []string
		yaml    string // in the result
		note    string // among the notes
	}{
		"aliases are what they name":      {[]string{"COMMAND", "&c [run, &d deep]", "ARGS", "[*d]", "ENV", "&e [{name: X, value: *d}]"}, "command: [run, deep, deep]", ""},
		"an alias of a whole list":        {[]string{"COMMAND", "&c [run, x]", "ARGS", "*c"}, "command: [run, x, run, x]", ""},
		"YAML 1.1's true":                 {[]string{"SUSPEND", "yes"}, "", "suspend is not carried over"},
		"a capital true":                  {[]string{"SUSPEND", "True"}, "", "suspend is not carried over"},
		"a variable in a variable":        {[]string{"ENV", `[{name: A, value: b}, {name: X, value: "$(A)/c"}]`}, "", `"$(A)/c" is passed on as it stands`},
		"dollars":                         {[]string{"ARGS", `["echo $$"]`}, "", `"echo $$" is passed on as it stands`},
		"steps of days are or":            {[]string{"SCHEDULE", "0 0 */2 * 1"}, "schedule: 0 0 1-31/2 * 1", ""},
		"steps of weekdays are or":        {[]string{"SCHEDULE", "0 0 1 * */3"}, "schedule: 0 0 1 * 0-6/3", ""},
		"steps of days with a zone":       {[]string{"SCHEDULE", "CRON_TZ=Europe/Berlin 0 0 */2 * 1"}, "schedule: CRON_TZ=Europe/Berlin 0 0 1-31/2 * 1", ""},
		"a star in a list is a star":      {[]string{"SCHEDULE", "0 0 1 * 5,*"}, "schedule: 0 0 1 * *", ""},
		"a list of days stays":            {[]string{"SCHEDULE", "0 0 1,15 * *"}, "schedule: 0 0 1,15 * *", ""},
		"a list of weekdays stays":        {[]string{"SCHEDULE", "0 0 * * 1,5"}, "schedule: 0 0 * * 1,5", ""},
		"missed times without a deadline": {nil, "missed: once", ""},
		"one step is as it was":           {[]string{"SCHEDULE", "0 0 */2 * *"}, "schedule: 0 0 */2 * *", ""},
	} {
		text := strings.NewReplacer(append(c.replace, "SCHEDULE", "0 0 * * *", "SUSPEND", "false", "COMMAND", "[run]", "ARGS", "[]", "ENV", "[]")...).Replace(kube)
		r, err := Kubernetes("f", []byte(text))
		var notes strings.Builder
		for _, n := range r.Notes {
			notes.WriteString(n.String() + "\n")
		}
		if err != nil || !strings.Contains(string(r.YAML), c.yaml) || !strings.Contains(notes.String(), c.note) {
			t.Errorf("%s: %v\n%s\n%s", what, err, r.YAML, notes.String())
		}
	}
}

// TestKubernetesKeepsTheTexts: in arguments and variables, with the blanks and newlines that they begin with.
func TestKubernetesKeepsTheTexts(t *testing.T) {
	for _, text := range []string{"  a\n", "\n#x\n", "\n", "\ta\nb\n", "\n a", "\u2028a\nb", "a\n  b\n\n", " "} {
		quoted := strconv.Quote(text)
		manifest := strings.NewReplacer("SCHEDULE", "0 0 * * *", "SUSPEND", "false", "COMMAND", "[run]", "ARGS", "["+quoted+"]", "ENV", "[{name: X, value: "+quoted+"}]").Replace(kube)
		r, err := Kubernetes("f", []byte(manifest))
		if err != nil || r.Jobs != 1 {
			t.Errorf("%q: %v, %v", text, err, r.Notes)
			continue
		}
		got, err := crontab.Parse("f", r.YAML, crontab.Dialect{Format: crontab.YAML})
		if err != nil {
			t.Errorf("%q: %v\n%s", text, err, r.YAML)
			continue
		}
		if j := got.Jobs[0]; !slices.Equal(j.Args, []string{"run", text}) || !slices.Equal(j.Env, []string{"X=" + text}) {
			t.Errorf("%q: %q with %q\n%s", text, j.Args, j.Env, r.YAML)
		}
	}
}

// TestKubernetesReadsWhatKubectlReads: lists of both kinds, and mappings that others are merged into.
func TestKubernetesReadsWhatKubectlReads(t *testing.T) {
	const spec = `schedule: "0 3 * * *", timeZone: UTC, concurrencyPolicy: Forbid, startingDeadlineSeconds: 60, ` +
		`jobTemplate: {spec: {template: {spec: {containers: [{name: c, command: [run]}]}}}}`
	for what, text := range map[string]string{
		"a list of manifests":    `{kind: List, items: [{kind: CronJob, metadata: {name: a}, spec: {` + spec + `}}]}`,
		"a list of CronJobs":     `{kind: CronJobList, items: [{metadata: {name: a}, spec: {` + spec + `}}]}`,
		"merged":                 `{kind: CronJob, metadata: {name: a}, spec: {<<: {` + spec + `}}}`,
		"merged, an alias":       "x: &x {" + spec + "}\nkind: CronJob\nmetadata: {name: a}\nspec: {<<: *x}\n",
		"merged, several":        `{kind: CronJob, metadata: {name: a}, spec: {<<: [{schedule: "0 3 * * *"}, {` + spec + `}]}}`,
		"merged, and overridden": `{kind: CronJob, metadata: {name: a}, spec: {<<: {schedule: "0 4 * * *"}, ` + spec + `}}`,
	} {
		r, err := Kubernetes("f", []byte(text))
		if err != nil || r.Jobs != 1 || !strings.Contains(string(r.YAML), "schedule: 0 3 * * *") || !strings.Contains(string(r.YAML), "grace: 60s") {
			t.Errorf("%s: %v\n%s\n%v", what, err, r.YAML, r.Notes)
		}
		for _, n := range r.Notes {
			if strings.Contains(n.Text, "<<") || n.Line < 1 {
				t.Errorf("%s: %v", what, n)
			}
		}
	}
}

// TestKubernetesNamesWhatItLeavesOut: each in one line, with the number of one.
func TestKubernetesNamesWhatItLeavesOut(t *testing.T) {
	for replaced, note := range map[string]string{
		"suspend: SUSPEND|startingDeadlineSeconds: 0":                                "spec.startingDeadlineSeconds 0 is not carried over",
		"suspend: SUSPEND|startingDeadlineSeconds: 4000000000":                       "startingDeadlineSeconds 4000000000 is not carried over",
		"    spec:\n|    spec:\n      activeDeadlineSeconds: soon\n":                 "activeDeadlineSeconds soon is not carried over",
		"concurrencyPolicy: Forbid|concurrencyPolicy: Replace":                       "concurrencyPolicy Replace is not carried over",
		"- name: c\n|- name: b\n            command: [other]\n          - name: c\n": "not exactly one container",
		"metadata: {name: a}|metadata: {generateName: a-}":                           "name: it is empty",
		"kind: CronJob|kind: Job":                                                    `a "Job" is not carried over`,
		"timeZone: UTC|timeZone: Mars/Olympus":                                       `no zone "Mars/Olympus"`,
	} {
		from, to, _ := strings.Cut(replaced, "|")
		text := strings.Replace(kube, from, to, 1)
		text = strings.NewReplacer("SCHEDULE", "0 0 * * *", "SUSPEND", "false", "COMMAND", "[run]", "ARGS", "[]", "ENV", "[]").Replace(text)
		r, err := Kubernetes("f", []byte(text+"---\n[]\n---\ntext\n"))
		var notes strings.Builder
		for _, n := range r.Notes {
			if notes.WriteString(n.String() + "\n"); n.Line < 1 || strings.Contains(n.Text, "\n") || strings.Contains(n.Text, "the job:") {
				t.Errorf("%q: the note %q", to, n)
			}
		}
		if err != nil || !strings.Contains(notes.String(), note) || strings.Count(notes.String(), "it is no manifest") != 2 {
			t.Errorf("%q: %v\n%s", to, err, notes.String())
		}
	}
}

func TestKubernetesTwoOfOneName(t *testing.T) {
	one := strings.NewReplacer("SCHEDULE", "0 0 * * *", "SUSPEND", "false", "COMMAND", "[run]", "ARGS", "[]", "ENV", "[]").Replace(kube)
	r, err := Kubernetes("f", []byte(one+"---\n"+one+"---\n# nothing\n---\n"))
	if err != nil || r.Jobs != 1 || !strings.Contains(r.Notes[len(r.Notes)-1].Text, "another job has this name") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestKubernetesListInItself(t *testing.T) {
	r, err := Kubernetes("f", []byte("kind: List\nitems: &x [&y {kind: List, items: *x}, *y]\n"))
	if err != nil || r.Jobs != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestShedLockSaysWhatItMeans: what Spring means otherwise than soloist cron is written so that it means the same, or is named.
func TestShedLockSaysWhatItMeans(t *testing.T) {
	for what, c := range map[string]struct{ source, yaml, note string }{
		"both days must match":  {`@Scheduled(cron = "0 0 9 1-7 * MON", zone = "UTC") @SchedulerLock(name = "a") void a() {}`, "schedule: DAYS=both 0 0 9 1-7 * MON", ""},
		"steps of weekdays":     {`@Scheduled(cron = "0 0  3 * * */2", zone = "UTC") @SchedulerLock(name = "a") void a() {}`, "schedule: 0 0 3 * * 1,3,5,7\n", ""},
		"steps from a weekday":  {`@Scheduled(cron = "0 0 3 * * 0/3,TUE/4,mon-thu/2,5/9000000000000000000", zone = "UTC") @SchedulerLock(name = "a") void a() {}`, "schedule: 0 0 3 * * 0/3,2,6,mon-thu/2,5\n", ""},
		"steps from Sunday":     {`@Scheduled(cron = "0 0 3 * * SUN/2", zone = "UTC") @SchedulerLock(name = "a") void a() {}`, "schedule: 0 0 3 * * 7\n", ""},
		"each weekday":          {`@Scheduled(cron = "0 0 3 * * */1", zone = "UTC") @SchedulerLock(name = "a") void a() {}`, "schedule: 0 0 3 * * 1,2,3,4,5,6,7\n", ""},
		"weekdays of both":      {`@Scheduled(cron = "0 0 3 1-7 * 1/5", zone = "UTC") @SchedulerLock(name = "a") void a() {}`, "schedule: DAYS=both 0 0 3 1-7 * 1,6\n", ""},
		"Sunday to Sunday":      {`@Scheduled(cron = "0 0 3 * * SUN-SUN", zone = "UTC") @SchedulerLock(name = "a") void a() {}`, "schedule: 0 0 3 * * 0-7\n", ""},
		"the zone is said":      {`@Scheduled(cron = "0 0 9 * * *") @SchedulerLock(name = "a") void a() {}`, "name: a", "without a zone"},
		"comments":              {"// @Scheduled(fixedRate = 5) void no() {}\n/* @Scheduled(fixedRate = 6) void no2() {} */\n@Scheduled(fixedRate = 5000) void yes() {}", `name: "yes"`, ""},
		"a line after comments": {"/* a\n   b */\n// c\n@Scheduled(fixedRate = 5000) /* d\n*/ void yes() {}", `name: "yes"`, "f:4: "},
		"Kotlin":                {`@Scheduled(fixedRate = 5000) fun tick() {}`, "name: tick", ""},
		"too long":              {"@Scheduled(fixedRate = 9223372036854775807) void a() {}\n@Scheduled(fixedRate = 5000) void b() {}", "name: b", "a: the job is not carried over"},
		"a joined text":         {"@Scheduled(cron = \"0 0 3 * * *\" + X) void a() {}\n@Scheduled(fixedRate = 5000) void b() {}", "name: b", "a: the job is not carried over"},
		"two times":             {"@Scheduled(cron = \"0 0 3 * * *\")\n@Scheduled(cron = \"0 0 4 * * *\")\n@SchedulerLock(name = \"a\") void run() {}", "name: a", "the method has another @Scheduled"},
		"an ISO day":            {`@Scheduled(fixedRateString = "P1DT2H") @SchedulerLock(name = "a") void a() {}`, "every: 26h", ""},
		"a short day":           {`@Scheduled(fixedRate = 5000) @SchedulerLock(name = "a", lockAtLeastFor = "2d") void a() {}`, "at-least: 48h", ""},
		"small letters":         {`@Scheduled(fixedDelayString = "pt5m") @SchedulerLock(name = "a") void a() {}`, "delay: 5m", ""},
		"a product":             {`@Scheduled(fixedRate = 5 * 60 * 1_000L) void a() {}`, "every: 5m", ""},
		"a product too long":    {"@Scheduled(fixedRate = 9_000_000_000 * 9_000_000_000) void a() {}\n@Scheduled(fixedRate = 5000) void b() {}", "name: b", "too long for a duration"},
		"a placeholder":         {"@Scheduled(cron = \"${c:0 0 3 * * *}\") void a() {}\n@Scheduled(fixedRate = 5000) void b() {}", "name: b", "a: the job is not carried over: the value of cron"},
		"a constant":            {"@Scheduled(cron = CRON) void a() {}\n@Scheduled(fixedRate = 5000) void b() {}", "name: b", `the value of cron, "CRON", is in the program`},
		"turned off":            {"@Scheduled(cron = \"-\") void a() {}\n@Scheduled(fixedRate = 5000) void b() {}", "name: b", `cron "-" turns it off`},
		"five fields":           {"@Scheduled(cron = \"0 3 * * *\") void a() {}\n@Scheduled(fixedRate = 5000) void b() {}", "name: b", "has 5 fields, and Spring needs six"},
		"a name in SpEL":        {`@Scheduled(fixedRate = 5000) @SchedulerLock(name = "job-#{#id}") void a() {}`, "name: a", "the name of the lock, job-#{#id}, is not carried over"},
		"a name elsewhere":      {`@Scheduled(fixedRate = 5000) @SchedulerLock(name = Names.A) void a() {}`, "name: a", "the name of the lock, Names.A, is not carried over"},
		"a name in a property":  {`@Scheduled(fixedRate = 5000) @SchedulerLock(name = "${n}") void a() {}`, "name: a", "the name of the lock, ${n}, is not carried over"},
		"a type with types":     {`@Scheduled(fixedRate = 5000) @SchedulerLock(name = "a") @Transactional(timeout = 5) protected Map<String, List<X>> run() {}`, "command: [./run]", ""},
		"a list of times":       {"@Schedules({\n@Scheduled(fixedRate = 5),\n@Scheduled(fixedRate = 5000),\n})\n@SchedulerLock(name = \"a\") void run() {}", "name: a\n    every: 5s\n    command: [./run]", "f:2: the method has another @Scheduled"},
		"a URL in a text":       {`@Scheduled(fixedRate = 5000) @SchedulerLock(name = "a//b") void a() {}`, "name: a//b", ""},
	} {
		r, err := ShedLock("f", []byte(c.source))
		var notes strings.Builder
		for _, n := range r.Notes {
			notes.WriteString(n.String() + "\n")
		}
		if err != nil || r.Jobs != 1 || !strings.Contains(string(r.YAML), c.yaml) || !strings.Contains(notes.String(), c.note) {
			t.Errorf("%s: %v\n%s\n%s", what, err, r.YAML, notes.String())
		}
	}
}

// TestAnnotationsAreFoundAmongOthers: an annotation with its package, or one beside another with braces, is that of the method, so the job has the name
// of its lock.
func TestAnnotationsAreFoundAmongOthers(t *testing.T) {
	for what, text := range map[string]string{
		"with packages": `@org.springframework.scheduling.annotation.Scheduled(fixedRate = 5000)
			@net.javacrumbs.shedlock.spring.annotation.SchedulerLock(name = "shared") void run() {}`,
		"braces between": `@Scheduled(fixedRate = 5000) @Retryable(include = {IOException.class}, backoff = @Backoff(delay = 5)) @SchedulerLock(name = "shared") void run() {}`,
		"braces behind":  `@SchedulerLock(name = "shared") @SuppressWarnings({"a", "b"}) @Scheduled(fixedRate = 5000) void run() {}`,
	} {
		r, err := ShedLock("f", []byte(text))
		if err != nil || r.Jobs != 1 || !strings.Contains(string(r.YAML), "- name: shared\n") || !strings.Contains(string(r.YAML), "./run") || strings.Contains(string(r.YAML), "no @SchedulerLock") {
			t.Errorf("%s: %v\n%s\n%v", what, err, r.YAML, r.Notes)
		}
	}
	two := `@Scheduled(fixedRate = 5000) @Async("x") void first() {} @SchedulerLock(name = "other") @Scheduled(fixedRate = 6000) void second() {}`
	r, err := ShedLock("f", []byte(two))
	if err != nil || r.Jobs != 2 || !strings.Contains(string(r.YAML), "- name: first\n") || !strings.Contains(string(r.YAML), "- name: other\n") {
		t.Errorf("two methods: %v\n%s\n%v", err, r.YAML, r.Notes)
	}
}
