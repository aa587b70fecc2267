package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/soloisttest"
	"github.com/soloist-dev/soloist/store"
)

var background = context.Background()

func TestRead(t *testing.T) {
	const good = `
- name: pager
  on: [failed, overdue]
  url: https://pager.example/hook
  secret-file: key
  timeout: 3s
  attempts: 2
  every: 1m
  output: true
- {name: mail, command: [/bin/mail, oncall]}
`
	targets, err := Read("notify.yaml", strings.NewReader(good))
	if err != nil || len(targets) != 2 {
		t.Fatal(targets, err)
	}
	if p := targets[0]; p.Timeout != 3*time.Second || p.Attempts != 2 || p.Every != time.Minute || !p.Output || !slices.Equal(p.On, []Kind{Failed, Overdue}) {
		t.Errorf("%+v", p)
	}
	if m := targets[1]; m.Timeout != 10*time.Second || m.Attempts != 5 || m.Every != 10*time.Minute || m.Output || !slices.Equal(m.On, kinds) {
		t.Errorf("the defaults are %+v", m)
	}
	for _, extreme := range []string{"timeout: 1s, attempts: 1, every: 1s", "timeout: 5m, attempts: 20, every: 24h"} {
		if _, err := Read("notify.yaml", strings.NewReader("- {name: x, url: 'https://x', "+extreme+"}\n")); err != nil {
			t.Errorf("%s: %v", extreme, err)
		}
	}
	for text, want := range map[string]string{
		"":                                    "has no target",
		"[]":                                  "give a list of targets",
		"name: x":                             "notify.yaml:1: a mapping stands here; give a list of targets",
		"- x":                                 "notify.yaml:1: a single value stands here; write keys and values",
		"- {name: x, uri: y}":                 "notify.yaml:1: uri: ",
		"- {name: x, name: y}":                "notify.yaml:1: name: it is set on line 1 already",
		"- {name: x, url: https://secret: 1}": "notify.yaml:1: this is no YAML",
		"- {name: x, url: 'https://x'}\n---\n- {name: y}": "notify.yaml:2: a second document begins here",
		"- x\n- y":                                                     "notify.yaml:2: a single value stands here",
		"- {name: x}\n- {name: y, on: 1}":                              "notify.yaml:2: on: is not of the right form",
		"- {name: X, url: 'https://x'}":                                "lower-case letters",
		"- {name: x}":                                                  "give one of url, url-file and command",
		"- {name: x, url: 'https://x', command: [y]}":                  "give one of",
		"- {name: x, command: [y], secret-file: z}":                    "secret-file is for webhooks",
		"- {name: x, command: ['']}":                                   "its first element is the program",
		"- {name: x, command: y z}":                                    "command: is not of the right form",
		"- {name: x, url: 'https://x', timeout: 10}":                   "timeout",
		"- {name: x, url: 'https://x', attempts: 0}":                   "give 1 to 20",
		"- {name: x, url: 'https://x', every: 48h}":                    "give 1s to 24h",
		"- {name: x, url: 'https://x', on: [late]}":                    `"late" is none of`,
		"- {name: x, url: 'https://x', on: []}":                        "on: give some of",
		"- {name: x, url: 'http://[secret'}":                           "begins with https://",
		"- {name: x, url: 'https://x', timeout: 301s}":                 "give 1s to 5m",
		"- {name: x, url: 'https://x', timeout: 999ms}":                "give 1s to 5m",
		"- {name: x, url: 'https://x', attempts: 21}":                  "give 1 to 20",
		"- {name: x, url: 'https://x', every: 999ms}":                  "give 1s to 24h",
		"- {name: x, url: 'ftp://secret'}":                             "begins with https://",
		"- {name: x, url: 'https://a'}\n- {name: x, url: 'https://b'}": "notify.yaml:2: name: another target, on line 1",
	} {
		_, err := Read("notify.yaml", strings.NewReader(text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		} else if first := strings.Contains(want, "another target"); !first && strings.Contains(err.Error(), "another target") {
			t.Errorf("%q: %v; no name is there twice", text, err)
		} else if strings.Contains(err.Error(), "secret'") || strings.Contains(err.Error(), "ftp:") || strings.Contains(err.Error(), "[secret") {
			t.Errorf("%q: the error shows the url: %v", text, err)
		}
	}
}

// A file that cannot be read to its end, ends within a line, or is too long, has no targets.
func TestReadToTheEnd(t *testing.T) {
	broken := errors.New("disk on fire")
	in := io.MultiReader(strings.NewReader("- {name: x, url: 'https://x'}\n"), iotest.ErrReader(broken))
	if targets, err := Read("notify.yaml", in); !errors.Is(err, broken) {
		t.Errorf("%+v, %v", targets, err)
	}
	if targets, err := Read("notify.yaml", strings.NewReader("- {name: x, url: 'https://x'}\n- {name: y, command: [mail, o]}")); err == nil || !strings.Contains(err.Error(), "notify.yaml:2: the file ends within this line") {
		t.Errorf("%+v, %v of a file that ends within a line", targets, err)
	}
	if targets, err := Read("notify.yaml", io.MultiReader(strings.NewReader("- {name: x, url: 'https://x'}\n"), strings.NewReader(strings.Repeat("#", maxFile)))); err == nil {
		t.Errorf("%+v of a file that is cut", targets)
	}
}

// What is told of a job: the last attempt of a run that failed, a lease that was lost, runs that overlap, and times that passed; once in a period.
func TestNoticesOf(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	run := func(token int64, attempt int, ago time.Duration, outcome string) soloist.RunRecord {
		end := now.Add(-ago)
		return soloist.RunRecord{
			ScheduledAt: now.Add(-ago.Truncate(time.Minute)), Replica: "r", Token: token, Attempt: attempt, Outcome: outcome,
			StartedAt: end.Add(-5 * time.Second), EndedAt: end, Error: "no",
		}
	}
	holds := func(token int64, attempt int) *soloist.RunInfo {
		return &soloist.RunInfo{Since: now, Attempt: attempt, LeaseInfo: soloist.LeaseInfo{Token: token}}
	}
	const s, m = time.Second, time.Minute
	byHand, precise := run(1, 1, 20*s, "failed"), run(1, 1, 20*s, "failed")
	byHand.Manual = true
	byHandLeft := byHand
	byHandLeft.Outcome = soloist.OutcomeInterrupted
	precise.ScheduledAt = now.Add(time.Microsecond) // the mark of a record is in ms
	for name, c := range map[string]struct {
		job  soloist.JobInfo
		want string
	}{
		"ok":                  {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "ok")}}, ""},
		"interrupted, left":   {soloist.JobInfo{DoneUpTo: now.Add(-m), Runs: []soloist.RunRecord{run(1, 1, 20*s, "interrupted")}}, ""},
		"left, one by hand":   {soloist.JobInfo{DoneUpTo: now.Add(-m), Runs: []soloist.RunRecord{run(1, 1, 20*s, "interrupted"), {ScheduledAt: now, Manual: true, Token: 2, StartedAt: now, EndedAt: now, Outcome: "ok"}}}, ""},
		"and made after that": {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "interrupted"), {ScheduledAt: now, Manual: true, Token: 2, StartedAt: now, EndedAt: now, Outcome: "ok"}, run(3, 1, 0, "ok")}}, ""},
		"given up":            {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "interrupted")}}, "lost"},
		"failed":              {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "failed")}}, "failed"},
		"panicked":            {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "panicked")}}, "failed"},
		"retried elsewhere":   {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "failed")}, Running: holds(2, 2)}, ""},
		"retried, then ok":    {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "failed"), run(1, 2, 10*s, "ok")}}, ""},
		"failed again":        {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "failed"), run(1, 2, 10*s, "failed")}}, "failed"},
		"before its retry":    {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "failed")}, Running: holds(1, 2)}, ""},
		"the next one runs":   {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "failed")}, Running: holds(2, 1)}, "failed"},
		"one by hand beside":  {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "failed"), {ScheduledAt: now, Manual: true, Token: 2, StartedAt: now, EndedAt: now, Outcome: "ok"}}}, "failed"},
		"two in one period":   {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 2*m, "failed"), run(2, 1, 1*m, "failed")}}, "failed"},
		"two periods":         {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 22*m, "failed"), run(2, 1, 1*m, "failed")}}, "failed failed"},
		"left in its pause":   {soloist.JobInfo{DoneUpTo: now.Add(-m), Runs: []soloist.RunRecord{run(1, 1, 20*s, "failed")}}, ""},
		"panicked and left":   {soloist.JobInfo{DoneUpTo: now.Add(-m), Runs: []soloist.RunRecord{run(1, 1, 20*s, "panicked")}}, ""},
		"left, then lost":     {soloist.JobInfo{DoneUpTo: now.Add(-m), Runs: []soloist.RunRecord{run(1, 1, 20*s, "failed"), run(2, 2, 10*s, "abandoned")}}, "lost"},
		"left and paused":     {soloist.JobInfo{DoneUpTo: now.Add(-m), Paused: &soloist.Pause{}, Runs: []soloist.RunRecord{run(1, 1, 20*s, "failed")}}, "failed"},
		"left, then paused":   {soloist.JobInfo{DoneUpTo: now.Add(-m), Paused: &soloist.Pause{}, Runs: []soloist.RunRecord{run(1, 1, 20*s, "interrupted")}, Running: holds(2, 1)}, ""},
		"by hand in a pause":  {soloist.JobInfo{Manual: true, Paused: &soloist.Pause{}, Runs: []soloist.RunRecord{byHandLeft}}, ""},
		"by hand":             {soloist.JobInfo{DoneUpTo: now.Add(-m), Runs: []soloist.RunRecord{byHand}}, "failed"},
		"by hand, and left":   {soloist.JobInfo{Manual: true, Runs: []soloist.RunRecord{byHand}}, ""},
		"within one ms":       {soloist.JobInfo{DoneUpTo: now, Runs: []soloist.RunRecord{precise}}, "failed"},
		"long ago":            {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 61*m, "failed")}}, ""},
		"lost":                {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "lost")}}, "lost"},
		"abandoned":           {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "abandoned")}}, "lost"},
		"abandoned, then ok":  {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "abandoned"), run(2, 2, 10*s, "ok")}}, ""},
		"taken over":          {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "abandoned")}, Running: holds(2, 2)}, ""},
		"lost, the next runs": {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 20*s, "abandoned")}, Running: holds(2, 1)}, "lost"},
		"an earlier one lost": {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 2*m, "abandoned"), run(2, 1, 20*s, "interrupted")}, Running: holds(3, 2)}, "lost"},
		"doubled":             {soloist.JobInfo{Runs: []soloist.RunRecord{run(1, 1, 10*s, "ok"), {Token: 2, StartedAt: now.Add(-14 * s), EndedAt: now, Outcome: "ok"}}}, "doubled"},
		"overdue":             {soloist.JobInfo{Schedule: "* * * * *", DoneUpTo: now.Add(-3 * m)}, "overdue"},
		"paused, not overdue": {soloist.JobInfo{Schedule: "* * * * *", DoneUpTo: now.Add(-3 * m), Paused: &soloist.Pause{}}, ""},
	} {
		c.job.Name = "import"
		if c.job.DoneUpTo.IsZero() {
			c.job.DoneUpTo = now
		}
		ids := map[string]Kind{}
		var got []string
		for _, n := range noticesOf(c.job, now.Add(-lookback), now, 10*m) {
			if _, there := ids[n.ID]; !there {
				got = append(got, string(n.Kind))
			}
			ids[n.ID] = n.Kind
			if !strings.HasPrefix(n.Text, "import ") || n.Job != "import" {
				t.Errorf("%s: %+v", name, n)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
	overdue := map[string]bool{}
	for at := 1; at < 6; at++ { // each time there is another run that is overdue
		for _, n := range noticesOf(soloist.JobInfo{Name: "import", Schedule: "* * * * *", DoneUpTo: now.Add(time.Duration(3*at-3) * m)}, now, now.Add(time.Duration(3*at)*m), time.Hour) {
			overdue[n.ID] = true
		}
	}
	if len(overdue) != 1 {
		t.Errorf("%d notices of what is overdue within a period of an hour", len(overdue))
	}
	long := strings.Repeat("x", 255)
	if a, b := newNotice(Failed, long, now, now), newNotice(Failed, long+"y", now, now); a.ID == b.ID || len(a.ID) > 120 {
		t.Errorf("the IDs of notices of long names are %q and %q", a.ID, b.ID)
	}
}

// A receiver keeps what it gets.
type receiver struct {
	mu     sync.Mutex
	got    []Notice
	answer []error // to the first ones; nil for success, also after them
}

func (r *receiver) send(_ context.Context, n Notice, _ []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, n)
	if len(r.answer) == 0 {
		return nil
	}
	err := r.answer[0]
	r.answer = r.answer[1:]
	return err
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

func (r *receiver) kinds() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	kinds := []Kind{}
	for _, n := range r.got {
		kinds = append(kinds, n.Kind)
	}
	return fmt.Sprint(kinds)
}

// fail runs a job once, which fails.
func fail(t *testing.T, s *soloisttest.Store) {
	t.Helper()
	failJob(t, s, "import")
}

func failJob(t *testing.T, s *soloisttest.Store, name string) {
	t.Helper()
	c := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
	ctx, stop := context.WithCancel(background)
	job := soloist.Job{Name: name, Schedule: soloist.At(time.Now().Add(time.Second)), Do: func(_ context.Context, run soloist.Run) error {
		run.Report("password", 3)
		stop()
		return errors.New("no disk")
	}}
	if err := c.Run(ctx, job); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// notifier starts a notifier whose only target is sent to by to.
func notifier(t *testing.T, s *soloisttest.Store, to sender, change func(*Target)) *Notifier {
	t.Helper()
	target := Target{Name: "pager", On: kinds, URL: "http://127.0.0.1:1/", Timeout: 10 * time.Second, Attempts: 3, Every: 10 * time.Minute}
	if change != nil {
		change(&target)
	}
	client := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
	n, err := begin([]Target{target}, Options{Client: client, Namespace: "shop", Logger: slog.New(slog.DiscardHandler)}, func(Target) (sender, error) { return to, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// A failure is told once, however many processes look, and again by none that starts later.
func TestOneNoticeForTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to := soloisttest.NewStore(), &receiver{}
		a := notifier(t, s, to, nil)
		notifier(t, s, to, nil)
		fail(t, s)
		time.Sleep(time.Minute)
		a.Close()
		time.Sleep(5 * time.Minute)
		notifier(t, s, to, nil)
		time.Sleep(5 * time.Minute)
		if to.count() != 1 {
			t.Fatalf("%d notices: %+v", to.count(), to.got)
		}
		n := to.got[0]
		if n.Kind != Failed || n.Job != "import" || n.Namespace != "shop" || n.Error != "no disk" || n.ExitCode == nil || *n.ExitCode != 3 || n.Token == 0 {
			t.Errorf("%+v", n)
		}
		if n.Output != "" {
			t.Errorf("the notice has the output of the command, which was not asked for: %q", n.Output)
		}
	})
}

// A run whose replica died is told as lost while nobody runs it, and not once another replica does.
func TestTakenOverIsNotLost(t *testing.T) {
	for name, row := range map[string]struct {
		crash soloist.Crash
		want  string
	}{"taken over": {soloist.CrashTakeOver, "[]"}, "given up": {soloist.CrashGiveUp, "[lost]"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, to := soloisttest.NewStore(), &receiver{}
				notifier(t, s, to, nil)
				ctx, stop := context.WithCancel(background)
				var replicas sync.WaitGroup
				mortal := s.Share()
				at := soloist.At(time.Now().Add(time.Second))
				replica := func(s *soloisttest.Store, do func(context.Context)) {
					c := soloisttest.NewReplica(t, s, soloist.Config{})
					replicas.Go(func() {
						job := soloist.Job{Name: "import", Schedule: at, Crash: row.crash, Do: func(ctx context.Context, _ soloist.Run) error { do(ctx); return nil }}
						if err := c.Run(ctx, job); err != nil {
							t.Error(err)
						}
					})
				}
				replica(mortal, func(ctx context.Context) { mortal.Stall(); <-ctx.Done() })
				time.Sleep(2 * time.Second)
				replica(s.Share(), func(ctx context.Context) { <-ctx.Done() })
				time.Sleep(5 * time.Minute)
				got := to.kinds()
				stop()
				mortal.Heal()
				replicas.Wait()
				if got != row.want {
					t.Errorf("told %s, want %s", got, row.want)
				}
			})
		})
	}
}

