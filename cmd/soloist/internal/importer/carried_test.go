package importer

import (
	"strings"
	"testing"
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
		"aliases are what they name": {[]string{"COMMAND", "&c [run, &d deep]", "ARGS", "[*d]", "ENV", "&e [{name: X, value: *d}]"}, "command: [run, deep, deep]", ""},
		"an alias of a whole list":   {[]string{"COMMAND", "&c [run, x]", "ARGS", "*c"}, "command: [run, x, run, x]", ""},
		"YAML 1.1's true":            {[]string{"SUSPEND", "yes"}, "", "suspend is not carried over"},
		"a capital true":             {[]string{"SUSPEND", "True"}, "", "suspend is not carried over"},
		"a variable in a variable":   {[]string{"ENV", `[{name: A, value: b}, {name: X, value: "$(A)/c"}]`}, "", `"$(A)/c" is passed on as it stands`},
		"dollars":                    {[]string{"ARGS", `["echo $$"]`}, "", `"echo $$" is passed on as it stands`},
		"steps of days are or":       {[]string{"SCHEDULE", "0 0 */2 * 1"}, "schedule: 0 0 1-31/2 * 1", ""},
		"steps of weekdays are or":   {[]string{"SCHEDULE", "0 0 1 * */3"}, "schedule: 0 0 1 * 0-6/3", ""},
		"one step is as it was":      {[]string{"SCHEDULE", "0 0 */2 * *"}, "schedule: 0 0 */2 * *", ""},
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
		"both days must match": {`@Scheduled(cron = "0 0 9 1-7 * MON", zone = "UTC") @SchedulerLock(name = "a") void a() {}`, "schedule: DAYS=both 0 0 9 1-7 * MON", ""},
		"the zone is said":     {`@Scheduled(cron = "0 0 9 * * *") @SchedulerLock(name = "a") void a() {}`, "name: a", "without a zone"},
		"comments":             {"// @Scheduled(fixedRate = 5) void no() {}\n/* @Scheduled(fixedRate = 6) void no2() {} */\n@Scheduled(fixedRate = 5000) void yes() {}", `name: "yes"`, ""},
		"Kotlin":               {`@Scheduled(fixedRate = 5000) fun tick() {}`, "name: tick", ""},
		"too long":             {"@Scheduled(fixedRate = 9223372036854775807) void a() {}\n@Scheduled(fixedRate = 5000) void b() {}", "name: b", "a: the job is not carried over"},
		"a joined text":        {"@Scheduled(cron = \"0 0 3 * * *\" + X) void a() {}\n@Scheduled(fixedRate = 5000) void b() {}", "name: b", "a: the job is not carried over"},
		"two times":            {"@Scheduled(cron = \"0 0 3 * * *\")\n@Scheduled(cron = \"0 0 4 * * *\")\n@SchedulerLock(name = \"a\") void run() {}", "name: a", "the method has another @Scheduled"},
		"a URL in a text":      {`@Scheduled(fixedRate = 5000) @SchedulerLock(name = "a//b") void a() {}`, "name: a//b", ""},
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
