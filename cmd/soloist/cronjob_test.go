package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/cmd/soloist/internal/crontab"
)

// What the file says of a job is what the job gets, and its margin is that of its own TTL.
func TestOptionsOfTheFileReachTheJob(t *testing.T) {
	const text = `
# soloist: name=long ttl=2m at-least=1m missed=all missed-cap=3 jitter=5s grace=1m crash=give-up attempts=4 backoff=2s max-backoff=1m
@daily a
# soloist: name=short ttl=10s missed=once
@daily b
# soloist: name=plain
@daily c
`
	file, err := crontab.Parse("c", []byte(text), crontab.Dialect{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]soloist.Job{
		"long": {
			TTL: 2 * time.Minute, Margin: 5*time.Second + 12*time.Second, AtLeast: time.Minute, Missed: soloist.MissedAll, MissedCap: 3,
			Jitter: 5 * time.Second, Grace: time.Minute, Crash: soloist.CrashGiveUp,
			Retry: soloist.Retry{Attempts: 4, Backoff: 2 * time.Second, MaxBackoff: time.Minute},
		},
		"short": {TTL: 10 * time.Second, Margin: 2*time.Second + time.Second, Missed: soloist.MissedOnce},
		"plain": {TTL: 30 * time.Second, Margin: 5*time.Second + 3*time.Second},
	}
	r := &cronRun{app: &app{ttl: 30 * time.Second}}
	for _, j := range file.Jobs {
		got, err := r.job(j)
		if err != nil {
			t.Fatal(err)
		}
		w := want[j.Name]
		if got.TTL != w.TTL || got.Margin != w.Margin || got.AtLeast != w.AtLeast || got.Missed != w.Missed || got.MissedCap != w.MissedCap ||
			got.Jitter != w.Jitter || got.Grace != w.Grace || got.Crash != w.Crash || got.Retry != w.Retry {
			t.Errorf("%s: %+v\nwant %+v", j.Name, got, w)
		}
	}
	if len(file.Jobs) != len(want) {
		t.Errorf("%d jobs, want %d", len(file.Jobs), len(want))
	}
}

// A file with a job that the client would refuse is refused when it is read: with a namespace there is less room for its name.
func TestJobsThatCannotBeRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	text := "jobs:\n  - {name: short, every: 1s, command: [x]}\n  - {name: " + strings.Repeat("n", 200) + ", every: 1s, command: [x]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for namespace, code := range map[string]int{"": 0, strings.Repeat("s", 64): exitConfig} {
		r := &cronRun{app: &app{ttl: 30 * time.Second, namespace: namespace}, path: path}
		_, _, err := r.read()
		if exitCode(err) != code || err != nil && !strings.HasPrefix(err.Error(), path+":3: ") {
			t.Errorf("in the namespace %q: exit code %d: %v, want %d", namespace, exitCode(err), err, code)
		}
	}
}