// A run that is interrupted by the end of its replica is told if no other one may make it, and is not if another one makes it.
func TestGivenUpAtTheEndOfAReplicaIsTold(t *testing.T) {
	for name, row := range map[string]struct {
		crash soloist.Crash
		want  string
	}{"taken over": {soloist.CrashTakeOver, "[]"}, "given up": {soloist.CrashGiveUp, "[lost]"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, to := soloisttest.NewStore(), &receiver{}
				notifier(t, s, to, nil)
				at := soloist.At(time.Now().Add(time.Second))
				replica := func(ctx context.Context, do func(context.Context) error) {
					c := soloisttest.NewReplica(t, s.Share(), soloist.Config{Drain: time.Second})
					job := soloist.Job{Name: "import", Schedule: at, Crash: row.crash, Do: func(ctx context.Context, _ soloist.Run) error { return do(ctx) }}
					if err := c.Run(ctx, job); err != nil {
						t.Error(err)
					}
				}
				first, end := context.WithTimeout(background, time.Minute)
				defer end()
				replica(first, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
				second, end := context.WithTimeout(background, 5*time.Minute)
				defer end()
				replica(second, func(context.Context) error { return nil })
				if got := to.kinds(); got != row.want {
					t.Errorf("told %s, want %s", got, row.want)
				}
			})
		})
	}
}

// A run that failed, and whose replica has shut down in the pause before the next attempt, is told once the last attempt has failed.
func TestFailureBeforeTheLastAttemptIsNotTold(t *testing.T) {
	for name, schedule := range map[string]soloist.Schedule{"scheduled": soloist.Every(time.Hour), "manual": soloist.Every(10_000 * time.Hour)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, to := soloisttest.NewStore(), &receiver{}
				replica := func() *soloist.Client {
					c := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
					go func() {
						job := soloist.Job{Name: "import", Schedule: schedule, Retry: soloist.Retry{Attempts: 2, Backoff: 20 * time.Minute}}
						job.Do = func(context.Context, soloist.Run) error { return errors.New("no disk") }
						if err := c.Run(background, job); err != nil {
							t.Error(err)
						}
					}()
					return c
				}
				first := replica()
				time.Sleep(time.Hour + time.Minute)
				if name == "manual" {
					if err := first.Admin().Trigger(background, "import"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute)
				}
				if err := first.Shutdown(background); err != nil {
					t.Fatal(err)
				}
				notifier(t, s, to, nil)
				time.Sleep(5 * time.Minute)
				if got := to.kinds(); strings.Contains(got, string(Failed)) {
					t.Errorf("told %s before the last attempt", got)
				}
				replica()
				time.Sleep(5 * time.Minute)
				if got := to.kinds(); !strings.Contains(got, string(Failed)) {
					t.Errorf("told %s after it", got)
				}
			})
		})
	}
}

// What failed while no process was there is told by the next one, if that is within an hour.
func TestNoticesAreMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to := soloisttest.NewStore(), &receiver{}
		fail(t, s)
		time.Sleep(30 * time.Minute)
		notifier(t, s, to, func(target *Target) { target.Output = true })
		time.Sleep(time.Minute)
		if to.count() != 1 || to.got[0].Output != "password" {
			t.Errorf("%+v", to.got)
		}
	})
}

// A receiver that fails gets the notice again, for as many attempts as it has, and not again afterwards.
func TestRetriesAreBounded(t *testing.T) {
	away := errors.New("away")
	for name, c := range map[string]struct {
		answer []error
		want   int
	}{
		"once more":    {[]error{away}, 2},
		"given up":     {[]error{away, away, away, away}, 3},
		"no use":       {[]error{permanent{away}}, 1},
		"first refuse": {[]error{away, permanent{away}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, to := soloisttest.NewStore(), &receiver{answer: c.answer}
				notifier(t, s, to, nil)
				fail(t, s)
				time.Sleep(10 * time.Minute)
				if to.count() != c.want {
					t.Errorf("%d attempts, want %d", to.count(), c.want)
				}
			})
		})
	}
}

// logged is a log that goroutines write.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// beginLogged starts a notifier on a store, with one attempt at each notice, that logs to the end of the test.
func beginLogged(t *testing.T, s store.Store, to sender, on ...Kind) (*Notifier, *logged) {
	t.Helper()
	return beginTarget(t, s, to, Target{Name: "pager", On: on, Timeout: time.Second, Attempts: 1, Every: time.Hour})
}

func beginTarget(t *testing.T, s store.Store, to sender, target Target) (*Notifier, *logged) {
	t.Helper()
	log := &logged{}
	opts := Options{Client: soloisttest.NewReplica(t, s, soloist.Config{}), Logger: slog.New(slog.NewTextHandler(log, nil))}
	n, err := begin([]Target{target}, opts, func(Target) (sender, error) { return to, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n, log
}

// What was given up is tried once more by the next process, and by no other one after that.
func TestWhatWasGivenUpIsTriedOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		s, to := soloisttest.NewStore(), &receiver{answer: []error{away, away, away, away}}
		fail(t, s)
		for i, want := range []int{1, 2, 2, 2} {
			n, log := beginLogged(t, s.Share(), to, Failed)
			time.Sleep(5 * time.Minute)
			n.Close()
			if to.count() != want || i > 1 && strings.Contains(log.String(), "level=") {
				t.Errorf("%d attempts by %d processes, want %d: %s", to.count(), i+1, want, log)
			}
		}
	})
}

// A notice of missed times that another process keeps for too long is dropped, which the log says, and holds up no other one for longer than that.
func TestMissedTimesAreDroppedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to := soloisttest.NewStore(), &receiver{}
		n, log := beginLogged(t, s, to, Missed)
		other := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		id := newNotice(Missed, "import", time.Now(), time.Now().Truncate(time.Hour)).ID
		claim, err := other.Elements(prefix+"pager", soloist.ElementsOptions{}).Claim(background, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range []string{"import", "export"} {
			n.Observe(background, soloist.Event{Kind: soloist.EventMissed, Subject: soloist.Subject{Kind: soloist.KindJob, Name: job}, Missed: 1})
		}
		time.Sleep(lookback - time.Minute)
		if to.count() != 0 || strings.Contains(log.String(), "is dropped") {
			t.Errorf("%+v, %s", to.got, log)
		}
		time.Sleep(2 * time.Minute)
		if to.count() != 1 || to.got[0].Job != "export" || !strings.Contains(log.String(), "could not be sent in time") {
			t.Errorf("%+v, %s", to.got, log)
		}
		if err := claim.Release(); err != nil {
			t.Fatal(err)
		}
	})
}

// A notice that cannot be written is given up, and nothing is sent in its place.
func TestNoticeThatCannotBeWritten(t *testing.T) {
	to := &receiver{}
	tg := &target{Target: Target{Timeout: time.Second, Attempts: 3}, sender: to, log: slog.New(slog.DiscardHandler)}
	var given undelivered
	if err := tg.try(background, Notice{At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}); !errors.As(err, &given) || to.count() != 0 {
		t.Errorf("%v, and %+v was sent", err, to.got)
	}
}

// listing is a store that takes long to list, and knows for how long it did.
type listing struct {
	*soloisttest.Store
	took atomic.Int64
}

func (s *listing) List(ctx context.Context, prefix string) iter.Seq2[store.Record, error] {
	return s.ListAfter(ctx, prefix, "")
}

func (s *listing) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[store.Record, error] {
	const long = 5 * time.Second
	time.Sleep(long)
	s.took.Add(int64(long))
	return s.Store.ListAfter(ctx, prefix, after)
}

// The jobs of a store that takes long to list them are read for a tenth of the time at most. What needs no more is forgotten in the end.
func TestJobsAreReadSeldomIfThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &listing{Store: soloisttest.NewStore()}
		n, _ := beginLogged(t, s, &receiver{}, Failed)
		time.Sleep(time.Hour)
		if took := time.Duration(s.took.Load()); took == 0 || took > time.Hour/10 {
			t.Errorf("in an hour they were read for %v", took)
		}
		n.Close()
		now := time.Now()
		tg := n.targets[0]
		tg.settled = map[string]time.Time{"old": now.Add(-retain - 1), "new": now.Add(-retain)}
		if tg.look(background, now); len(tg.settled) != 1 || tg.settled["new"].IsZero() {
			t.Errorf("%v is known still", tg.settled)
		}
	})
}

// A store that is away delays a notice.
func TestNoticeWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to := soloisttest.NewStore(), &receiver{}
		shared := s.Share()
		_, log := beginLogged(t, shared, to, kinds...)
		time.Sleep(time.Minute)
		shared.Break(nil)
		fail(t, s)
		time.Sleep(5 * time.Minute)
		if to.count() != 0 {
			t.Fatal("a notice was sent that cannot be recorded")
		}
		if !strings.Contains(log.String(), "the jobs cannot be read") {
			t.Errorf("the log does not say why nothing is sent: %s", log)
		}
		shared.Heal()
		time.Sleep(5 * time.Minute)
		if to.count() != 1 {
			t.Errorf("%d notices", to.count())
		}
	})
}

// Missed times are in no record: their notice waits for a store that is away, and for a process that has it and dies.
func TestMissedTimesWaitForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to := soloisttest.NewStore(), &receiver{}
		shared := s.Share()
		client := soloisttest.NewReplica(t, shared, soloist.Config{})
		target := Target{Name: "pager", On: []Kind{Missed}, Timeout: time.Second, Attempts: 1, Every: time.Hour}
		n, err := begin([]Target{target}, Options{Client: client, Logger: slog.New(slog.DiscardHandler)}, func(Target) (sender, error) { return to, nil })
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		time.Sleep(time.Minute)
		missed := func(job string) {
			n.Observe(background, soloist.Event{Kind: soloist.EventMissed, Subject: soloist.Subject{Kind: soloist.KindJob, Name: job}, Missed: 1})
		}
		shared.Break(nil)
		missed("import")
		time.Sleep(5 * time.Minute)
		shared.Heal()
		time.Sleep(5 * time.Minute)
		if to.count() != 1 {
			t.Fatalf("%d notices after the store was away", to.count())
		}
		other := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		id := newNotice(Missed, "export", time.Now(), time.Now().Truncate(target.Every)).ID
		claim, err := other.Elements(prefix+"pager", soloist.ElementsOptions{}).Claim(background, id)
		if err != nil {
			t.Fatal(err)
		}
		missed("export")
		time.Sleep(time.Minute)
		if err := claim.Release(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if to.count() != 2 {
			t.Errorf("%d notices after another process gave one back", to.count())
		}
	})
}

// A receiver that was away for a notice gets the next one soon after it is there again.
func TestReceiverComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to := soloisttest.NewStore(), &receiver{}
		var back atomic.Bool
		notifier(t, s, senderFunc(func(ctx context.Context, n Notice, body []byte) error {
			if !back.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return to.send(ctx, n, body)
		}), nil)
		fail(t, s)
		time.Sleep(time.Minute) // three attempts and their pauses take 33 s
		back.Store(true)
		failJob(t, s, "export")
		time.Sleep(2 * lookEvery)
		if to.count() != 1 || to.got[0].Job != "export" {
			t.Errorf("%+v", to.got)
		}
	})
}

// A target is told only what it asks for. Missed times come from the event; too many of them are dropped rather than kept.
func TestMissedTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to := soloisttest.NewStore(), &receiver{}
		n := notifier(t, s, to, func(target *Target) { target.On = []Kind{Missed} })
		silent := &receiver{}
		deaf := notifier(t, s, silent, func(target *Target) { target.Name, target.On = "deaf", []Kind{Overdue} })
		deaf.Observe(background, soloist.Event{Kind: soloist.EventMissed, Subject: soloist.Subject{Kind: soloist.KindJob, Name: "import"}, Missed: 7})
		n.Observe(background, soloist.Event{Kind: soloist.EventMissed, Subject: soloist.Subject{Kind: soloist.KindJob, Name: "import"}, Missed: 7})
		n.Observe(background, soloist.Event{Kind: soloist.EventRunEnd, Subject: soloist.Subject{Kind: soloist.KindJob, Name: "import"}})
		fail(t, s)
		time.Sleep(time.Minute)
		if to.count() != 1 || to.got[0].Kind != Missed || to.got[0].Times != 7 || !strings.Contains(to.got[0].Text, "at 7 of") {
			t.Errorf("%+v", to.got)
		}
		if silent.count() != 0 {
			t.Errorf("what was not asked for: %+v", silent.got)
		}
	})
}

// Missed times are told to each target that asks for them, whichever others there are before it.
func TestMissedTimesOfSeveralTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := soloisttest.NewReplica(t, soloisttest.NewStore(), soloist.Config{})
		to := map[string]*receiver{"deaf": {}, "pager": {}, "mail": {}}
		var targets []Target
		for _, name := range []string{"deaf", "pager", "mail"} {
			target := Target{Name: name, On: []Kind{Failed, Missed}, Timeout: time.Second, Attempts: 1, Every: time.Minute}
			if name == "deaf" {
				target.On = []Kind{Failed}
			}
			targets = append(targets, target)
		}
		n, err := begin(targets, Options{Client: client, Logger: slog.New(slog.DiscardHandler)}, func(t Target) (sender, error) { return to[t.Name], nil })
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		n.Observe(background, soloist.Event{Kind: soloist.EventMissed, Subject: soloist.Subject{Kind: soloist.KindJob, Name: "import"}, Missed: 7})
		time.Sleep(time.Minute)
		for name, want := range map[string]string{"deaf": "[]", "pager": "[missed]", "mail": "[missed]"} {
			if got := to[name].kinds(); got != want {
				t.Errorf("%s was told %s, want %s", name, got, want)
			}
		}
	})
}

// A slow receiver holds up neither the program nor another target.
func TestSlowReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, quick := soloisttest.NewStore(), &receiver{}
		slow := senderFunc(func(ctx context.Context, _ Notice, _ []byte) error { <-ctx.Done(); return ctx.Err() })
		n := notifier(t, s, slow, func(target *Target) { target.Name = "slow" })
		notifier(t, s, quick, nil)
		begin := time.Now()
		for i := range 3 * maxQueue {
			n.Observe(background, soloist.Event{Kind: soloist.EventMissed, Subject: soloist.Subject{Kind: soloist.KindJob, Name: fmt.Sprint(i)}, Missed: 1})
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("Observe waited %v for a slow receiver", took)
		}
		fail(t, s)
		time.Sleep(30 * time.Second)
		if quick.count() != 1 {
			t.Errorf("the other target got %d notices", quick.count())
		}
		begin = time.Now()
		n.Close()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("Close waited %v for a slow receiver", took)
		}
	})
}

// The jobs are read while a receiver does not answer: what it is to be told waits for it, for an hour, also if the records of the jobs have forgotten it meanwhile.
func TestNoticesWaitForASlowReceiver(t *testing.T) {
	for away, want := range map[time.Duration]string{10 * time.Minute: "[first second]", lookback + 10*time.Minute: "[first]"} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, to, back := soloisttest.NewStore(), &receiver{}, time.Now().Add(away)
				n, log := beginPatient(t, s.Share(), senderFunc(func(ctx context.Context, n Notice, body []byte) error {
					if !sleep(ctx, time.Until(back)) {
						return ctx.Err()
					}
					return to.send(ctx, n, body)
				}))
				failJob(t, s, "first")
				time.Sleep(time.Minute)
				c := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
				ctx, stop := context.WithCancel(background)
				runs := 0
				job := soloist.Job{Name: "second", Schedule: soloist.Every(2 * lookEvery), Do: func(context.Context, soloist.Run) error {
					if runs++; runs == 1 {
						return errors.New("no disk")
					}
					if runs == 22 {
						stop()
					}
					return nil
				}}
				if err := c.Run(ctx, job); err != nil {
					t.Fatal(err)
				}
				info, err := c.Admin().Job(background, "second")
				if err != nil || slices.ContainsFunc(info.Runs, func(r soloist.RunRecord) bool { return r.Outcome == soloist.OutcomeFailed }) {
					t.Fatalf("its record has the run that failed: %+v, %v", info.Runs, err)
				}
				releaseLeader(t, c) // this process leads again
				time.Sleep(time.Until(back) + time.Minute)
				n.Close()
				told := []string{}
				for _, n := range to.got {
					told = append(told, n.Job)
				}
				if fmt.Sprint(told) != want {
					t.Errorf("told of %v, want %v", told, want)
				}
				if dropped := strings.Contains(log.String(), "could not be sent in time"); dropped != (away > lookback) {
					t.Errorf("dropped, after %v: %v\n%s", away, dropped, log)
				}
			})
		})
	}
}

// beginPatient is beginLogged with a target that is tried for long.
func beginPatient(t *testing.T, s store.Store, to sender) (*Notifier, *logged) {
	t.Helper()
	return beginTarget(t, s, to, Target{Name: "pager", On: []Kind{Failed}, Timeout: 5 * time.Minute, Attempts: 20, Every: time.Minute})
}

// releaseLeader ends the leadership of the one target by force.
func releaseLeader(t *testing.T, c *soloist.Client) {
	t.Helper()
	for leader, err := range c.Admin().Leaders(background) {
		if err == nil {
			err = c.Admin().Release(background, leader, "a test")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A notice that waits in a process that leads no more is sent by the next leader. When the first one leads again, it neither sends it nor logs that it is dropped.
func TestWaitingNoticesAreToldByTheNextLeader(t *testing.T) {
	for _, wait := range []time.Duration{lookback + time.Minute, retain + time.Hour} { // after the second the store does not know that it was told
		synctest.Test(t, func(t *testing.T) {
			s, to := soloisttest.NewStore(), &receiver{}
			_, log := beginPatient(t, s.Share(), senderFunc(func(ctx context.Context, _ Notice, _ []byte) error {
				<-ctx.Done()
				return ctx.Err()
			}))
			failJob(t, s, "first")
			time.Sleep(time.Minute)
			other, _ := beginPatient(t, s.Share(), to)
			time.Sleep(time.Minute)
			releaseLeader(t, soloisttest.NewReplica(t, s.Share(), soloist.Config{}))
			time.Sleep(wait)
			if to.count() != 1 {
				t.Fatalf("the next leader told %d notices", to.count())
			}
			if _, err := s.Sweep(background, 1000); err != nil {
				t.Fatal(err)
			}
			other.Close()
			time.Sleep(5 * time.Minute)
			if to.count() != 1 || strings.Contains(log.String(), "is dropped") {
				t.Errorf("%d notices: %s", to.count(), log)
			}
		})
	}
}

// A notice that a job is overdue, which could not be sent while that was true, is not sent after the job has run, also if another process has led meanwhile.
func TestOverdueIsNotToldAfterTheJobHasRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { testOverdueIsNotTold(t, soloisttest.NewStore()) })
}

// One record that something else has written, and that nobody mends, does not keep it from being known which jobs are overdue.
func TestOverdueIsKnownBesideAForeignRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		spoil(t, s, "foreign")
		testOverdueIsNotTold(t, s)
	})
}

// A record that nobody can read is told once, and again after another one has come, or when it has been mended and comes again.
func TestAForeignRecordIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to := soloisttest.NewStore(), &receiver{}
		_, log := beginLogged(t, s, to, kinds...)
		told := func(want int, what string) {
			t.Helper()
			time.Sleep(time.Hour)
			if got := strings.Count(log.String(), "cannot be read"); got != want {
				t.Errorf("%s: told %d times, want %d:\n%.2000s", what, got, want, log)
			}
		}
		spoil(t, s, "foreign")
		fail(t, s)
		told(1, "in an hour")
		spoil(t, s, "other")
		told(2, "in another hour, with one more record")
		for _, name := range []string{"foreign", "other"} {
			write(t, s, name, "")
		}
		told(2, "once they are mended")
		spoil(t, s, "foreign")
		told(3, "when one comes again")
		if to.count() != 1 {
			t.Errorf("%d notices of one failure", to.count())
		}
	})
}

// spoil writes the record of a job as something else does.
func spoil(t *testing.T, s store.Store, job string) {
	t.Helper()
	write(t, s, job, "not of soloist")
}

// write writes the record of a job of which nobody has the lease.
func write(t *testing.T, s store.Store, job, state string) {
	t.Helper()
	const name, holder = "job/", "something else"
	granted, err := s.Acquire(background, []store.Claim{{Name: name + job, Holder: holder, TTL: time.Second}})
	if err != nil || granted[0].Err != nil {
		t.Fatal(err, granted)
	}
	released, err := s.Release(background, []store.Release{{Name: name + job, Holder: holder, Token: granted[0].Grant.Token, State: []byte(state), Retain: store.Forever}})
	if err != nil || released[0] != nil {
		t.Fatal(err, released)
	}
}

func testOverdueIsNotTold(t *testing.T, s *soloisttest.Store) {
	t.Helper()
	to := &receiver{}
	var back atomic.Bool
	target := Target{Name: "pager", On: []Kind{Overdue}, Timeout: 5 * time.Minute, Attempts: 20, Every: time.Minute}
	_, log := beginTarget(t, s.Share(), senderFunc(func(ctx context.Context, n Notice, body []byte) error {
		if !back.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return to.send(ctx, n, body)
	}), target)
	run := func() {
		ctx, stop := context.WithCancel(background)
		job := soloist.Job{Name: "x", Schedule: soloist.Every(time.Hour), Missed: soloist.MissedOnce, Do: func(context.Context, soloist.Run) error { stop(); return nil }}
		if err := soloisttest.NewReplica(t, s.Share(), soloist.Config{}).Run(ctx, job); err != nil {
			t.Fatal(err)
		}
	}
	run()
	time.Sleep(time.Hour + 5*time.Minute) // it is overdue, which cannot be told
	other, _ := beginTarget(t, s.Share(), to, target)
	run()
	releaseLeader(t, soloisttest.NewReplica(t, s.Share(), soloist.Config{}))
	back.Store(true)
	time.Sleep(30 * time.Minute)
	other.Close()
	time.Sleep(2 * time.Minute)
	if to.count() != 0 {
		t.Errorf("told %+v: %s", to.got, log)
	}
}

// A process that ends with notices that wait for their receiver says so.
func TestWaitingNoticesWhenTheProcessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := soloisttest.NewStore()
		n, log := beginPatient(t, s.Share(), senderFunc(func(ctx context.Context, _ Notice, _ []byte) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		failJob(t, s, "first")
		failJob(t, s, "second")
		time.Sleep(time.Minute)
		n.Close()
		if !strings.Contains(log.String(), "notices=2") {
			t.Errorf("the log does not say that two notices were not sent: %s", log)
		}
	})
}

// A job that is overdue while a receiver does not answer for more than an hour is still told as overdue when it answers again: the notice of before is dropped, and the next
// look makes another one.
func TestStillOverdueWhenTheReceiverComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to, back := soloisttest.NewStore(), &receiver{}, time.Now().Add(lookback+30*time.Minute)
		notifier(t, s, senderFunc(func(ctx context.Context, n Notice, body []byte) error {
			if !sleep(ctx, time.Until(back)) {
				return ctx.Err()
			}
			return to.send(ctx, n, body)
		}), func(target *Target) {
			target.On, target.Timeout, target.Attempts = []Kind{Failed, Overdue}, 5*time.Minute, 20
		})
		failJob(t, s, "first")
		time.Sleep(time.Minute) // it is being sent
		c := soloisttest.NewReplica(t, s.Share(), soloist.Config{})
		ctx, stop := context.WithCancel(background)
		if err := c.Run(ctx, soloist.Job{Name: "second", Schedule: soloist.Every(time.Minute), Do: func(context.Context, soloist.Run) error { stop(); return nil }}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(back) - time.Second)
		if to.count() != 0 {
			t.Fatalf("sent: %+v", to.got)
		}
		time.Sleep(time.Minute)
		if to.kinds() != "[failed overdue]" {
			t.Errorf("told %s, want a failure and a job that is overdue", to.kinds())
		}
	})
}

type senderFunc func(ctx context.Context, n Notice, body []byte) error

func (f senderFunc) send(ctx context.Context, n Notice, body []byte) error { return f(ctx, n, body) }

// hook returns a webhook to a server, with a path and a key that are secret.
func hook(t *testing.T, h http.HandlerFunc) sender {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("kkk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Target{URL: server.URL + "/sss?token=sss", SecretFile: key}.sender(Options{Agent: "soloist/test"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A receiver can tell from the signature that a notice is ours, and when it was sent.
func TestWebhook(t *testing.T) {
	var problem atomic.Value
	s := hook(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		stamp, sum, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Soloist-Signature"), "t="), ",v1=")
		mac := hmac.New(sha256.New, []byte("kkk"))
		fmt.Fprintf(mac, "%s.%s", stamp, body)
		var n Notice
		if hex.EncodeToString(mac.Sum(nil)) != sum || json.Unmarshal(body, &n) != nil || n.Job != "import" ||
			r.Header.Get("Idempotency-Key") != `"an ID"` || r.Header.Get("Authorization") != "Basic c29sb2lzdDpwcHA=" || r.UserAgent() != "soloist/test" || r.Method != http.MethodPost {
			problem.Store(fmt.Sprint(r.Header, string(body)))
		}
	})
	s.(*webhook).url.User = url.UserPassword("soloist", "ppp")
	n := Notice{ID: "an ID", Kind: Failed, Job: "import"}
	body, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.send(background, n, body); err != nil || problem.Load() != nil {
		t.Error(err, problem.Load())
	}
}

// What a server says decides whether another attempt is worth it. No error has the path, the query or the key, which are secrets.
func TestWebhookAnswers(t *testing.T) {
	var asked atomic.Int32
	for status, again := range map[int]bool{200: false, 204: false, 301: false, 307: false, 400: false, 401: false, 404: false, 408: true, 429: true, 500: true, 503: true} {
		s := hook(t, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Location", "/elsewhere")
			if status == 301 {
				w.Header().Set("Location", "http://[sss")
			}
			w.WriteHeader(status)
		})
		err := s.send(background, Notice{}, []byte("{}"))
		var hopeless permanent
		if (err == nil) != (status < 300) || err != nil && errors.As(err, &hopeless) == again {
			t.Errorf("%d: %v", status, err)
		}
		if err != nil && (strings.Contains(err.Error(), "sss") || strings.Contains(err.Error(), "kkk")) {
			t.Errorf("%d: the error has a secret: %v", status, err)
		}
	}
	if asked.Load() != 11 {
		t.Errorf("%d requests for 11 answers: a redirect was followed", asked.Load())
	}
	rude := hook(t, func(w http.ResponseWriter, r *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			defer connection.Close()
			_, _ = fmt.Fprintf(connection, "HTTP/1.1 404 nothing at %s\r\nContent-Length: 0\r\n\r\n", r.URL)
		}
	})
	if err := rude.send(background, Notice{}, nil); err == nil || !strings.Contains(err.Error(), "responded 404") || strings.Contains(err.Error(), "sss") {
		t.Errorf("a status that repeats the path: %v", err)
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	s, err := Target{URL: closed.URL + "/sss"}.sender(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.send(background, Notice{}, nil); err == nil || strings.Contains(err.Error(), "sss") {
		t.Errorf("without a server: %v", err)
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	if err := hook(t, func(http.ResponseWriter, *http.Request) {}).send(ctx, Notice{}, nil); err == nil || strings.Contains(err.Error(), "sss") {
		t.Errorf("after the time-out: %v", err)
	}
}

// Secrets that are not there are an error that names the file alone.
func TestSecretFiles(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, target := range []Target{{URLFile: "missing"}, {URLFile: empty}, {URL: "https://x", SecretFile: empty}, {URL: "https://x", SecretFile: "missing"}} {
		file, why := target.URLFile+target.SecretFile, "it is empty"
		if file != empty {
			why = "no such file"
		}
		if _, err := target.sender(Options{}); err == nil || !strings.Contains(err.Error(), "-file: ") || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), why) {
			t.Errorf("%+v: %v", target, err)
		}
	}
	if _, err := New([]Target{{Name: "pager", URLFile: "missing"}}, Options{}); err == nil || !strings.HasPrefix(err.Error(), "pager: url-file: ") {
		t.Errorf("%v", err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("ftp://sss\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Target{URLFile: other}).sender(Options{}); err == nil || strings.Contains(err.Error(), "sss") {
		t.Errorf("a file without the URL of a webhook: %v", err)
	}
}

// Words that a shell would read reach a command as they are, and it gets the notice, but not the URL of the store.
func TestCommandRunsWithoutAShell(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	c := &command{
		args:    []string{"/bin/sh", "-c", `{ cat; printf '|%s' "$1" "$SOLOIST_NOTICE" "$SOLOIST_NAME" "$SOLOIST_STORE"; } >"$2"`, "sh", "$(touch x); `y`", out},
		environ: []string{"SOLOIST_STORE=redis://secret", "PATH=" + os.Getenv("PATH")},
	}
	if err := c.send(background, Notice{ID: "1", Kind: Failed, Job: "$(import)"}, []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if err != nil || string(got) != "{\"a\":1}|$(touch x); `y`|failed|$(import)|" {
		t.Errorf("%s %v", got, err)
	}
}

func TestCommandFails(t *testing.T) {
	var hopeless permanent
	err := (&command{args: []string{"/bin/sh", "-c", "echo no mail >&2; echo more >&2; exit 3"}}).send(background, Notice{}, nil)
	if err == nil || errors.As(err, &hopeless) || !strings.Contains(err.Error(), "exit status 3: no mail") || strings.Contains(err.Error(), "more") {
		t.Errorf("%v", err)
	}
	if err := (&command{args: []string{"/nowhere/mail"}}).send(background, Notice{}, nil); !errors.As(err, &hopeless) {
		t.Errorf("a program that is not there: %v", err)
	}
	busy := filepath.Join(t.TempDir(), "busy")
	written, err := os.OpenFile(busy, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = written.Close() }()
	_, _ = written.WriteString("#!/bin/sh\n")
	err = (&command{args: []string{busy}}).send(background, Notice{}, nil)
	if err != nil && !errors.Is(err, syscall.ETXTBSY) || errors.As(err, &hopeless) { // some systems run it
		t.Errorf("a program that is being written: %v, permanent %t", err, errors.As(err, &hopeless))
	}
	var short start
	if _, _ = short.Write([]byte("no")); string(short.text()) != "no" {
		t.Errorf("%q of its errors is kept", short.text())
	}
	var said start
	for range 100 {
		_, _ = said.Write(bytes.Repeat([]byte("x"), 1000))
	}
	if len(said.text()) != 200 {
		t.Errorf("%d bytes of its errors are kept", len(said.text()))
	}
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	begun := filepath.Join(t.TempDir(), "begun")
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(begun); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	err = (&command{args: []string{"/bin/sh", "-c", `touch "$0"; while :; do sleep 60; done`, begun}}).send(ctx, Notice{}, nil)
	if err == nil || errors.As(err, &hopeless) || !strings.Contains(err.Error(), "took too long") {
		t.Errorf("a command that does not end: %v", err)
	}
	err = (&command{args: []string{"/bin/true"}}).send(ctx, Notice{}, nil)
	if !errors.Is(err, context.Canceled) || errors.As(err, &hopeless) {
		t.Errorf("a command whose time is over before it begins: %v", err)
	}
}
